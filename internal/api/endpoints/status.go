package endpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// registerStatusChanges registers the routes that change the status of an endpoint.
func (s *Routes) registerStatusChanges(rt *rest.Router) {
	for _, c := range statusChanges {
		codes := []string{"endpoint_deleted", "conflict"}
		for _, status := range []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled} {
			if !slices.Contains(c.from, status) {
				codes = append(codes, "endpoint_"+string(status))
			}
		}
		if c.to == postrider.EndpointEnabled {
			codes = append(codes, "unverified", "backfill_running")
		}
		rest.HandleBody(rt, rest.Route{
			Name: c.verb + "-endpoint", Path: "POST /endpoints/{endpoint}/" + c.verb,
			Summary: c.summary, Description: c.description,
			Codes: codes,
			Scope: c.scope, Empty: true, Withdraws: c.to != postrider.EndpointEnabled,
		}, s.changeStatus(c))
	}
}

// statusChange is one of the status changes that the API offers.
type statusChange struct {
	// verb is the last segment of the path. summary and description are fields of [rest.Route].
	verb, summary, description string

	// scope is the scope that the change needs.
	scope postrider.Scope
	// to is the status after the change.
	to postrider.EndpointStatus
	// from are the statuses in which the change is allowed. If from has the status to, a repeated
	// request succeeds.
	from []postrider.EndpointStatus
	// closes is true if the change also closes the circuit, so that sending starts again at once.
	closes bool
}

// statusChanges has the four changes. Pause and resume are meant for maintenance. Disable and
// enable are also for endpoints that Postrider disabled for their failures. A disabled endpoint
// loses events, so disabling needs another scope than the other changes.
var statusChanges = []statusChange{{
	verb: "pause", summary: "Pause an endpoint", description: "Its deliveries wait until it is resumed.",
	scope: postrider.ScopeWebhooksOperate,
	to:    postrider.EndpointPaused, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused},
}, {
	verb: "resume", summary: "Resume a paused endpoint",
	description: "Deliveries that are due are sent. Those that wait for a retry keep their time.",
	scope:       postrider.ScopeWebhooksOperate,
	to:          postrider.EndpointEnabled, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused},
}, {
	verb: "enable", summary: "Enable a disabled endpoint",
	description: "Its circuit is closed, too. Deliveries that are due are sent; those that wait for a retry keep their time. Repeated, it changes nothing more.",
	scope:       postrider.ScopeWebhooksOperate,
	to:          postrider.EndpointEnabled, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointDisabled},
	closes: true,
}, {
	verb: "disable", summary: "Disable an endpoint",
	description: "Pending deliveries wait until it is enabled. Events that are published in the meantime are skipped.",
	scope:       postrider.ScopeEndpointsWrite,
	to:          postrider.EndpointDisabled,
	from:        []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled},
}}

// changeStatus returns the handler of a status change. The status and the circuit change in one
// transaction.
func (s *Routes) changeStatus(c statusChange) func(context.Context, *rest.EndpointPath,
	apitypes.EndpointReason) (*rest.Reply[apitypes.Endpoint], error) {
	return func(ctx context.Context, in *rest.EndpointPath, body apitypes.EndpointReason) (*rest.Reply[apitypes.Endpoint], error) {
		wait := s.awaited(ctx)
		if c.to == postrider.EndpointEnabled { // enabling takes nothing away from the endpoint
			wait = func(r *rest.Reply[apitypes.Endpoint], err error) (*rest.Reply[apitypes.Endpoint], error) {
				return r, err
			}
		}
		return wait(s.put(ctx, in.Endpoint, func(p *store.PutEndpoint) error {
			e := &p.Endpoint
			if !slices.Contains(c.from, e.Status) {
				return rest.Conflict("endpoint_"+string(e.Status), "the endpoint is "+string(e.Status))
			}
			if err := errors.Join(s.requireVerified(*e, c.to), s.requireHistory(ctx, *e, c.to)); err != nil {
				return err
			}
			e.Status, e.StatusReason = c.to, body.Reason
			p.CloseCircuit = c.closes
			if c.to == postrider.EndpointEnabled {
				e.StatusReason = ""
			}
			return rest.CheckText("reason", body.Reason, rest.MaxDescription)
		}))
	}
}

// requireHistory refuses to send to an ordered endpoint while a backfill makes its deliveries. New events
// of a key must wait behind all of them.
func (s *Routes) requireHistory(ctx context.Context, e postrider.Endpoint, to postrider.EndpointStatus) error {
	if to != postrider.EndpointEnabled || e.Status == to || e.Policy.Order != postrider.OrderByKey {
		return nil
	}
	jobs, err := s.Store.ReplayJobs(ctx, store.ReplayJobQuery{Account: e.Account, Backfills: e.ID, Paging: store.Paging{Limit: 1}})
	if err == nil && len(jobs.Items) > 0 {
		err = rest.Conflict("backfill_running", fmt.Sprintf("the backfill %s has not ended; wait until it has, or cancel it", jobs.Items[0].ID))
	}
	return err
}
