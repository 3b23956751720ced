package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// continueSentences are the contract tests of Continue.
var continueSentences = []sentence{
	{"the attempt is recorded as pending and the lease has the next number", continueRecords},
	{"what was not made after it has its number free again", continueReleased},
	{"a lease that ends after it is taken over with the next number", continueLost},
	{"a lease that is taken over or settled is fenced and nothing is stored", continueFenced},
	{"repeated it changes nothing", continueRepeated},
}

// refusal returns an attempt whose OAuth token was refused.
func refusal(c postrider.Claimed) postrider.Attempt {
	a := settlement(c, 401, postrider.Transition{}).Attempt
	a.Error = string(postrider.FailureTokenRefused)
	a.RequestHead, a.ResponseHead = []byte("POST / HTTP/1.1\r\n\r\n"), []byte("HTTP/1.1 401 Unauthorized\r\n\r\n")
	a.ResponseBody = []byte("no")
	a.Timing = postrider.Timing{FirstByte: time.Millisecond}
	return a
}

func continueRecords(w *world) {
	e, c := w.claimed()
	a := refusal(c)
	w.ok(w.Continue(w.Context(), c, a))
	next := c
	next.Attempt++
	if got := w.delivery(c.ID); got.Status != postrider.Pending || got.Waiting.Reason != postrider.WaitInFlight {
		w.Errorf("the delivery is %+v, want one under way", got)
	}
	w.same("Settle", w.settle(delivered(next)), []store.Settled{{}})
	got := w.attempts(w.delivery(c.ID))
	a.StatusAfter = postrider.Pending
	second := delivered(next).Attempt
	second.StatusAfter = postrider.Delivered
	w.same("the attempts", got, []postrider.Attempt{a, second}, cmpopts.IgnoreFields(postrider.Attempt{}, "NextAt"))
	w.near("the next attempt", got[0].NextAt.Sub(w.now()), 0)
	if d := w.delivery(c.ID); d.Attempts != 2 || d.LastStatusCode != 200 {
		w.Errorf("the delivery is %+v, want two attempts", d)
	}
	w.counted(e, record{postrider.OutcomeRejected, 1, pending}, record{accepted, 2, postrider.Delivered})
}

func continueReleased(w *world) {
	e, c := w.claimed()
	w.ok(w.Continue(w.Context(), c, refusal(c)))
	w.release(c)
	if c = w.claimOne(e, postrider.LaneFirst); c.Attempt != 2 || c.Step != 0 || c.Losses != 0 {
		w.Errorf("claimed %+v, want attempt 2 at step 0", c)
	}
}

func continueLost(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	c := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})[0]
	w.ok(w.Continue(w.Context(), c, refusal(c)))
	if taken := w.takeOver(c, long); taken.Attempt != 3 || taken.Losses != 1 {
		w.Errorf("claimed %+v, want attempt 3 after a loss", taken)
	}
	got := w.attempts(w.delivery(c.ID))
	if len(got) != 2 || got[0].Outcome != postrider.OutcomeRejected || got[1].Outcome != lost || got[1].Number != 2 {
		w.Errorf("the attempts are %+v, want one that was refused and one that was lost", got)
	}
}

func continueFenced(w *world) {
	old, taken := w.lost()
	w.refuses(w.Continue(w.Context(), old, refusal(old)), postrider.ErrFenced)
	if got := w.attempts(w.delivery(old.ID)); len(got) != 1 || got[0].Outcome != lost {
		w.Errorf("the attempts are %+v, want the lost one", got)
	}
	w.settle(delivered(taken))
	w.refuses(w.Continue(w.Context(), taken, refusal(taken)), postrider.ErrFenced)
	if got := w.attempts(w.delivery(old.ID)); len(got) != 2 || got[1].Outcome != accepted {
		w.Errorf("the attempts are %+v, want a lost and an accepted one", got)
	}
}

func continueRepeated(w *world) {
	e, c := w.claimed()
	w.ok(w.Continue(w.Context(), c, refusal(c)))
	w.ok(w.Continue(w.Context(), c, refusal(c)))
	c.Attempt++
	w.settle(retry(c, 0))
	if c = w.claimOne(e, postrider.LaneRetry); c.Attempt != 3 {
		w.Errorf("claimed attempt %d, want 3", c.Attempt)
	}
	w.counted(e, record{postrider.OutcomeRejected, 1, pending}, record{postrider.OutcomeThrottled, 2, pending})
}
