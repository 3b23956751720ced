package app

import (
	"context"
	"errors"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// noKeys is a store whose keys cannot be read.
type noKeys struct{ store.Store }

func (noKeys) Keys(context.Context, store.KeyQuery) (store.Page[postrider.APIKey], error) {
	return store.Page[postrider.APIKey]{}, postrider.ErrBusy
}

// TestEachTryToStartClosesItsArchive checks that a failed try to start closes its archive, and that
// the next try does not close the same archive again.
func TestEachTryToStartClosesItsArchive(t *testing.T) {
	t.Parallel()
	closed := 0
	a := &App{kept: &kept{archive: drivers.Archive{Close: func() { closed++ }}}}
	for range 2 {
		if err := a.use(t.Context(), noKeys{memory.New(memory.Options{})}); !errors.Is(err, postrider.ErrBusy) {
			t.Fatalf("use = %v, want that the store is busy", err)
		}
	}
	if closed != 1 {
		t.Errorf("the archive was closed %d times, want once", closed)
	}
}
