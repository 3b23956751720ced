package api

import (
	"cmp"
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// circuitTries is how often a person's change of a circuit is tried while the
// endpoint's own attempts change it too.
const circuitTries = 5

type circuitView struct {
	Status       string  `json:"status" enum:"closed,open,half_open" doc:"closed: attempts are made. open: no attempt is made before probe_at. half_open: one attempt, the probe, is under way."`
	Reason       *string `json:"reason" enum:"failures_in_row,failure_ratio,probe_failed,manual" doc:"Why the circuit opened the last time. Null: it never opened."`
	OpenedAt     *string `json:"opened_at" format:"date-time"`
	ProbeAt      *string `json:"probe_at" format:"date-time" doc:"Open: time of the next probe. Half open: time by which the probe ends."`
	Cooldown     int64   `json:"cooldown_ms" doc:"Time from the last opening to its probe. 0: the circuit has recovered since."`
	FailingSince *string `json:"failing_since" format:"date-time" doc:"Time of the first failure of the current streak. Set when the circuit opens, or after one minute of failures without opening. Null: the last attempt did not fail."`
	PacedUntil   *string `json:"paced_until" format:"date-time" doc:"No attempt is made before this time: the receiver asked for it with Retry-After. Null: it never asked."`
	Failures     int     `json:"failures" doc:"Number of attempts in a row that failed, when the circuit was last stored."`
	LastAttempt  *string `json:"last_attempt_at" format:"date-time" doc:"End of the last attempt before the circuit was last stored. Null: none is known. The attempts of the endpoint's deliveries are complete."`
	LastOutcome  *string `json:"last_outcome" doc:"Outcome of that attempt."`
	Generation   int64   `json:"generation" doc:"Number of times that this circuit was stored: when it changed, when the receiver asked for time, once a minute while every attempt fails, and after each attempt at a rate of one a second or slower. 0: never."`
}

func viewCircuit(c postrider.Circuit) circuitView {
	return circuitView{
		Status: string(cmp.Or(c.Status, postrider.CircuitClosed)), Reason: orNull(c.Reason),
		OpenedAt: instantOrNull(c.OpenedAt), ProbeAt: instantOrNull(c.ProbeAt), Cooldown: c.Cooldown.Milliseconds(),
		FailingSince: instantOrNull(c.FailingSince), PacedUntil: instantOrNull(c.PacedUntil), Failures: c.Failures,
		LastAttempt: instantOrNull(c.LastAttemptAt), LastOutcome: orNull(string(c.LastOutcome)), Generation: c.Generation,
	}
}

type circuitUpdate struct {
	Status string `json:"status" enum:"closed,open,half_open" doc:"open: make no attempt for max_cooldown_ms. closed: make attempts, whatever the receiver asked for. half_open: make one attempt, the probe, as soon as a delivery is due; until then the circuit stays open."`
}

func (rt *router) circuits() {
	handle(rt, route{
		name: "get-circuit", path: "GET /endpoints/{endpoint}/circuit",
		about: "Get an endpoint's circuit",
		tells: "A circuit that never changed is closed, with generation 0.",
		scope: postrider.ScopeWebhooksRead,
	}, rt.getCircuit)
	handle(rt, route{
		name: "set-circuit", path: "POST /endpoints/{endpoint}/circuit",
		about: "Open, close or probe an endpoint's circuit by hand",
		codes: []string{"conflict"},
		scope: postrider.ScopeWebhooksWrite, body: circuitUpdate{},
	}, rt.setCircuit)
}

func (s *server) getCircuit(ctx context.Context, in *EndpointPath) (*reply[circuitView], error) {
	e, err := s.findLive(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	c, err := s.circuit(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	return answered(viewCircuit(c)), nil
}

// circuit returns an endpoint's circuit; one that never changed is closed.
func (s *server) circuit(ctx context.Context, id postrider.EndpointID) (postrider.Circuit, error) {
	circuits, err := s.Store.Circuits(ctx, store.CircuitQuery{Endpoint: id, Limit: 1})
	if err != nil || len(circuits) == 0 {
		return postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed}, err
	}
	return circuits[0], nil
}

func (s *server) setCircuit(ctx context.Context, in *EndpointPath) (*reply[circuitView], error) {
	var body circuitUpdate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	to := postrider.CircuitStatus(body.Status)
	if to != postrider.CircuitClosed && to != postrider.CircuitOpen && to != postrider.CircuitHalfOpen {
		return nil, invalid("status", "must be closed, open or half_open")
	}
	e, err := s.findLive(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	c, err := s.putCircuit(ctx, e, to)
	if err != nil {
		return nil, err
	}
	return answered(viewCircuit(c)), nil
}

// putCircuit changes an endpoint's circuit, and begins anew if another change
// came between.
func (s *server) putCircuit(ctx context.Context, e postrider.Endpoint, to postrider.CircuitStatus) (postrider.Circuit, error) {
	for range circuitTries {
		c, err := s.circuit(ctx, e.ID)
		if err != nil {
			return c, err
		}
		now, err := s.Store.Now(ctx)
		if err != nil {
			return c, err
		}
		b := postrider.Breaker{Circuit: c}
		b.Set(to, now, e.Policy.Circuit)
		if b.Circuit == c {
			return c, nil // a closed one was closed
		}
		c, err = s.Store.PutCircuit(ctx, store.PutCircuit{Circuit: b.Circuit, Announce: true})
		if err == nil {
			s.Notifier.Notify(e.ID)
			return c, nil
		}
		if !errors.Is(err, postrider.ErrConflict) {
			return c, err
		}
	}
	return postrider.Circuit{}, conflict("the circuit is being changed by others")
}
