package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(*testing.T) store.Store { return memory.New(memory.Options{}) }

func TestContract(t *testing.T) { storetest.Run(t, open) }

// TestModel is the model against itself: histories must be playable, and
// nothing in them may hang on the clock.
func TestModel(t *testing.T) { storetest.Model(t, open) }

func TestNodes(t *testing.T) {
	storetest.RunNodes(t, func(*testing.T) storetest.NodeStore { return memory.New(memory.Options{}) })
}
