package postrider_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestTheStateOfADestination(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name  string
		d     postrider.Destination
		want  postrider.DestinationState
		wants bool // whether it gets notices of the kind NoticeDisabled
	}{
		{"a new one waits", postrider.Destination{}, postrider.DestinationWaiting, true},
		{"a confirmed one is active", postrider.Destination{ConfirmedAt: at}, postrider.DestinationActive, true},
		{"one that was refused is refused", postrider.Destination{ConfirmedAt: at, RefusedAt: at}, postrider.DestinationRefused, true},
		{
			"one whose reader wants nothing",
			postrider.Destination{ConfirmedAt: at, Unsubscribed: []postrider.NoticeKind{postrider.AllKinds}},
			postrider.DestinationUnsubscribed, false,
		},
		{"one whose reader does not want the kind", postrider.Destination{
			ConfirmedAt:  at,
			Unsubscribed: []postrider.NoticeKind{postrider.NoticeDisabled},
		}, postrider.DestinationActive, false},
		{
			"one that has other kinds",
			postrider.Destination{ConfirmedAt: at, Kinds: []postrider.NoticeKind{postrider.NoticeReplay}},
			postrider.DestinationActive, false,
		},
		{"one that has no kinds", postrider.Destination{ConfirmedAt: at, Kinds: []postrider.NoticeKind{}}, postrider.DestinationActive, false},
	} {
		if got := tt.d.State(); got != tt.want {
			t.Errorf("%s: State = %s, want %s", tt.name, got, tt.want)
		}
		if got := tt.d.Wants(postrider.NoticeDisabled); got != tt.wants {
			t.Errorf("%s: Wants = %t, want %t", tt.name, got, tt.wants)
		}
	}
}

func TestDestinationLinks(t *testing.T) {
	t.Parallel()
	for _, want := range []postrider.DestinationLink{
		{Destination: postrider.DestinationID{1, 2}, Action: postrider.LinkConfirm, ExpiresAt: time.Date(2026, 11, 9, 8, 0, 0, 0, time.UTC)},
		{Destination: postrider.DestinationID{3}, Action: postrider.LinkUnsubscribe, Kind: postrider.NoticeDisabled},
		{Destination: postrider.DestinationID{3}, Action: postrider.LinkUnsubscribe, Kind: postrider.AllKinds},
	} {
		if got, ok := postrider.DecodeDestinationLink(want.Encode()); !ok || got != want {
			t.Errorf("decoded %+v, %t, want %+v", got, ok, want)
		}
	}
	for _, l := range []postrider.DestinationLink{
		{Action: postrider.LinkUnsubscribe}, {Action: postrider.LinkConfirm, Kind: postrider.NoticeReplay}, {Action: "delete"}, {},
	} {
		if got, ok := postrider.DecodeDestinationLink(l.Encode()); ok {
			t.Errorf("%+v is a link: %+v", l, got)
		}
	}
}

func FuzzDestinationLink(f *testing.F) {
	f.Add(postrider.DestinationLink{Action: postrider.LinkConfirm}.Encode())
	f.Add(postrider.DestinationLink{Action: postrider.LinkUnsubscribe, Kind: postrider.AllKinds}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, ok := postrider.DecodeDestinationLink(b); ok && !bytes.Equal(l.Encode(), b) {
			t.Errorf("%x is decoded as %+v, which is encoded as %x", b, l, l.Encode())
		}
	})
}
