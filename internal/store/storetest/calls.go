package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Calls makes a call that succeeds and one that is refused, one of a hot verb and one of another
// verb. It compares the calls that an observer gets. A house test checks that each verb calls its
// observer.
func Calls(t *testing.T, open func(t *testing.T, calls store.Calls) store.Store) {
	t.Helper()
	var heard []store.Call
	opened, silent := open(t, func(c store.Call) { heard = append(heard, c) }), open(t, nil)
	heard = nil // drops the calls that opening the store made
	if _, err := opened.Due(t.Context(), store.Due{Max: 1}); err != nil {
		t.Fatal(err)
	}
	unknown := store.PutEndpoint{Endpoint: postrider.Endpoint{ID: postrider.EndpointID{1}, Revision: 7}}
	_, err := opened.PutEndpoint(t.Context(), unknown)
	if !errors.Is(err, postrider.ErrNotFound) || !strings.HasPrefix(err.Error(), "put endpoint ep_") {
		t.Errorf("an endpoint that does not exist was changed: %v, want ErrNotFound, and what was being done", err)
	}
	if len(heard) != 2 || heard[0].Verb != "Due" || heard[0].Err != nil || heard[1].Verb != "PutEndpoint" || !errors.Is(heard[1].Err, err) {
		t.Fatalf("heard of %+v, want Due, and PutEndpoint with its error", heard)
	}
	if took := heard[0].Took; took <= 0 || took > time.Hour {
		t.Errorf("Due took %v", took)
	}
	if _, err := silent.Due(t.Context(), store.Due{Max: 1}); err != nil {
		t.Errorf("without an observer: %v", err)
	}
}
