package storetest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func (h *history) publish() {
	var batches []store.Batch
	for range h.upTo("batches", 3) {
		var batch store.Batch
		account := pick(h, "account", h.accounts...)
		for range h.upTo("events", 3) {
			batch = append(batch, h.event(account))
		}
		batches = append(batches, batch)
	}
	h.published = append(h.published, batches)
	h.send(batches)
}

func (h *history) publishAgain() {
	if len(h.published) > 0 {
		h.send(pick(h, "publish", h.published...))
	}
}

// send publishes the batches, and notes the leases of admitted deliveries.
func (h *history) send(batches []store.Batch) {
	h.Helper()
	published, _ := both(h, "publish", func(s store.Store) ([]store.Published, error) {
		return s.Publish(h.Context(), store.Publish{Version: h.version(s), Batches: batches})
	})
	var rows []postrider.OutboxID
	for _, r := range store.ReadRows(batches) {
		rows = append(rows, r.ID)
	}
	both(h, "outbox rows", func(s store.Store) (map[postrider.OutboxID]postrider.EventID, error) {
		return s.OutboxRows(h.Context(), rows)
	})
	for i, p := range published {
		for j, answer := range p.Events {
			if !answer.Duplicate {
				h.note(batches[i][j])
			}
		}
	}
}

// note adds the leases of a published event to the history, unless it has them.
func (h *history) note(e store.NewEvent) {
	for _, d := range e.Deliveries {
		if d.Token == 0 || d.Skipped != "" {
			continue
		}
		known := func(c postrider.Claimed) bool { return c.ID == d.ID }
		if slices.ContainsFunc(h.claims, known) || h.delivered(d.ID) {
			continue
		}
		h.claims = append(h.claims, postrider.Claimed{
			ID: d.ID, Endpoint: d.Endpoint, Event: &e.Event, Lane: d.Lane, Attempt: 1, Token: d.Token,
		})
	}
}

// delivered reports whether the history has settled or released a lease of the delivery.
func (h *history) delivered(id postrider.DeliveryID) bool {
	return slices.ContainsFunc(h.settled, func(s store.Settlement) bool { return s.Claimed.ID == id }) ||
		slices.Contains(h.released, id)
}

func (h *history) event(account postrider.AccountID) store.NewEvent {
	id := store.NewEventID(h.ids)
	e := store.NewEvent{Event: postrider.Event{
		ID: id, Account: account, CreatedAt: id.Time(),
		Type:           pick(h, "type", "order.created", "order.paid"),
		Data:           []byte(pick(h, "data", "1", "2")),
		IdempotencyKey: pick(h, "key", "", "a", "b"),
		Hops:           pick(h, "hops", 0, 0, 3),
		MaxAttempts:    pick(h, "max attempts", 0, 0, 2),
		TraceParent:    pick(h, "trace", postrider.TraceParent{}, traced),
		About:          pick(h, "about", postrider.About{}, postrider.About{}, said),
		Endpoints:      pick(h, "endpoints", nil, nil, []postrider.EndpointID{{1}}),
		OccurredAt:     pick(h, "occurred at", time.Time{}, time.Time{}, id.Time()),
		Row:            pick(h, "row", postrider.OutboxID{}, postrider.OutboxID{}, postrider.OutboxID(account)),
		OrderingKey:    pick(h, "ordering key", "", "", string(postrider.SkipDead), string(postrider.PauseOnDead)),
	}}
	if !e.Event.Row.IsZero() {
		e.Event.Row[15] = byte(len(e.Event.OrderingKey)) // a row has one account and one ordering key
	}
	var own []postrider.Endpoint
	for _, endpoint := range h.endpoints {
		if endpoint.Account == account {
			own = append(own, endpoint)
		}
	}
	if rapid.IntRange(0, 4).Draw(h.T, "fan out") == 4 {
		e.FanOutUpTo = own[len(own)-1].ID
		return e
	}
	next := store.NewDeliveryIDs(h.ids, id)
	for range h.upTo("deliveries", 3) {
		d := h.newDelivery(pick(h, "endpoint", own...).ID)
		d.ID = pick(h, "id", d.ID, next())
		if e.Event.OrderingKey != "" && !slices.ContainsFunc(e.Deliveries, func(o store.NewDelivery) bool { return o.Endpoint == d.Endpoint }) {
			d.Ordered, d.Token, d.Lease = postrider.OnDead(e.Event.OrderingKey), 0, 0
			h.ordered[d.ID] = d.Ordered
		}
		e.Deliveries = append(e.Deliveries, d)
	}
	return e
}

func (h *history) newDelivery(e postrider.EndpointID) store.NewDelivery {
	d := store.NewDelivery{
		ID: store.NewID[postrider.DeliveryID](h.ids), Endpoint: e,
		Lane:   pick(h, "lane", postrider.LaneFirst, postrider.LaneFirst, postrider.LaneBulk),
		Wait:   pick(h, "wait", 0, 0, long),
		Expiry: pick(h, "expiry", long, long, 0),
	}
	switch h.upTo("kind of delivery", 6) {
	case 1:
		d.Skipped = postrider.ReasonEndpointDisabled
	case 2, 3:
		d.Token, d.Lease = h.token(), long
	}
	return d
}

func (h *history) claim() {
	c := store.Claim{Token: h.token()}
	for _, e := range h.endpoints {
		for _, lane := range postrider.Lanes {
			if n := rapid.IntRange(0, 3).Draw(h.T, "n"); n > 0 {
				c.Wants = append(c.Wants, store.Want{Endpoint: e.ID, Lane: lane, N: n, Lease: long})
			}
		}
	}
	claims, _ := both(h, "claim", func(s store.Store) (store.Claims, error) {
		claims, err := s.Claim(h.Context(), c)
		slices.SortFunc(claims.Items, func(a, b postrider.Claimed) int { return a.ID.Compare(b.ID) })
		return claims, err
	})
	h.claims = append(h.claims, claims.Items...)
}

// taken removes up to three leases from the history, and returns them.
func (h *history) taken() (taken []postrider.Claimed) {
	for range h.upTo("leases", 3) {
		if len(h.claims) == 0 {
			break
		}
		i := rapid.IntRange(0, len(h.claims)-1).Draw(h.T, "lease")
		taken = append(taken, h.claims[i])
		h.claims = slices.Delete(h.claims, i, i+1)
	}
	return taken
}

func (h *history) settle() {
	var settlements []store.Settlement
	for _, c := range h.taken() {
		settle := pick(h, "settlement", delivered, dead, refused,
			func(c postrider.Claimed) store.Settlement { return retry(c, 0) },
			func(c postrider.Claimed) store.Settlement { return retry(c, 0) },
			func(c postrider.Claimed) store.Settlement { return retry(c, long) })
		s := settle(c)
		s.Attempt.FinalURL = pick(h, "final URL", "", "https://acme.example/moved")
		s.Attempt.Timing.FirstByte = pick(h, "first byte", 0, time.Millisecond)
		s.Attempt.ResponseBody = fmt.Appendf(nil, "answer to attempt %d", c.Attempt)
		settlements = append(settlements, s)
	}
	h.settled = append(h.settled, settlements...)
	h.commit(settlements)
}

func refused(c postrider.Claimed) store.Settlement {
	s := settlement(c, 0, postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonSystem})
	s.Attempt.Outcome, s.Attempt.Error = postrider.OutcomeNone, postrider.ReasonSystem
	return s
}

func (h *history) settleAgain() {
	if len(h.settled) > 0 {
		h.commit([]store.Settlement{pick(h, "settlement", h.settled...)})
	}
}

func (h *history) commit(settlements []store.Settlement) {
	h.Helper()
	both(h, "settle", func(s store.Store) ([]store.Settled, error) { return s.Settle(h.Context(), settlements) })
}

func (h *history) release() {
	var leases []store.Lease
	for _, c := range h.taken() {
		leases = append(leases, store.Lease{Delivery: c.ID, Token: c.Token})
		h.released = append(h.released, c.ID)
	}
	if len(h.settled) > 0 { // a lease that was settled
		c := pick(h, "settlement", h.settled...).Claimed
		leases = append(leases, store.Lease{Delivery: c.ID, Token: c.Token})
	}
	both(h, "release", only(func(s store.Store) error { return s.Release(h.Context(), leases) }))
}

// fanOut claims jobs, or stores the next chunk of one. Other histories may have left jobs in the
// store under test.
func (h *history) fanOut() {
	if len(h.jobs) == 0 || rapid.Bool().Draw(h.T, "claim jobs") {
		q := store.ClaimFanOuts{Max: 1000, Token: h.token(), Lease: long}
		jobs, _ := both(h, "claim fan-outs", func(s store.Store) ([]store.FanOut, error) {
			jobs, err := s.ClaimFanOuts(h.Context(), q)
			return slices.DeleteFunc(jobs, func(j store.FanOut) bool { return !slices.Contains(h.accounts, j.Event.Account) }), err
		})
		h.jobs = append(h.jobs, jobs...)
		return
	}
	i := rapid.IntRange(0, len(h.jobs)-1).Draw(h.T, "job")
	job := &h.jobs[i]
	chunk := store.FanOutChunk{
		Event: job.Event.ID, Token: job.Token, From: job.Cursor, To: h.endpoints[0].ID, Lease: long,
		Deliveries: []store.NewDelivery{h.newDelivery(h.endpoints[0].ID)},
		Done:       rapid.Bool().Draw(h.T, "done"),
	}
	for _, e := range h.endpoints {
		if e.Account == job.Event.Account {
			chunk.To, chunk.Deliveries[0].Endpoint = e.ID, e.ID
		}
	}
	chunk.Deliveries[0].Token = 0
	if rapid.IntRange(0, 4).Draw(h.T, "fenced") == 4 {
		chunk.Token = h.token()
	}
	_, ok := both(h, "fan out", only(func(s store.Store) error { return s.FanOut(h.Context(), chunk) }))
	job.Cursor = chunk.To
	if !ok || chunk.Done {
		h.jobs = slices.Delete(h.jobs, i, i+1)
	}
}

// target picks a delivery, and an account that may or may not be that of the delivery.
func (h *history) target() (postrider.AccountID, postrider.DeliveryID) {
	var ids []postrider.DeliveryID
	for _, account := range h.accounts {
		for _, d := range h.deliveries(account) {
			ids = append(ids, d.ID)
		}
	}
	ids = append(ids, store.NewID[postrider.DeliveryID](h.ids))
	return pick(h, "account", slices.Concat(h.accounts, make([]postrider.AccountID, 2))...), pick(h, "delivery", ids...)
}

func (h *history) replay() {
	account, id := h.target()
	r := store.Replay{
		Account: account, Delivery: id, ID: store.NewID[postrider.DeliveryID](h.ids), Expiry: long, By: "support",
	}
	both(h, "replay", func(s store.Store) (postrider.Delivery, error) { return s.Replay(h.Context(), r) })
}

func (h *history) cancel() {
	account, id := h.target()
	both(h, "cancel", func(s store.Store) (postrider.Delivery, error) {
		return s.Cancel(h.Context(), store.Cancel{Account: account, Delivery: id})
	})
}

func (h *history) makeDue() {
	account, id := h.target()
	both(h, "make due", func(s store.Store) (postrider.Delivery, error) {
		return s.MakeDue(h.Context(), store.MakeDue{Account: account, Delivery: id})
	})
}

func (h *history) discard() {
	account, id := h.target()
	both(h, "discard", func(s store.Store) (postrider.DeadLetter, error) {
		return s.Discard(h.Context(), store.Discard{Account: account, Delivery: id, By: "support", Note: "why"})
	})
}

// circuit changes a circuit, or tries to with a wrong generation.
func (h *history) circuit() {
	e := pick(h, "endpoint", h.endpoints...)
	if e.Status == postrider.EndpointDeleted {
		return // the contract does not define this case
	}
	now := e.ID.Time()
	c := postrider.Circuit{
		Endpoint: e.ID, Status: postrider.CircuitOpen, Reason: postrider.ReasonFailuresInRow,
		OpenedAt: now, ProbeAt: now.Add(long), Cooldown: long, FailingSince: now,
		PacedUntil: now.Add(long), RateFullAt: now, Failures: 5, LastAttemptAt: now, LastOutcome: postrider.OutcomeTimedOut,
	}
	if rapid.Bool().Draw(h.T, "close") {
		c = postrider.Circuit{Endpoint: e.ID, Status: postrider.CircuitClosed, Reason: postrider.ReasonFailuresInRow}
	}
	for _, stored := range lastOf(h.model.Circuits(h.Context(), store.CircuitQuery{Endpoint: e.ID, Limit: 1})) {
		c.Generation = stored.Generation
	}
	c.Generation += pick(h, "generations ahead", int64(0), 0, 0, 1)
	announce := rapid.Bool().Draw(h.T, "announce")
	both(h, "put circuit", func(s store.Store) (postrider.Circuit, error) {
		return s.PutCircuit(h.Context(), store.PutCircuit{Circuit: c, Announce: announce})
	})
}

// lastOf returns the model's result; the model returned no error.
func lastOf[T any](items []T, _ error) []T { return items }

// health records a health. Its Since is before the beginning of the history.
func (h *history) health() {
	i := rapid.IntRange(0, len(h.endpoints)-1).Draw(h.T, "endpoint")
	e := &h.endpoints[i]
	if e.Status == postrider.EndpointDeleted {
		return // the contract does not define this case
	}
	page, _ := h.model.HealthHistory(h.Context(), store.HealthQuery{Account: e.Account, Endpoint: e.ID, Paging: store.Paging{Limit: 1}})
	health := postrider.EndpointHealth{
		Endpoint: e.ID, Account: e.Account, Reason: postrider.ReasonFailing, Since: e.ID.Time().Add(-2 * postrider.HealthSpan),
		Status: pick(h, "status", postrider.Healthy, postrider.HealthWarned, postrider.HealthDisabled),
		Number: pick(h, "number", int64(1), 1, 1, 0),
	}
	for _, last := range page.Items {
		health.Number += last.Number
	}
	_, ok := both(h, "put health", only(func(s store.Store) error { return s.PutHealth(h.Context(), health) }))
	if ok && health.Status == postrider.HealthDisabled {
		e.Status, e.StatusReason = postrider.EndpointDisabled, health.Reason
		e.Revision++
	}
}
