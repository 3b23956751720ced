package dispatch

import (
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// lanesOf returns n lanes of different endpoints.
func lanesOf(n int) (lanes []store.DueLane) {
	for i := range n {
		id := postrider.EndpointID{1: byte(i >> 8), 2: byte(i)}
		lanes = append(lanes, store.DueLane{Endpoint: id, Lane: postrider.Lanes[i%len(postrider.Lanes)]})
	}
	return lanes
}

func TestWakeUpsNameTheLanes(t *testing.T) {
	t.Parallel()
	c := newWakeUps()
	lanes := lanesOf(maxLanes)
	c.add(lanes, nil)
	c.add(lanes[:5], []postrider.EndpointID{{7}, {7}, {8}}) // an endpoint that is added twice is named once
	said := c.popMessages()
	if len(said) != maxLanes/lanesNamed+1 {
		t.Fatalf("%d messages, want those of the lanes and one of two endpoints", len(said))
	}
	if about := strings.Fields(said[len(said)-1]); len(about) != 3 || about[0] != verbLook {
		t.Errorf("%v is said of two endpoints", about)
	}
	heard := map[store.DueLane]bool{}
	for _, message := range said[:maxLanes/lanesNamed] {
		about, isNew := strings.CutPrefix(message, verbNew)
		if !isNew || len(message) > 7000 { // PostgreSQL allows 8,000 bytes, including the sender's incarnation
			t.Errorf("a message of %d bytes: %q", len(message), message)
		}
		for _, lane := range parseLanes(about) {
			heard[lane] = true
		}
	}
	if len(heard) != maxLanes || !heard[lanes[0]] || !heard[lanes[maxLanes-1]] {
		t.Errorf("%d lanes are heard of, want %d", len(heard), maxLanes)
	}
	if again := c.popMessages(); len(again) != 0 {
		t.Errorf("%v is said again", again)
	}
	c.add(lanesOf(maxLanes+1), nil)
	if said := c.popMessages(); !slices.Equal(said, []string{verbPoll}) {
		t.Errorf("more lanes than are named say %v, want that others poll", said)
	}
}

// FuzzLanes parses a message of another node, or of any client that may notify.
func FuzzLanes(f *testing.F) {
	c := newWakeUps()
	c.add(lanesOf(3), nil)
	f.Add(strings.TrimPrefix(c.popMessages()[0], verbNew))
	f.Add("ep_00000000000000000000000000/first ep_/bulk /retry x")
	f.Fuzz(func(t *testing.T, text string) {
		lanes := parseLanes(text)
		if len(lanes) > len(strings.Fields(text)) {
			t.Errorf("%d lanes in %q", len(lanes), text)
		}
		if len(lanes) == 0 || len(lanes) > lanesNamed {
			return
		}
		c := newWakeUps()
		c.add(lanes, nil)
		for _, lane := range parseLanes(strings.TrimPrefix(c.popMessages()[0], verbNew)) {
			if !slices.Contains(lanes, lane) {
				t.Errorf("%v is said of %v", lane, lanes)
			}
		}
	})
}
