// Package quota limits how many events a second and how many bytes a day an account may publish, on
// all nodes together.
//
// A [Meter] stands before ingest. [Meter.Publish] refuses a publish above a quota before anything
// is stored, and passes the others on. Each node decides from its own memory. [Meter.Run] reports
// to the store what the node has accepted, and reads what all nodes have accepted:
//
//	publish ─► account.take ─► ingest ─► a duplicate is given back
//	                │
//	      account due for a report ─► SpendQuotas, ten times a second at most
//	                                     └─► the level on all nodes, and this node's share
//
// It promises:
//
//   - A publish waits for no query. The exception is a publish that would be refused and
//     has idempotency keys: it costs one query for each key, up to the first new key. If
//     all of its events were accepted before, it is passed on and costs nothing.
//   - Over a minute, an account that publishes at all nodes as fast as it can gets its
//     rate and its burst, 5 % more or less. If a node accepted too much, all nodes pay
//     back that debt, which is in the store.
//   - While the store does not respond, each node continues with its last share.
//   - Memory is used only for accounts that have a limit and publish: about 300 bytes
//     each, until a minute after their last publish.
package quota

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Publisher stores the events that the quotas allow. Ingest implements it.
type Publisher interface {
	// Publish stores the events, all or none.
	Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error)
	// PublishTo stores an event for one endpoint.
	PublishTo(ctx context.Context, e postrider.Event, endpoint postrider.EndpointID) (postrider.Receipt, error)
}

// Store is the part of a store that a [Meter] needs.
type Store interface {
	// Quotas is the method of [store.Quotas].
	Quotas(ctx context.Context, q store.QuotaQuery) ([]store.AccountQuotas, error)
	// SpendQuotas is the method of [store.Quotas].
	SpendQuotas(ctx context.Context, spends []store.QuotaSpend) ([]store.QuotaState, error)
	// Events is the method of [store.Ledger].
	Events(ctx context.Context, q store.EventQuery) (store.Page[postrider.Event], error)
	// Clock is the method of [store.Queue].
	Clock() *store.Clock
}

// Options tunes a [Meter].
type Options struct {
	Defaults postrider.Quotas // of accounts without quotas of their own
	Hooks    observe.Hooks    // default: none
	Log      *slog.Logger     // default: discard
}

// Meter counts the events and bytes that accounts publish, and refuses publishes above their
// quotas. Its methods may be called from any goroutine. PublishTo goes straight to the embedded
// Publisher, because tests of an endpoint have a limit of their own.
type Meter struct {
	Publisher

	store Store
	opts  Options
	due   *batch.Queue[*account] // accounts that must be reported; Run takes them

	mu       sync.RWMutex
	version  int64 // version of the subscriptions up to which own is complete
	own      map[postrider.AccountID]postrider.Quotas
	accounts map[postrider.AccountID]*account // accounts that have a limit and have published
}

// New returns a meter that passes publishes on to next. Call [Meter.Refresh] before the first
// publish.
func New(next Publisher, s Store, opts Options) *Meter {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	return &Meter{
		Publisher: next, store: s, opts: opts, due: batch.NewQueue[*account](),
		own: map[postrider.AccountID]postrider.Quotas{}, accounts: map[postrider.AccountID]*account{},
	}
}

// Refresh reads the quotas that were changed since the last call.
func (m *Meter) Refresh(ctx context.Context) error {
	const page = 1000
	for {
		m.mu.RLock()
		after := m.version
		m.mu.RUnlock()
		changed, err := m.store.Quotas(ctx, store.QuotaQuery{After: after, Limit: page})
		if err != nil {
			return err
		}
		m.apply(changed)
		if len(changed) < page {
			return nil
		}
	}
}

func (m *Meter) apply(changed []store.AccountQuotas) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changed {
		m.version = c.Version
		m.own[c.Account] = c.Quotas
		if c.Quotas == (postrider.Quotas{}) {
			delete(m.own, c.Account)
		}
		if a := m.accounts[c.Account]; a != nil {
			a.limit(c.Quotas.Or(m.opts.Defaults))
		}
	}
}

// Publish passes the events on if the quotas of their accounts allow it. Otherwise it returns a
// [postrider.QuotaError].
func (m *Meter) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	free := false // all events are repeats
	err := m.take(events)
	if err != nil && m.repeats(ctx, events) {
		free, err = true, nil
	}
	if err != nil {
		m.opts.Hooks.Refused.Call(observe.Refused{Events: len(events), Err: err})
		m.used(err)
		return nil, err
	}
	receipts, err := m.Publisher.Publish(ctx, events)
	m.used(err)
	for i := range events {
		switch {
		case free && err == nil && !receipts[i].Duplicate: // its key was forgotten in between
			m.give(events[i:i+1], -1)
		case !free && (err != nil || receipts[i].Duplicate):
			m.give(events[i:i+1], 1)
		}
	}
	return receipts, err
}

// used tells observers of a used quota, if that is the error.
func (m *Meter) used(err error) {
	if used, ok := errors.AsType[*postrider.QuotaError](err); ok {
		m.opts.Hooks.QuotaUsed.Call(used)
	}
}

// take counts the events for their accounts, all or none. Most batches belong to one account.
func (m *Meter) take(events []postrider.Event) error {
	for from := 0; from < len(events); {
		to := from + 1
		bytes := int64(events[from].Size())
		for to < len(events) && events[to].Account == events[from].Account {
			bytes += int64(events[to].Size())
			to++
		}
		if a := m.account(events[from].Account); a != nil {
			if err := m.takeFrom(a, int64(to-from), bytes); err != nil {
				m.give(events[:from], 1)
				return err
			}
		}
		from = to
	}
	return nil
}

// takeFrom counts n events for one account, or refuses them.
func (m *Meter) takeFrom(a *account, n, bytes int64) error {
	clock := m.store.Clock()
	refused, due := a.take(clock.Now(), clock.Wall(), amount{n, bytes})
	if due {
		m.due.Add(a)
	}
	if refused == nil {
		return nil
	}
	return refused
}

// give gives events back to their accounts. With the sign -1 it takes them, even if the quota does
// not allow it.
func (m *Meter) give(events []postrider.Event, sign int64) {
	for i := range events {
		if a := m.account(events[i].Account); a != nil {
			a.give(amount{sign, sign * int64(events[i].Size())})
		}
	}
}

// account returns the state of an account; nil if the account has no limit.
func (m *Meter) account(id postrider.AccountID) *account {
	m.mu.RLock()
	a := m.accounts[id]
	unlimited := a == nil && len(m.own) == 0 && m.opts.Defaults.EventsPerSecond <= 0 && m.opts.Defaults.BytesPerDay <= 0
	m.mu.RUnlock()
	if a != nil || unlimited {
		return a
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	limits := m.own[id].Or(m.opts.Defaults)
	if a = m.accounts[id]; a == nil && (limits.EventsPerSecond > 0 || limits.BytesPerDay > 0) {
		a = newAccount(id, limits, m.store.Clock().Now())
		m.accounts[id] = a
	}
	return a
}

// repeats reports whether every event repeats an idempotency key of a stored event. It stops at the
// first event that does not. After an error it returns false, so the publish is refused as it would
// be without keys.
func (m *Meter) repeats(ctx context.Context, events []postrider.Event) bool {
	for i := range events {
		e := &events[i]
		if e.IdempotencyKey == "" {
			return false
		}
		known, err := m.store.Events(ctx, store.EventQuery{
			Account: e.Account, IdempotencyKey: e.IdempotencyKey, Paging: store.Paging{Limit: 1},
		})
		if err != nil || len(known.Items) == 0 {
			return false
		}
	}
	return true
}

const (
	reportEvery  = 100 * time.Millisecond // between two reports of this node
	refreshEvery = time.Second            // between two reads of changed quotas
	sweepEvery   = 5 * time.Second        // between two scans of all accounts
	maxReport    = 1000                   // accounts in one report
)

// Run reports to the store until ctx ends, and then once more. It always returns nil. Amounts that
// could not be reported stay counted, and are reported a second later.
func (m *Meter) Run(ctx context.Context) error {
	refreshed, swept := time.Now(), time.Now()
	for batch.Sleep(ctx, reportEvery) {
		err := m.report(ctx)
		if err == nil && time.Since(refreshed) >= refreshEvery {
			refreshed, err = time.Now(), m.Refresh(ctx)
		}
		if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			m.sweep(m.store.Clock().Now())
		}
		if err != nil && ctx.Err() == nil {
			m.opts.Log.WarnContext(ctx, "quotas not exchanged with the other nodes", "error", err)
			if !batch.Sleep(ctx, refreshEvery) {
				break
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshEvery)
	defer cancel()
	m.sweep(m.store.Clock().Now().Add(reportLatest))
	if err := m.report(last); err != nil {
		m.opts.Log.WarnContext(ctx, "the last use of quotas was not stored", "error", err)
	}
	return nil
}

// report reports the amounts of the accounts in m.due to the store.
func (m *Meter) report(ctx context.Context) error {
	// Accounts that are added to m.due meanwhile wait for the next report.
	for left := m.due.Len(); left > 0; left -= maxReport {
		due := m.due.Take(min(left, maxReport))
		spends := make([]store.QuotaSpend, len(due))
		for i, a := range due {
			spends[i] = a.spend()
		}
		states, err := m.store.SpendQuotas(ctx, spends)
		if err != nil {
			m.due.Add(due...) // their amounts are still counted
			return err
		}
		now, wall := m.store.Clock().Now(), m.store.Clock().Wall()
		for i, a := range due {
			a.learn(now, wall, exchange{spends[i], states[i]})
		}
	}
	return nil
}

// sweep puts accounts that have not reported for reportLatest into m.due. It forgets accounts that
// have nothing to report and do not publish.
func (m *Meter) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, a := range m.accounts {
		switch a.state(now) {
		case idle:
			delete(m.accounts, id)
		case late:
			m.due.Add(a)
		case busy:
		}
	}
}
