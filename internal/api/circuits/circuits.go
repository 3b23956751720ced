// Package circuits is the part of the API that shows the circuits of endpoints, and opens, closes
// and probes them for people. A change that attempts make at the same time is no
// obstacle to that of a person.
package circuits

import (
	"cmp"
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Circuits is the method of store.Queue.
	Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error)
	// PutCircuit is the method of store.Queue.
	PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error)
	// LastFailures is the method of store.Rollups.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)
}

// Pacer knows how much endpoints are sent.
type Pacer interface {
	// Pace returns how much this node may send to the endpoint now; false: it does not
	// send to it.
	Pace(ctx context.Context, endpoint postrider.EndpointID) (postrider.Pace, bool)
}

// Routes serves the circuits of endpoints.
type Routes struct {
	*rest.Shared

	Store Store
	Pacer Pacer // nil: nobody knows
}

// Register registers the routes of an endpoint's circuit.
func (s *Routes) Register(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "get-circuit", Path: "GET /endpoints/{endpoint}/circuit",
		Summary:     "Get an endpoint's circuit",
		Description: "A circuit that never changed is closed, with generation 0.",
		Scope:       postrider.ScopeWebhooksRead,
	}, s.getCircuit)
	rest.HandleBody(rt, rest.Route{
		Name: "set-circuit", Path: "POST /endpoints/{endpoint}/circuit",
		Summary: "Open, close or probe an endpoint's circuit by hand",
		Codes:   []string{"endpoint_deleted", "endpoint_set_aside", "conflict"},
		Scope:   postrider.ScopeWebhooksOperate, Withdraws: true,
	}, s.setCircuit)
}

// circuitTries is how many times a manual change of a circuit is tried.
// Attempts of the endpoint may change the circuit between the read and the
// write.
const circuitTries = 5

// viewCircuit returns a circuit in the form of a response. It converts the times of the store's
// clock to wall-clock time. Zero times become null.
func (s *Routes) viewCircuit(c postrider.Circuit) apitypes.Circuit {
	c = s.Clock.ShownCircuit(c)
	return apitypes.Circuit{
		Status: cmp.Or(c.Status, postrider.CircuitClosed), Reason: render.OrNull(c.Reason),
		OpenedAt: render.TimeOrNull(c.OpenedAt), ProbeAt: render.TimeOrNull(c.ProbeAt), CooldownMS: c.Cooldown.Milliseconds(),
		FailingSince: render.TimeOrNull(c.FailingSince), PacedUntil: render.TimeOrNull(c.PacedUntil), Failures: c.Failures,
		LastAttemptAt: render.TimeOrNull(c.LastAttemptAt), LastOutcome: render.OrNull(c.LastOutcome), Generation: c.Generation,
	}
}

// fullCircuit returns viewCircuit with how much is sent to the endpoint now, and its last
// failure.
func (s *Routes) fullCircuit(ctx context.Context, c postrider.Circuit) (*rest.Reply[apitypes.Circuit], error) {
	view := s.viewCircuit(c)
	failures, err := render.LastFailures(ctx, s.Store, c.Endpoint)
	if err != nil {
		return nil, err
	}
	view.LastFailure = failures[c.Endpoint]
	if s.Pacer == nil {
		return rest.Respond(view), nil
	}
	if p, ok := s.Pacer.Pace(ctx, c.Endpoint); ok {
		view.Pace = &apitypes.Pace{
			Slots: p.Slots, Limit: p.Limit, InFlight: p.InFlight, Reason: render.OrNull(string(p.Reason)), ResumesAt: render.TimeOrNull(p.ResumesAt),
		}
	}
	return rest.Respond(view), nil
}

// getCircuit returns the circuit of an endpoint that is not deleted.
func (s *Routes) getCircuit(ctx context.Context, in *rest.EndpointPath) (*rest.Reply[apitypes.Circuit], error) {
	e, err := s.Names.LiveEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	c, err := s.Circuit(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	return s.fullCircuit(ctx, c)
}

// Circuit returns an endpoint's circuit. The store has no row for a circuit
// that never changed; such a circuit is closed.
func (s *Routes) Circuit(ctx context.Context, id postrider.EndpointID) (postrider.Circuit, error) {
	circuits, err := s.Store.Circuits(ctx, store.CircuitQuery{Endpoint: id, Limit: 1})
	if err != nil || len(circuits) == 0 {
		return postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed}, err
	}
	return circuits[0], nil
}

// setCircuit opens, closes or probes a circuit by hand. The status is checked
// before the endpoint is read, so an invalid request costs no query.
func (s *Routes) setCircuit(ctx context.Context, in *rest.EndpointPath, body apitypes.CircuitUpdate) (*rest.Reply[apitypes.Circuit], error) {
	to := body.Status
	if to != postrider.CircuitClosed && to != postrider.CircuitOpen && to != postrider.CircuitHalfOpen {
		return nil, rest.Invalid("status", postrider.FaultNotAChoice, "must be closed, open or half_open")
	}
	e, err := s.Names.ReadableEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	c, err := s.putCircuit(ctx, e, to)
	if err != nil {
		return nil, err
	}
	return s.fullCircuit(ctx, c)
}

// putCircuit sets the status of an endpoint's circuit. The store detects a
// concurrent change by the generation: the node that sends to the endpoint stores the
// circuit, too, whenever an attempt changes it. After such a change, putCircuit reads
// the circuit and tries again, up to circuitTries times. The person's wish is absolute,
// so it is applied to whatever the circuit has become.
func (s *Routes) putCircuit(ctx context.Context, e postrider.Endpoint, to postrider.CircuitStatus) (postrider.Circuit, error) {
	for range circuitTries {
		c, err := s.Circuit(ctx, e.ID)
		if err != nil {
			return c, err
		}
		b := postrider.Breaker{Circuit: c}
		b.Set(to, s.Clock.Now(), e.Policy.Circuit)
		if b.Circuit == c {
			return c, nil // nothing changed, for instance a closed circuit was closed
		}
		c, err = s.Store.PutCircuit(ctx, store.PutCircuit{Circuit: b.Circuit, Announce: true})
		if err == nil {
			s.Effects.Notify(e.ID)
			s.Hooks.CircuitChanged.Call(c)
			s.Effects.Await(ctx, postrider.Withdrawal{Endpoint: e.ID})
			return c, nil
		}
		if !errors.Is(err, postrider.ErrConflict) {
			return c, err
		}
	}
	return postrider.Circuit{}, rest.Conflict("conflict", "the circuit is being changed by others")
}

// Probe ends the cooldown of a circuit that failures opened: whoever tests wants to know
// whether the endpoint works again. A circuit that a person opened stays open. The test event
// is stored already, so an error is no failure of the test; it waits for the next probe then.
func (s *Routes) Probe(ctx context.Context, e postrider.Endpoint) {
	c, err := s.Circuit(ctx, e.ID)
	if err != nil || c.Status != postrider.CircuitOpen || c.Reason == postrider.ReasonManual {
		return
	}
	_, _ = s.putCircuit(ctx, e, postrider.CircuitHalfOpen)
}
