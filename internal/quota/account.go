package quota

import (
	"math"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// account is what a node knows of an account that has a limit.
//
// The events that the account may publish are one bucket for all nodes, which is in the
// store. After each report a node knows its level, and has a share of it: the part of all
// events that were asked for since the node's report before, which were asked for here.
//
//	t = 0 s     3 nodes, 300 a second; the bucket holds 12. Node A was asked for half of all
//	            events, B and C for a quarter each: A may take 6 at once and 150 a second
//	t = 0.1 s   A has taken 21. Its report lowers the bucket by them, and the reports of B
//	            and C by 10 or 11 each; 30 have flowed in, so it holds about 0
//
// If the shares add up to more than one, because publishers change their node, the bucket
// falls below 0, and all nodes wait until it is paid back. So no error adds up.
type account struct {
	id postrider.AccountID

	mu     sync.Mutex
	limits postrider.Quotas // what holds: 0 is no limit
	usedAt time.Time        // of the last publish
	queued bool             // it is in Meter.due

	free float64   // events that this node may accept at the time at; below 0: a debt
	at   time.Time // of free

	// As of the last report. Before the first one the bucket is taken for full, the share
	// for all, and the day for unused.
	told  time.Time // of the report
	share float64   // this node's, 0.02 to 1
	asked int64     // on all nodes, since the first report; -1: there was no report
	day   time.Time // of bytes
	bytes int64     // of the day, on all nodes

	// Since the last report, on this node.
	taken amount
	wants int64 // events that were asked for, refused ones too
}

// amount is what a publish uses.
type amount struct{ events, bytes int64 }

// newAccount returns an account that has used nothing.
func newAccount(id postrider.AccountID, limits postrider.Quotas, now time.Time) *account {
	return &account{id: id, limits: limits, free: float64(limits.Burst), at: now, told: now, share: 1, asked: -1}
}

// limit replaces the limits.
func (a *account) limit(limits postrider.Quotas) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = limits
}

// take takes an amount, or returns why it does not. due: the account has to be reported.
//
// A batch of more events than the burst is accepted when the bucket is full, and leaves a
// debt: it could never be accepted otherwise.
func (a *account) take(now, wall time.Time, n amount) (refused *postrider.QuotaError, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usedAt = now
	a.wants += n.events
	a.beginDay(wall)
	a.fill(now)
	if refused = a.refusal(wall, n); refused == nil {
		a.free -= float64(n.events)
		a.taken.events += n.events
		a.taken.bytes += n.bytes
	}
	// Before the first report the node knows nothing of the others. Later a twentieth of
	// the burst and half a percent of the bytes go unreported for a while: an account that is
	// far from its limits costs a row every 30 s.
	due = !a.queued && (a.asked < 0 || refused != nil ||
		a.limits.Burst > 0 && float64(a.taken.events) >= a.share*float64(a.limits.Burst)/20 ||
		a.limits.BytesPerDay > 0 && a.taken.bytes >= a.limits.BytesPerDay/200)
	a.queued = a.queued || due
	return refused, due
}

// fill adds what has flowed in since the last call. A node never has more than its share of
// the burst.
func (a *account) fill(now time.Time) {
	flowed := a.share * float64(a.limits.EventsPerSecond) * max(0, now.Sub(a.at).Seconds())
	a.free, a.at = min(a.share*float64(a.limits.Burst), a.free+flowed), now
}

// refusal returns why the amount cannot be taken; nil: it can.
func (a *account) refusal(wall time.Time, n amount) *postrider.QuotaError {
	if most := a.limits.BytesPerDay; most > 0 && a.bytes+a.taken.bytes+n.bytes > most {
		_, ends := store.QuotaDay(wall)
		return &postrider.QuotaError{Account: a.id, Quota: postrider.QuotaBytes, Limit: most, EndsAt: ends, RetryAfter: ends.Sub(wall)}
	}
	rate := float64(a.limits.EventsPerSecond)
	if rate == 0 {
		return nil
	}
	missing := min(float64(n.events), a.share*float64(a.limits.Burst)) - a.free
	if missing <= 1e-9 { // of floating point
		return nil
	}
	wait := time.Duration(math.Ceil(missing / (a.share * rate) * float64(time.Second)))
	return &postrider.QuotaError{Account: a.id, Quota: postrider.QuotaEvents, Limit: a.limits.EventsPerSecond, EndsAt: wall.Add(wait), RetryAfter: wait}
}

// beginDay forgets the bytes of a day that is over. What is not reported yet counts to the
// new one.
func (a *account) beginDay(wall time.Time) {
	if day, _ := store.QuotaDay(wall); !day.Equal(a.day) {
		a.day, a.bytes = day, 0
	}
}

// give gives an amount back, which was taken for a duplicate or for what was not stored.
func (a *account) give(n amount) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += float64(n.events)
	a.taken.events -= n.events
	a.taken.bytes -= n.bytes
	a.wants -= n.events
}

// spend returns what is to be reported. It stays counted until learn is called.
func (a *account) spend() store.QuotaSpend {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := store.QuotaSpend{Account: a.id, Rate: a.limits.EventsPerSecond, Burst: a.limits.Burst, Asked: a.wants, Bytes: a.taken.bytes}
	if s.Rate > 0 {
		s.Events = a.taken.events
	}
	return s
}

// exchange is a report and its answer.
type exchange struct {
	told  store.QuotaSpend
	state store.QuotaState
}

// learn notes what all nodes have used. What was taken during the report stays counted.
//
// The share moves half of the way to what was measured: a tenth of a second may have a few
// events only. It has a lower bound, so that a node that was idle can take something at once.
func (a *account) learn(now, wall time.Time, e exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beginDay(wall)
	if since := e.state.Asked - a.asked; a.asked >= 0 && since > 0 {
		measured := min(1, float64(e.told.Asked)/float64(since))
		a.share = min(1, max(0.02, (a.share+measured)/2))
	}
	a.told, a.asked, a.bytes = now, e.state.Asked, e.state.Bytes
	if e.told.Rate > 0 {
		a.taken.events -= e.told.Events
	} else {
		a.taken.events = 0
	}
	a.taken.bytes -= e.told.Bytes
	a.wants -= e.told.Asked
	a.free, a.at = a.share*e.state.Events-float64(a.taken.events), now
	a.queued = false
}

// activity says what Meter.sweep does with an account.
type activity int

const (
	busy activity = iota // nothing has to be done
	late                 // it has to be reported
	idle                 // it can be forgotten
)

const (
	reportLatest = 30 * time.Second // after which anything that was taken is reported
	forgetAfter  = time.Minute      // without a publish
)

// state says what has to be done, and that it is queued if it is late. An account whose
// bytes are nearly used up is not forgotten: it would get some more until its next report.
func (a *account) state(now time.Time) activity {
	a.mu.Lock()
	defer a.mu.Unlock()
	unreported := a.taken != amount{} || a.wants != 0
	full := a.limits.BytesPerDay > 0 && a.bytes > a.limits.BytesPerDay-a.limits.BytesPerDay/10 && now.Sub(a.usedAt) < 24*time.Hour
	switch {
	case a.queued:
	case unreported && now.Sub(a.told) >= reportLatest:
		a.queued = true
		return late
	case !unreported && !full && now.Sub(a.usedAt) >= forgetAfter:
		return idle
	}
	return busy
}
