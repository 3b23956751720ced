package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// LastFailures implements [store.Rollups].
func (s *Store) LastFailures(_ context.Context, ids ...postrider.EndpointID) (failures []postrider.Attempt, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		var newest []postrider.Attempt
		for _, d := range slices.Backward(s.deliveries.rows) {
			if d.endpoint == id {
				newest = slices.AppendSeq(newest, backwards(d.attempts))
			}
		}
		newest = slices.DeleteFunc(newest[:min(len(newest), store.FailuresLooked)], func(a postrider.Attempt) bool { return !a.Outcome.Failed() })
		if len(newest) == 0 {
			continue
		}
		last := own(slices.MaxFunc(newest,
			func(a, b postrider.Attempt) int { return cmp.Compare(a.StartedAt.UnixMicro(), b.StartedAt.UnixMicro()) }))
		last.RequestHead, last.ResponseBody = nil, last.ResponseBody[:min(len(last.ResponseBody), store.FailureBody)]
		failures = append(failures, last)
	}
	return failures, nil
}

// backwards yields the attempts from the last to the first.
func backwards(attempts []postrider.Attempt) func(func(postrider.Attempt) bool) {
	return func(yield func(postrider.Attempt) bool) {
		for _, a := range slices.Backward(attempts) {
			if !yield(a) {
				return
			}
		}
	}
}
