package memory_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/store/storetest"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(*testing.T) store.Store { return memory.New(memory.Options{}) }

func TestContract(t *testing.T) { storetest.Run(t, open) }

// TestModel runs the model against itself. Every history must be playable, and must not depend on
// the clock.
func TestModel(t *testing.T) {
	if testkit.Plain(t) {
		return
	}
	storetest.Model(t, open)
}

func TestNodes(t *testing.T) {
	storetest.RunNodes(t, func(_ *testing.T, now func() time.Time) storetest.NodeStore {
		return memory.New(memory.Options{Now: now})
	})
}
