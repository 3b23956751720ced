package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestSubscriptionsComeBack(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range []postrider.Subscription{
		{EventTypes: []postrider.Pattern{}},
		{EventTypes: []postrider.Pattern{"order.*", "a"}},
		{EventTypes: []postrider.Pattern{"a", "order.*"}},
		{EventTypes: []postrider.Pattern{"*"}, Filter: "{\"data\": {\"a\": [1.0, \"<é>\\u0000\"]}}\n"},
		{EventTypes: []postrider.Pattern{"*"}, Filter: `{"data": {"a": [1]}}`, Changed: []string{"$.a", "$"}},
		{EventTypes: []postrider.Pattern{"*"}, Changed: []string{"$", "$.a"}},
	} {
		document := store.EncodeSubscription(s)
		got, err := store.DecodeSubscription([]byte(document))
		if diff := cmp.Diff(s, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", document, err, diff)
		}
		if seen[document] {
			t.Errorf("another subscription has the form %s too", document)
		}
		seen[document] = true
	}
	if none, empty := store.EncodeSubscription(postrider.Subscription{}), store.EncodeSubscription(postrider.Subscription{
		EventTypes: []postrider.Pattern{}, Changed: []string{},
	}); none != empty {
		t.Errorf("no lists have the form %s, and empty ones %s", none, empty)
	}
}

func TestASubscriptionOfANewerProgramIsNotKnown(t *testing.T) {
	t.Parallel()
	for _, document := range []string{`{"event_types":["*"],"colours":["red"]}`, `{"event_types":7}`, `{}`, ``} {
		if _, err := store.DecodeSubscription([]byte(document)); !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("DecodeSubscription(%s): %v, want %v", document, err, postrider.ErrNotFound)
		}
	}
}

// A fan-out job leaves out nothing for an option that only a newer program knows.
func TestASubscriptionOfANewerProgramIsReadInPart(t *testing.T) {
	t.Parallel()
	for document, want := range map[string]postrider.Subscription{
		`{"event_types":["a","b.*"],"filter":"{}","colours":["red"]}`: {EventTypes: []postrider.Pattern{"a", "b.*"}, Filter: "{}"},
		`{"channels":7,"changed":["$.a"],"event_types":["*"]}`:        {EventTypes: []postrider.Pattern{"*"}, Changed: []string{"$.a"}},
	} {
		if diff := cmp.Diff(want, store.SalvageSubscription([]byte(document))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", document, diff)
		}
	}
}

func TestAnEventTellsItsTimeToTheMicrosecond(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 29, 3, 54, 7, 0, time.UTC)
	for _, at := range []time.Duration{0, time.Microsecond, 999 * time.Microsecond, time.Millisecond, 500_123 * time.Microsecond} {
		now := start.Add(at)
		id := store.NewEventID(store.NewIDs(func() time.Time { return now }, nil))
		for _, id := range []postrider.EventID{id, postrider.TestEventID(id)} {
			if early := now.Sub(store.EventTime(id)); early < 0 || early >= time.Microsecond {
				t.Errorf("the event of %s has the time %s", now, store.EventTime(id))
			}
		}
	}
}
