package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestAClaimWaitsThreeTimesAsLongAsTheLastOneTook(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	found := LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}}
	low := now.Add(-time.Minute)
	for _, tt := range []struct{ took, rests time.Duration }{
		{time.Millisecond, 3 * time.Millisecond},
		{5 * time.Millisecond, 15 * time.Millisecond},
		{time.Second, MaxBatchDelay},
	} {
		do := decide(c, now, found)
		if do.Claim == nil {
			t.Fatal("nothing is claimed at rest")
		}
		asked := now
		now = now.Add(tt.took)
		do = decide(c, now, ClaimReturned{Claim: do.Claim, Got: store.Claims{Lanes: []store.LaneState{{Low: low}}}, AskedAt: asked}, found)
		if do.Claim != nil || !do.WakeAt.Equal(now.Add(tt.rests)) {
			t.Errorf("after a claim of %v: claims %v, again after %v, want none and %v", tt.took, do.Claim != nil, do.WakeAt.Sub(now), tt.rests)
		}
		now = now.Add(tt.rests)
	}
}

func TestWhatIsNewKeepsAClaimCheapAndAScanFindsAll(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	lanes := []store.DueLane{{Endpoint: postrider.EndpointID{1}, Lane: postrider.LaneFirst}}
	low := now.Add(-time.Minute)
	after := func(in LanesDue) time.Time {
		do := decide(c, now, in)
		decide(c, now, ClaimReturned{Claim: do.Claim, Got: store.Claims{Lanes: []store.LaneState{{Low: low}}}, AskedAt: now})
		return do.Claim.Wants[0].After
	}
	after(LanesDue{Lanes: lanes})
	if at := after(LanesDue{Lanes: lanes, New: true}); !at.Equal(low) {
		t.Errorf("what is new is claimed from %v on, want %v, where the last claim ended", at, low)
	}
	if at := after(LanesDue{Lanes: lanes}); !at.IsZero() {
		t.Errorf("what a scan found is claimed from %v on, want all of it", at)
	}
}
