package postrider_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

func TestFaultsFindsEveryOneInOrder(t *testing.T) {
	t.Parallel()
	a := &postrider.InvalidError{Field: "a", Reason: "must be"}
	b := &postrider.InvalidError{Field: "b", Reason: "must be"}
	c := &postrider.InvalidError{Field: "c", Reason: "must be"}
	for _, tt := range []struct {
		name string
		err  error
		want []*postrider.InvalidError
	}{
		{"none in nil", nil, nil},
		{"none in another error", io.EOF, nil},
		{"one by itself", a, []*postrider.InvalidError{a}},
		{"one inside another error", fmt.Errorf("create endpoint: %w", a), []*postrider.InvalidError{a}},
		{"joined ones among others", errors.Join(a, io.EOF, b), []*postrider.InvalidError{a, b}},
		{
			"joins inside joins", errors.Join(errors.Join(a, b), fmt.Errorf("policy: %w", errors.Join(c))),
			[]*postrider.InvalidError{a, b, c},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, postrider.Faults(tt.err)); diff != "" {
				t.Errorf("Faults(%v) differs (-want +got):\n%s", tt.err, diff)
			}
		})
	}
}

func TestTypedErrorsAreOfTheirKind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		kind error
		text string
	}{
		{&postrider.InvalidError{Field: "url", Reason: "must be https"}, postrider.ErrInvalid, "url must be https"},
		{&postrider.KeyTakenError{Index: 3}, postrider.ErrConflict, "the idempotency key of event 3 was used for other content"},
		{&postrider.OverloadError{}, postrider.ErrBusy, "more events are published than can be delivered"},
	} {
		if !errors.Is(tt.err, tt.kind) {
			t.Errorf("%v is not %v", tt.err, tt.kind)
		}
		if got := tt.err.Error(); got != tt.text {
			t.Errorf("%T says %q, want %q", tt.err, got, tt.text)
		}
	}
}
