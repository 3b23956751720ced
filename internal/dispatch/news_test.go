package dispatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// lanesOf returns lanes of endpoints that are all different.
func lanesOf(n int) (lanes []store.DueLane) {
	for i := range n {
		id := postrider.EndpointID{1: byte(i >> 8), 2: byte(i)}
		lanes = append(lanes, store.DueLane{Endpoint: id, Lane: postrider.Lanes[i%len(postrider.Lanes)]})
	}
	return lanes
}

func TestOthersHearWhatIsNewByName(t *testing.T) {
	t.Parallel()
	c := newCluster()
	lanes := lanesOf(maxNews)
	c.add(lanes, nil)
	c.add(lanes[:5], []postrider.EndpointID{{7}, {7}, {8}}) // said twice, meant once
	said := c.take()
	if len(said) != maxNews/newsNamed+1 {
		t.Fatalf("%d messages, want those of the lanes and one of two endpoints", len(said))
	}
	if about := strings.Fields(said[len(said)-1]); len(about) != 3 || about[0] != verbLook {
		t.Errorf("%v is said of two endpoints", about)
	}
	heard := map[store.DueLane]bool{}
	for _, message := range said[:maxNews/newsNamed] {
		about, isNew := strings.CutPrefix(message, verbNew)
		if !isNew || len(message) > 7000 { // PostgreSQL carries 8,000, with the sender's name
			t.Errorf("a message of %d bytes: %q", len(message), message)
		}
		for _, lane := range parseNews(about) {
			heard[lane] = true
		}
	}
	if len(heard) != maxNews || !heard[lanes[0]] || !heard[lanes[maxNews-1]] {
		t.Errorf("%d lanes are heard of, want %d", len(heard), maxNews)
	}
	if again := c.take(); len(again) != 0 {
		t.Errorf("%v is said again", again)
	}
	c.add(lanesOf(maxNews+1), nil)
	if said := c.take(); !slices.Equal(said, []string{verbPoll}) {
		t.Errorf("more lanes than are named say %v, want that others poll", said)
	}
}

// FuzzNews reads what another node, or anybody who may notify, says.
func FuzzNews(f *testing.F) {
	c := newCluster()
	c.add(lanesOf(3), nil)
	f.Add(strings.TrimPrefix(c.take()[0], verbNew))
	f.Add("ep_00000000000000000000000000/first ep_/bulk /retry x")
	f.Fuzz(func(t *testing.T, text string) {
		lanes := parseNews(text)
		if len(lanes) > len(strings.Fields(text)) {
			t.Errorf("%d lanes in %q", len(lanes), text)
		}
		if len(lanes) == 0 || len(lanes) > newsNamed {
			return
		}
		c := newCluster()
		c.add(lanes, nil)
		for _, lane := range parseNews(strings.TrimPrefix(c.take()[0], verbNew)) {
			if !slices.Contains(lanes, lane) {
				t.Errorf("%v is said of %v", lane, lanes)
			}
		}
	})
}

func TestAClaimRestsThriceAsLongAsTheLastOneTook(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	found := due{lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}}
	low := now.Add(-time.Minute)
	for _, tt := range []struct{ took, rests time.Duration }{
		{time.Millisecond, 3 * time.Millisecond},
		{5 * time.Millisecond, 15 * time.Millisecond},
		{time.Second, mostRest},
	} {
		do := take(c, now, found)
		if do.claim == nil {
			t.Fatal("nothing is claimed at rest")
		}
		asked := now
		now = now.Add(tt.took)
		do = take(c, now, claimed{claim: do.claim, got: store.Claims{Lanes: []store.LaneState{{Low: low}}}, asked: asked}, found)
		if do.claim != nil || !do.wakeAt.Equal(now.Add(tt.rests)) {
			t.Errorf("after a claim of %v: claims %v, again after %v, want none and %v", tt.took, do.claim != nil, do.wakeAt.Sub(now), tt.rests)
		}
		now = now.Add(tt.rests)
	}
}

func TestWhatIsNewKeepsAClaimCheapAndAScanFindsAll(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	lanes := []store.DueLane{{Endpoint: postrider.EndpointID{1}, Lane: postrider.LaneFirst}}
	low := now.Add(-time.Minute)
	after := func(in due) time.Time {
		do := take(c, now, in)
		take(c, now, claimed{claim: do.claim, got: store.Claims{Lanes: []store.LaneState{{Low: low}}}, asked: now})
		return do.claim.Wants[0].After
	}
	after(due{lanes: lanes})
	if at := after(due{lanes: lanes, young: true}); !at.Equal(low) {
		t.Errorf("what is new is claimed from %v on, want %v, where the last claim ended", at, low)
	}
	if at := after(due{lanes: lanes}); !at.IsZero() {
		t.Errorf("what a scan found is claimed from %v on, want all of it", at)
	}
}
