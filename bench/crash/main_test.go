package main

import (
	"fmt"
	"testing"
	"time"
)

// TestAFewKillsLoseNothing runs the program with a few kills. The command make crash runs it for
// long. The stores are tested side by side: a test waits for leases of killed servers most of its time.
func TestAFewKillsLoseNothing(t *testing.T) {
	t.Parallel()
	for _, o := range []options{
		{store: "sqlite", nodes: 1},
		{store: "postgres", nodes: 1},
		{store: "postgres", nodes: 3},
	} {
		o.kills, o.events, o.publishers, o.fanOut = 3, 1_000_000, 4, 150
		o.deletes = 4
		o.min, o.max = 200*time.Millisecond, time.Second
		o.window, o.limit, o.seed = 5*time.Second, 3*time.Minute, 1
		t.Run(fmt.Sprint(o.store, " ", o.nodes), func(t *testing.T) {
			t.Parallel()
			if err := run(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
}
