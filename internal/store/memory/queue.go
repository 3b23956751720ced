package memory

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// delivery is one delivery, whatever its status. It exists as long as the store.
type delivery struct {
	id           postrider.DeliveryID
	event        *event
	endpoint     postrider.EndpointID
	lane         postrider.Lane
	due          time.Time        // when the delivery is due; if it is leased, the end of the lease
	at           int              // index in its lane; -1: it is in no lane, because it has ended, is parked or is blocked
	ordered      postrider.OnDead // empty: it has no order
	claims       int              // the number of the attempt under way, or of the last attempt
	step         int
	losses       int
	alone        int  // number of nodes in a row that died while this was the only suspect that they leased
	parked       bool // whether it is parked, and so in no lane
	token        postrider.Token
	expires      time.Time
	replayedFrom postrider.DeliveryID
	replayJob    postrider.ReplayID

	status     postrider.Status
	reason     string
	finishedAt time.Time
	attempts   []postrider.Attempt                                                 // sorted by number
	count      func(outcome postrider.Outcome, number int, after postrider.Status) // counts a record for the rollups; set by addLocked
	deadLetter *postrider.DeadLetter
}

type laneKey struct {
	endpoint postrider.EndpointID
	lane     postrider.Lane
}

// lane is a heap of the pending deliveries of one lane. The delivery that is due first is on top.
type lane []*delivery

func (l lane) Len() int { return len(l) }

func (l lane) Less(i, j int) bool {
	return cmp.Or(l[i].due.Compare(l[j].due), l[i].id.Compare(l[j].id)) < 0
}

func (l lane) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

// Push implements [heap.Interface].
func (l *lane) Push(row any) {
	d := row.(*delivery) //nolint:errcheck // a lane has no other type
	d.at = len(*l)
	*l = append(*l, d)
}

// Pop implements [heap.Interface].
func (l *lane) Pop() any {
	last := len(*l) - 1
	d := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	d.at = -1
	return d
}

func (l *lane) push(d *delivery)   { heap.Push(l, d) }
func (l *lane) remove(d *delivery) { heap.Remove(l, d.at) }

func (s *Store) laneOf(d *delivery) *lane {
	key := laneKey{d.endpoint, d.lane}
	if s.lanes[key] == nil {
		s.lanes[key] = &lane{}
	}
	return s.lanes[key]
}

// requeueLocked removes a delivery from its lane, calls change, and adds the delivery to the lane
// that it then has.
func (s *Store) requeueLocked(d *delivery, change func()) {
	s.laneOf(d).remove(d)
	change()
	s.laneOf(d).push(d)
}

// endLocked removes a delivery from its lane and ends its lease. The caller then sets
// its status and calls advanceLocked, which needs the status.
func (s *Store) endLocked(d *delivery) {
	if d.at >= 0 {
		s.laneOf(d).remove(d)
	}
	d.token = 0
	delete(s.parked, d)
	d.parked = false
}

// Claim implements [store.Queue].
func (s *Store) Claim(_ context.Context, c store.Claim) (store.Claims, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var claims store.Claims
	for _, want := range c.Wants {
		if s.hold.Held() {
			want.N = 0
		}
		l := s.lanes[laneKey{want.Endpoint, want.Lane}]
		if l == nil {
			l = &lane{}
		}
		due := l.popDue(want, now)
		lost := 0
		for _, d := range due {
			if d.token != 0 {
				lost++
			}
		}
		suspects := s.suspectLocked(due, now)
		due = slices.DeleteFunc(due, func(d *delivery) bool { return slices.Contains(suspects, d) })
		state := store.LaneState{Claimed: len(due), Suspects: len(suspects), Lost: lost, Low: now}
		if len(*l) > 0 {
			first := (*l)[0].due
			state.Waiting, state.In = true, first.Sub(now)
			state.Low = earlier(now, first)
		}
		for _, d := range due {
			d.lease(c.Token, now, want.Lease)
			l.push(d)
			claims.Items = append(claims.Items, d.claimed())
		}
		claims.Lanes = append(claims.Lanes, state)
	}
	return claims, nil
}

// suspectLocked moves due deliveries whose lease ended once too often to the suspect lane, and
// returns them.
func (s *Store) suspectLocked(due []*delivery, now time.Time) (suspects []*delivery) {
	for _, d := range due {
		if d.token != 0 && d.lane != postrider.LaneSuspect && d.losses+1 >= postrider.SuspectedAfter {
			d.lose(now)
			d.token, d.due, d.lane = 0, now, postrider.LaneSuspect
			s.laneOf(d).push(d)
			suspects = append(suspects, d)
		}
	}
	return suspects
}

// popDue removes up to w.N due deliveries from the lane and returns them.
func (l *lane) popDue(w store.Want, now time.Time) (due []*delivery) {
	var passed []*delivery
	for len(due) < w.N && len(*l) > 0 && !(*l)[0].due.After(now) {
		d := heap.Pop(l).(*delivery) //nolint:errcheck // a lane has no other type
		if d.due.Before(w.After) {
			passed = append(passed, d)
			continue
		}
		due = append(due, d)
	}
	for _, d := range passed {
		l.push(d)
	}
	return due
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// lease leases the delivery. If the delivery still has a token, its old lease has ended, and the
// attempt is recorded as lost.
func (d *delivery) lease(token postrider.Token, now time.Time, lease time.Duration) {
	if d.token != 0 {
		d.lose(now)
	}
	d.claims++
	d.token, d.due = token, now.Add(lease)
}

// leased reports whether the delivery has a valid lease.
func (d *delivery) leased(now time.Time) bool { return d.token != 0 && d.due.After(now) }

// lose records the attempt under way as lost.
func (d *delivery) lose(now time.Time) {
	d.losses++
	d.count(postrider.OutcomeLost, d.claims, postrider.Pending)
	d.record(postrider.Attempt{
		Number: d.claims, Outcome: postrider.OutcomeLost, StartedAt: now, Error: "server_died",
		StatusAfter: postrider.Pending,
	})
}

func (d *delivery) claimed() postrider.Claimed {
	return postrider.Claimed{
		ID: d.id, Endpoint: d.endpoint, Event: d.event.Event, Lane: d.lane, Attempt: d.claims, Step: d.step,
		Losses: d.losses, Token: d.token, ExpiresAt: d.expires, ReplayedFrom: d.replayedFrom,
		ReplayJob: d.replayJob,
	}
}

// find returns the index of an attempt, and whether it is recorded.
func (d *delivery) find(number int) (int, bool) {
	return slices.BinarySearchFunc(d.attempts, number, func(a postrider.Attempt, n int) int { return cmp.Compare(a.Number, n) })
}

// record stores an attempt, in place of one with the same number.
func (d *delivery) record(a postrider.Attempt) {
	a.Delivery, a.Event, a.Endpoint = d.id, d.event.ID, d.endpoint
	i, found := d.find(a.Number)
	if !found {
		d.attempts = slices.Insert(d.attempts, i, a)
	}
	d.attempts[i] = a
}

// decide ends the delivery without a request.
func (d *delivery) decide(status postrider.Status, reason string, now time.Time) {
	number := 0 // the number of a delivery that was never queued
	if status != postrider.Skipped {
		number = d.claims + 1
	}
	d.status, d.reason, d.finishedAt = status, reason, now
	d.count(postrider.OutcomeNone, number, status)
	d.record(postrider.Attempt{
		Number: number, Outcome: postrider.OutcomeNone, StartedAt: now, Error: reason, StatusAfter: status,
	})
}

// Settle implements [store.Queue].
func (s *Store) Settle(_ context.Context, settlements []store.Settlement) ([]store.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var settled []store.Settled
	for _, settlement := range settlements {
		settled = append(settled, s.settleLocked(settlement, now))
	}
	return settled, nil
}

func (s *Store) settleLocked(settlement store.Settlement, now time.Time) store.Settled {
	d, ok := s.deliveries.get(settlement.Claimed.ID)
	if !ok {
		return store.Settled{Stale: true}
	}
	a, t := own(settlement.Attempt), settlement.Transition
	a.Number = settlement.Claimed.Attempt
	if d.token == 0 || d.token != settlement.Claimed.Token {
		return d.settleStale(a)
	}
	if a.Outcome == postrider.OutcomeNone {
		a.Error = cmp.Or(a.Error, t.Reason)
	}
	a.StatusAfter = t.To
	d.count(a.Outcome, a.Number, t.To)
	if t.To != postrider.Pending {
		s.endLocked(d)
		d.record(a)
		d.end(a, t, now)
		return store.Settled{Next: s.advanceLocked(d, now)}
	}
	a.NextAt = now.Add(t.After)
	d.record(a)
	s.requeueLocked(d, func() {
		d.token, d.due, d.step, d.losses, d.alone = 0, a.NextAt, t.Step, 0, 0
		if d.lane != postrider.LaneBulk {
			d.lane = postrider.LaneRetry
		}
	})
	return store.Settled{}
}

// Continue implements [store.Queue].
func (s *Store) Continue(_ context.Context, c postrider.Claimed, a postrider.Attempt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.deliveries.get(c.ID)
	if !ok || d.token == 0 || d.token != c.Token {
		return fmt.Errorf("continue delivery %s: %w", c.ID, postrider.ErrFenced)
	}
	if d.claims != c.Attempt {
		return nil // the call is a repeat
	}
	a = own(a)
	a.Number, a.StatusAfter, a.NextAt = c.Attempt, postrider.Pending, s.now()
	d.count(a.Outcome, a.Number, postrider.Pending)
	d.record(a)
	d.claims++
	return nil
}

// settleStale records a stale attempt, unless the call is a repeat.
func (d *delivery) settleStale(a postrider.Attempt) store.Settled {
	i, found := d.find(a.Number)
	if found && d.attempts[i].Outcome != postrider.OutcomeLost {
		return store.Settled{Stale: d.attempts[i].Stale}
	}
	if !found {
		d.count(a.Outcome, a.Number, postrider.Pending)
	}
	a.Stale, a.StatusAfter, a.NextAt = true, postrider.Pending, time.Time{}
	d.record(a)
	return store.Settled{Stale: true}
}

// own returns the attempt as stores keep it, with copies of its bytes.
func own(a postrider.Attempt) postrider.Attempt {
	a.StartedAt, a.Excused = stored(a.StartedAt), false
	a.Timing, _ = store.DecodeTiming(store.EncodeTiming(a.Timing)) // truncates to microseconds; the error is impossible
	a.RequestHead, a.ResponseHead, a.ResponseBody =
		bytes.Clone(a.RequestHead), bytes.Clone(a.ResponseHead), bytes.Clone(a.ResponseBody)
	if store.InOneRow(&a) {
		a.RequestHead, a.ResponseHead = nil, store.AcceptedHead(&a)
	}
	return a
}

func (d *delivery) end(a postrider.Attempt, t postrider.Transition, now time.Time) {
	d.status, d.reason, d.finishedAt = t.To, t.Reason, a.StartedAt.Add(a.Duration)
	if t.To == postrider.Dead {
		d.die(t.Reason, now)
	}
}

// die makes the delivery a dead letter.
func (d *delivery) die(reason string, now time.Time) {
	d.status, d.reason, d.finishedAt = postrider.Dead, reason, now
	code, text := d.last()
	d.deadLetter = &postrider.DeadLetter{
		Delivery: d.id, Event: d.event.ID, Endpoint: d.endpoint, Account: d.event.Account, EventType: d.event.Type,
		Reason: reason, Attempts: d.requests(), LastStatusCode: code, LastError: text,
		ReplayedFrom: d.replayedFrom, DiedAt: now,
	}
}

// Release implements [store.Queue].
func (s *Store) Release(_ context.Context, leases []store.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, lease := range leases {
		d, ok := s.deliveries.get(lease.Delivery)
		if ok && d.token != 0 && d.token == lease.Token {
			s.requeueLocked(d, func() { d.token, d.due, d.claims = 0, now, d.claims-1 })
		}
	}
	return nil
}

// MakeDue implements [store.Queue].
func (s *Store) MakeDue(_ context.Context, m store.MakeDue) (postrider.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	d, err := s.findLocked(m.Account, m.Delivery)
	if err == nil && !(m.Parked && d.parked) && !(!m.Parked && d.at >= 0 && d.token == 0 && d.due.After(now)) {
		err = store.NotWaitingError(m)
	}
	if err != nil {
		return postrider.Delivery{}, fmt.Errorf("make delivery %s due: %w", m.Delivery, err)
	}
	if m.Parked {
		delete(s.parked, d)
		d.parked, d.losses, d.alone, d.due = false, 0, 0, now
		s.laneOf(d).push(d)
	} else {
		s.requeueLocked(d, func() { d.due = now })
	}
	return s.readLocked(d), nil
}

// Due implements [store.Queue].
func (s *Store) Due(_ context.Context, q store.Due) ([]store.DueLane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := map[laneKey]time.Time{}
	note := func(d *delivery) {
		key := laneKey{d.endpoint, d.lane}
		if due, ok := first[key]; !ok || d.due.Before(due) {
			first[key] = d.due
		}
	}
	if q.NewerThan.IsZero() {
		for _, l := range s.lanes {
			if len(*l) > 0 {
				note((*l)[0])
			}
		}
	} else {
		for _, d := range s.deliveries.after(q.NewerThan) {
			if d.at >= 0 {
				note(d)
			}
		}
	}
	now := s.now()
	lanes := page(first, q, now)
	for i := range lanes {
		s.countLane(&lanes[i], q.Count, now)
	}
	return lanes, nil
}

// countLane counts up to most deliveries of a lane. Deliveries that are due come first.
func (s *Store) countLane(of *store.DueLane, most int, now time.Time) {
	if most <= 0 {
		return
	}
	waiting := slices.SortedFunc(slices.Values(*s.lanes[laneKey{of.Endpoint, of.Lane}]),
		func(a, b *delivery) int { return a.due.Compare(b.due) })
	waiting = waiting[:min(len(waiting), most)]
	of.Waiting = len(waiting)
	for _, d := range waiting {
		if !d.due.After(now) {
			of.Due++
			of.LastIn = d.due.Sub(now)
		}
	}
}

// page returns the lanes of the first q.Max endpoints after q.After.
func page(first map[laneKey]time.Time, q store.Due, now time.Time) (lanes []store.DueLane) {
	for key, due := range first {
		if key.endpoint.Compare(q.After) > 0 {
			lanes = append(lanes, store.DueLane{Endpoint: key.endpoint, Lane: key.lane, In: due.Sub(now)})
		}
	}
	slices.SortFunc(lanes, func(a, b store.DueLane) int {
		return cmp.Or(a.Endpoint.Compare(b.Endpoint), cmp.Compare(slices.Index(postrider.Lanes, a.Lane), slices.Index(postrider.Lanes, b.Lane)))
	})
	endpoints := 0
	for i, lane := range lanes {
		if i == 0 || lane.Endpoint != lanes[i-1].Endpoint {
			endpoints++
		}
		if endpoints > q.Max {
			return lanes[:i]
		}
	}
	return lanes
}
