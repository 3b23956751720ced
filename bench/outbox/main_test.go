package main

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// TestAFewKillsLoseNothing runs the program with a few kills. The command make outbox runs it for long.
func TestAFewKillsLoseNothing(t *testing.T) {
	for _, o := range []options{{store: "sqlite", nodes: 1}, {store: "postgres", nodes: 2}} {
		o.kills, o.producers, o.keys, o.rest = 4, 6, 20, 10*time.Millisecond
		o.min, o.max = 200*time.Millisecond, time.Second
		o.window, o.limit, o.seed = 5*time.Second, 3*time.Minute, 1
		if err := run(t.Context(), o); err != nil {
			t.Errorf("%s with %d nodes: %v", o.store, o.nodes, err)
		}
	}
}

func TestTheComparisonSeesEachFault(t *testing.T) {
	begun := time.Now()
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	a, b := postrider.EventID{1}, postrider.EventID{2}
	orders := []order{{N: 1, Position: 1, Key: "x"}, {N: 2, Position: 2, Key: "x"}}
	for name, tt := range map[string]struct {
		arrivals []arrival
		want     verdict
	}{
		"all is well":     {[]arrival{{1, a, at(1)}, {2, b, at(2)}}, verdict{}},
		"lost":            {[]arrival{{1, a, at(1)}}, verdict{lost: 1}},
		"not committed":   {[]arrival{{1, a, at(1)}, {2, b, at(2)}, {3, b, at(3)}}, verdict{ghosts: 1}},
		"published twice": {[]arrival{{1, a, at(1)}, {1, b, at(2)}, {2, b, at(3)}}, verdict{twice: 1}},
		"inverted":        {[]arrival{{2, b, at(1)}, {1, a, at(2)}}, verdict{inversions: 1}},
		"again by a kill": {[]arrival{{1, a, at(9)}, {1, a, at(11)}, {2, b, at(12)}}, verdict{again: 1}},
		"again":           {[]arrival{{1, a, at(1)}, {1, a, at(2)}, {2, b, at(3)}}, verdict{again: 1, unexplained: 1}},
	} {
		if got := compare(orders, tt.arrivals, []time.Time{at(10)}, 2*time.Second); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
