package dispatch_test

import (
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/dispatch"
)

func TestMessagesOfOtherPartsArePassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		var mu sync.Mutex
		heard := map[string]int{}
		nodes := r.nodes(2, dispatch.Options{Cluster: dispatch.Cluster{OnMessage: func(from, verb, arguments string) {
			mu.Lock()
			defer mu.Unlock()
			heard[from+"|"+verb+"|"+arguments]++
		}}})
		nodes[0].d.Tell(t.Context(), "watch acc_1 acc_2")
		nodes[1].d.Tell(t.Context(), "watch")
		nodes[1].d.Tell(t.Context(), "membership")
		time.Sleep(time.Second)
		mu.Lock()
		if want := map[string]int{"00000001|watch|acc_1 acc_2": 1, "00000002|watch|": 1}; !maps.Equal(heard, want) {
			t.Errorf("heard %v, want what the other node said, once, and none of the dispatcher's own", heard)
		}
		mu.Unlock()
		end(t, nodes...)
	})
}
