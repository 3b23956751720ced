package postrider_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

// someCounts draws the counts of a few records.
var someCounts = rapid.Custom(func(t *rapid.T) (c postrider.Counts) {
	for range rapid.IntRange(0, 20).Draw(t, "records") {
		c.Record(rapid.SampledFrom(postrider.Outcomes).Draw(t, "outcome"), rapid.IntRange(0, 40).Draw(t, "number"),
			rapid.SampledFrom(postrider.Statuses).Draw(t, "status"))
	}
	return c
})

func TestCountsCountAttemptsAndEndsApart(t *testing.T) {
	t.Parallel()
	var c postrider.Counts
	for _, r := range []struct {
		outcome postrider.Outcome
		number  int
		after   postrider.Status
	}{
		{postrider.OutcomeAccepted, 1, postrider.Delivered},
		{postrider.OutcomeRejected, 1, postrider.Pending},
		{postrider.OutcomeAccepted, 2, postrider.Delivered},
		{postrider.OutcomeTimedOut, 40, postrider.Dead},
		{postrider.OutcomeNone, 0, postrider.Skipped},
		{postrider.OutcomeNone, 3, postrider.Cancelled},
	} {
		c.Record(r.outcome, r.number, r.after)
	}
	want := postrider.Counts{FirstAccepted: 1}
	want.Attempts = [postrider.CountedOutcomes]int64{0: 2, 1: 1, 5: 1}
	want.Numbers = [postrider.CountedNumbers]int64{0: 2, 1: 1, 15: 1}
	want.Ended = [postrider.EndStatuses]int64{2, 1, 1, 1}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got, ok := c.SuccessRate(); !ok || got != 2.0/3 {
		t.Errorf("SuccessRate() = %v, %v, want 2/3", got, ok)
	}
	if got, ok := c.FirstAttemptRate(); !ok || got != 0.5 {
		t.Errorf("FirstAttemptRate() = %v, %v, want 1/2", got, ok)
	}
	if _, ok := new(postrider.Counts).SuccessRate(); ok {
		t.Errorf("the success rate of nothing is known")
	}
}

// The arrays of Counts are in the order of Outcomes and Statuses.
func TestCountsHaveAPlaceForEachOutcomeAndStatus(t *testing.T) {
	t.Parallel()
	if n := len(postrider.Outcomes); n != postrider.CountedOutcomes+1 || postrider.Outcomes[n-1] != postrider.OutcomeNone {
		t.Errorf("Outcomes = %v, want %d and none last", postrider.Outcomes, postrider.CountedOutcomes)
	}
	if n := len(postrider.Statuses); n != postrider.EndStatuses+1 || postrider.Statuses[0] != postrider.Pending {
		t.Errorf("Statuses = %v, want pending and %d more", postrider.Statuses, postrider.EndStatuses)
	}
}

func TestStoredCountsAreReadAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := someCounts.Draw(t, "a"), someCounts.Draw(t, "b")
		text, _ := a.AppendBinary(nil)
		text, _ = b.AppendBinary(text)
		first, rest, err := postrider.ReadCounts(text)
		if err != nil || first != a {
			t.Fatalf("first = %v, %v", first, err)
		}
		second, rest, err := postrider.ReadCounts(rest)
		if err != nil || second != b || len(rest) > 0 {
			t.Fatalf("second = %v, %v, and %d bytes behind", second, err, len(rest))
		}
	})
}

// Every later version must be able to read the counts that a server has stored.
func TestTheFormOfStoredCountsIsFixed(t *testing.T) {
	t.Parallel()
	got, rest, err := postrider.ReadCounts([]byte{1, 4, 0, 5, 32, 200, 1, 64, 3, 96, 2, 77})
	want := postrider.Counts{FirstAccepted: 2}
	want.Attempts[0], want.Numbers[0], want.Ended[0] = 5, 200, 3
	if err != nil || got != want || len(rest) != 1 {
		t.Errorf("ReadCounts = %v, %v, %v", got, rest, err)
	}
}

func FuzzCounts(f *testing.F) {
	f.Add([]byte{1, 4, 0, 5, 32, 200, 1, 64, 3, 96, 2})
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		c, rest, err := postrider.ReadCounts(text)
		if err != nil {
			if !errors.Is(err, postrider.ErrCounts) {
				t.Fatal(err)
			}
			return
		}
		again, _ := c.AppendBinary(nil)
		if read, _, err := postrider.ReadCounts(append(again, rest...)); err != nil || read != c {
			t.Fatalf("read again: %v, %v", read, err)
		}
	})
}
