package quota

import (
	"math"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// account is the state of an account with a limit, on one node.
//
// All nodes share one bucket for the events that the account may publish; the bucket is in the
// store. After each report a node knows the level of the bucket, and may use its share of that
// level. The share is the part of all events asked for since the node's last report that were asked
// for at this node.
//
//	t = 0 s     3 nodes, 300 a second; the bucket holds 12. Node A was asked for half of all
//	            events, B and C for a quarter each: A may take 6 at once and 150 a second
//	t = 0.1 s   A has taken 21. Its report lowers the bucket by 21, and the reports of B
//	            and C lower it by 10 or 11 each; 30 have flowed in, so it holds about 0
//
// If publishers move to another node, the shares can add up to more than one. Then the bucket falls
// below 0, and all nodes wait until the debt is paid back. So errors do not add up.
type account struct {
	id postrider.AccountID

	mu     sync.Mutex
	limits postrider.Quotas // the limits in force; 0: no limit
	usedAt time.Time        // time of the last publish
	queued bool             // the account is in Meter.due

	free float64   // events that this node may accept at time at; below 0: a debt
	at   time.Time // the time for which free was computed

	// Set by learn from the last report. Before the first report, the bucket counts as full, the
	// share is 1, and no byte of the day is used.
	told  time.Time // time of the last report
	share float64   // share of this node, 0.02 to 1
	asked int64     // events asked for on all nodes, since the first report; -1: no report yet
	day   time.Time // the day that bytes counts
	bytes int64     // bytes used on that day, on all nodes

	// taken and wants count since the last report, on this node.
	taken amount
	wants int64 // events that were asked for, refused ones included
}

// amount is how many events and bytes a publish uses.
type amount struct{ events, bytes int64 }

// newAccount returns an account that has used nothing.
func newAccount(id postrider.AccountID, limits postrider.Quotas, now time.Time) *account {
	return &account{id: id, limits: limits, free: float64(limits.Burst), at: now, told: now, share: 1, asked: -1}
}

// limit replaces the limits of the account.
func (a *account) limit(limits postrider.Quotas) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits = limits
}

// take takes an amount, or returns why it is refused. due reports that the account must be put into
// Meter.due.
//
// A batch of more events than the burst is accepted when the bucket is full, and leaves a debt.
// Otherwise it could never be accepted.
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
	// Before the first report the node knows nothing of other nodes. Later it reports after a
	// twentieth of the burst or half a per cent of the bytes. So an account that is far from its
	// limits costs a row every 30 s.
	due = !a.queued && (a.asked < 0 || refused != nil ||
		a.limits.Burst > 0 && float64(a.taken.events) >= a.share*float64(a.limits.Burst)/20 ||
		a.limits.BytesPerDay > 0 && a.taken.bytes >= a.limits.BytesPerDay/200)
	a.queued = a.queued || due
	return refused, due
}

// fill adds the events that have flowed in since the last call. A node never has more than its
// share of the burst.
func (a *account) fill(now time.Time) {
	flowed := a.share * float64(a.limits.EventsPerSecond) * max(0, now.Sub(a.at).Seconds())
	a.free, a.at = min(a.share*float64(a.limits.Burst), a.free+flowed), now
}

// refusal returns why the amount cannot be taken; nil if it can.
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
	if missing <= 1e-9 { // tolerates errors of floating point
		return nil
	}
	wait := time.Duration(math.Ceil(missing / (a.share * rate) * float64(time.Second)))
	return &postrider.QuotaError{
		Account: a.id, Quota: postrider.QuotaEvents, Limit: a.limits.EventsPerSecond, EndsAt: wall.Add(wait),
		RetryAfter: wait,
	}
}

// beginDay resets the bytes when a new day begins. Bytes that are not reported yet count for the
// new day.
func (a *account) beginDay(wall time.Time) {
	if day, _ := store.QuotaDay(wall); !day.Equal(a.day) {
		a.day, a.bytes = day, 0
	}
}

// give gives back an amount that was taken for a duplicate, or for an event that was not stored.
func (a *account) give(n amount) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += float64(n.events)
	a.taken.events -= n.events
	a.taken.bytes -= n.bytes
	a.wants -= n.events
}

// spend returns the amounts to report. They stay counted in the account until learn is called.
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

// learn stores what all nodes have used, from the answer to a report. An amount that was
// taken while the report was under way stays counted.
//
// The share moves half of the way to the measured share, because a tenth of a second may have only
// a few events. Its lower bound lets a node that was idle take something at once.
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
	busy activity = iota // nothing to do
	late                 // the account must be reported
	idle                 // the account can be forgotten
)

const (
	reportLatest = 30 * time.Second // taken amounts are reported after this time at the latest
	forgetAfter  = time.Minute      // without a publish
)

// state returns what sweep has to do with the account. If the account is late, state marks it as
// queued. An account whose bytes are nearly used up is not forgotten: the node would accept too
// many bytes until its next report.
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
