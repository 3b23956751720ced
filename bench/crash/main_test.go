package main

import (
	"testing"
	"time"
)

// TestAFewKillsLoseNothing runs the program with a few kills. The command make crash runs it for
// long.
func TestAFewKillsLoseNothing(t *testing.T) {
	for _, o := range []options{
		{store: "sqlite", nodes: 1},
		{store: "postgres", nodes: 1},
		{store: "postgres", nodes: 3},
	} {
		o.kills, o.events, o.publishers, o.fanOut = 3, 1_000_000, 4, 150
		o.deletes = 4
		o.min, o.max = 200*time.Millisecond, time.Second
		o.window, o.limit, o.seed = 5*time.Second, 2*time.Minute, 1
		if err := run(t.Context(), o); err != nil {
			t.Errorf("%s with %d nodes: %v", o.store, o.nodes, err)
		}
	}
}
