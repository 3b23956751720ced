// Package circuits is the part of the API that shows the circuits of endpoints, and lets people
// open, close and probe them. If an attempt changes the circuit at the same time, the change of the
// person is applied on top.
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

// Pacer knows how much may be sent to an endpoint.
type Pacer interface {
	// Pace returns how much this node may send to the endpoint now; false: this node does not send
	// to the endpoint.
	Pace(ctx context.Context, endpoint postrider.EndpointID) (postrider.Pace, bool)
}

// Routes serves the circuits of endpoints.
type Routes struct {
	*rest.Shared

	Store Store
	Pacer Pacer // nil: the pace of endpoints is unknown
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

// circuitTries is the number of times that a manual change of a circuit is tried. An attempt of the
// endpoint may change the circuit between the read and the write.
const circuitTries = 5

// viewCircuit returns a circuit in the form of a response. It converts the times from the store's
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

// fullCircuit returns the response with a circuit, the endpoint's present pace and its last
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

// Circuit returns an endpoint's circuit. The store has no row for a circuit that never changed.
// Such a circuit is closed.
func (s *Routes) Circuit(ctx context.Context, id postrider.EndpointID) (postrider.Circuit, error) {
	circuits, err := s.Store.Circuits(ctx, store.CircuitQuery{Endpoint: id, Limit: 1})
	if err != nil || len(circuits) == 0 {
		return postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed}, err
	}
	return circuits[0], nil
}

// setCircuit opens, closes or probes a circuit by hand. It checks the status before it reads the
// endpoint, so an invalid request costs no query.
func (s *Routes) setCircuit(
	ctx context.Context, in *rest.EndpointPath, body apitypes.CircuitUpdate,
) (*rest.Reply[apitypes.Circuit], error) {
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

// putCircuit sets the status of an endpoint's circuit. The store detects a concurrent change by the
// generation, because the node that sends to the endpoint also stores the circuit whenever an
// attempt changes it. After such a conflict, putCircuit reads the circuit again and applies the
// person's status to it, up to circuitTries times.
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

// Probe ends the cooldown of a circuit that failures opened, because a person who tests an endpoint
// wants to know whether the endpoint works again. A circuit that a person opened stays open. Probe
// ignores errors: the test event is stored already, and waits for the next probe.
func (s *Routes) Probe(ctx context.Context, e postrider.Endpoint) {
	c, err := s.Circuit(ctx, e.ID)
	if err != nil || c.Status != postrider.CircuitOpen || c.Reason == postrider.ReasonManual {
		return
	}
	_, _ = s.putCircuit(ctx, e, postrider.CircuitHalfOpen)
}
