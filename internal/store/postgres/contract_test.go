package postgres_test

import (
	"flag"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/storetest"
	"github.com/postrider/postrider/internal/testkit"
)

func TestContract(t *testing.T) { storetest.Run(t, open) }

func TestCalls(t *testing.T) {
	storetest.Calls(t, func(t *testing.T, calls store.Calls) store.Store {
		return openWith(t, freshDSN(t), postgres.Options{Calls: calls})
	})
}

func TestModel(t *testing.T) {
	if testkit.Raced() {
		// The model does not look for races. Without the race detector it plays all its histories.
		if err := flag.Set("rapid.checks", "30"); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Model(t, open)
}

func TestNodes(t *testing.T) {
	storetest.RunNodes(t, func(t *testing.T, now func() time.Time) storetest.NodeStore {
		return openWith(t, freshDSN(t), postgres.Options{Now: now})
	})
}
