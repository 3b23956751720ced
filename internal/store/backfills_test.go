package store_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// undelivered has one page of events.
type undelivered struct {
	store.Replays
	page store.Undelivered
}

func (u undelivered) Undelivered(context.Context, store.UndeliveredQuery) (store.Undelivered, error) {
	return u.page, nil
}

// If comparisons are slow, the page ends after the last event that was compared.
func TestFindUndeliveredEndsWithItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := store.Undelivered{To: postrider.EventID{9}, Done: true}
		for i := range byte(5) {
			page.Events = append(page.Events, postrider.Event{ID: postrider.EventID{i + 1}})
		}
		m, err := store.FindUndelivered(t.Context(), undelivered{page: page}, postrider.ReplayJob{}, func(*postrider.Event) bool {
			time.Sleep(400 * time.Millisecond)
			return true
		})
		if err != nil || len(m.Items) != 3 || m.To != postrider.DeliveryID(page.Events[2].ID) || m.Done {
			t.Errorf("%d matches up to %s, done %v, %v, want 3 up to the third event", len(m.Items), m.To, m.Done, err)
		}
	})
}
