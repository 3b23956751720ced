package main

import (
	"testing"
	"time"
)

// TestRetriesArriveBesideAFewBadEndpoints runs the program with a few endpoints. The command make
// isolation runs it for long.
func TestRetriesArriveBesideAFewBadEndpoints(t *testing.T) {
	for _, o := range []options{
		{store: "sqlite", bad: "hang", circuit: "never"},
		{store: "postgres", bad: "500", circuit: "default"},
	} {
		o.endpoints, o.healthy, o.seconds, o.within = 10, 2, 5, time.Minute
		if err := run(t.Context(), o); err != nil {
			t.Errorf("%s beside endpoints that fail with %s: %v", o.store, o.bad, err)
		}
	}
}
