package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// Pace returns the first reason for which an endpoint gets less than its limit.
func TestThePaceSaysWhy(t *testing.T) {
	t.Parallel()
	asked := a429
	asked.RetryAfter = time.Minute
	for _, test := range []struct {
		name    string
		attempt postrider.Attempt
		change  func(*postrider.Policy)
		want    postrider.Pace
		resumes time.Duration
	}{
		{"an accepted attempt holds nothing back", a200, nil, postrider.Pace{Slots: 4, Limit: 4}, 0},
		{"a rejected one neither", a500, nil, postrider.Pace{Slots: 4, Limit: 4}, 0},
		{"a throttled one halves the window", a503, nil, postrider.Pace{Slots: 2, Limit: 4, Reason: postrider.PaceWindow}, 0},
		{"a Retry-After blocks", asked, nil, postrider.Pace{Slots: 2, Limit: 4, Reason: postrider.PaceRetryAfter}, time.Minute},
		{"silence leaves one slot", silence, nil, postrider.Pace{Slots: 1, Limit: 4, Reason: postrider.PaceNoResponse}, 0},
		{
			"the rate is used up", a200, func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Second} },
			postrider.Pace{Slots: 4, Limit: 4, Reason: postrider.PaceRate},
			time.Second,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, Options{})
			id := h.endpoint("a.example", func(p *postrider.Policy) {
				p.Concurrency = 4
				if test.change != nil {
					test.change(p)
				}
			})
			if _, ok := h.c.Pace(h.now, id); ok {
				t.Error("an endpoint that the core does not know has a pace")
			}
			h.publish(id, 1)
			h.over(id, test.attempt)
			if test.change != nil {
				h.publish(id, 1)
			}
			got, ok := h.c.Pace(h.now, id)
			if span := got.ResumesAt.Sub(h.now); test.resumes == 0 && !got.ResumesAt.IsZero() || test.resumes > 0 &&
				(span < test.resumes-10*time.Millisecond || span > test.resumes) {
				t.Errorf("it resumes at %v, %v from now, want %v", got.ResumesAt, span, test.resumes)
			}
			if got.ResumesAt = (time.Time{}); !ok || got != test.want {
				t.Errorf("pace %+v, known %t, want %+v", got, ok, test.want)
			}
		})
	}
}
