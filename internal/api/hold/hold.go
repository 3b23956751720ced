// Package hold is the part of the API that shows and ends the hold of a restored store. It is small
// and has all parts of a feature: copy it to begin a new feature.
package hold

import (
	"context"
	"fmt"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Held is the method of store.Holding.
	Held(ctx context.Context) (postrider.Hold, error)
	// HeldWork is the method of store.Holding.
	HeldWork(ctx context.Context) (store.HeldWork, error)
	// Resume is the method of store.Holding.
	Resume(ctx context.Context) (store.HeldWork, error)
}

// Expunger knows the expunges that a restored store makes again.
type Expunger interface {
	// Unfinished returns the number of expunges that have not removed everything yet.
	Unfinished(ctx context.Context) (int, error)
}

// Routes serves the hold of a restored store.
type Routes struct {
	Store    Store
	Expunger Expunger
}

// Register registers the routes of the hold.
func (s *Routes) Register(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "get-hold", Path: "GET /hold",
		Summary: "Show whether sending is held after a restore",
		Description: "A store that was restored from a backup is held: publishes are accepted, and nothing is sent, because what waits " +
			"may have been sent after the backup was made. A caller that may see deliveries may know why they wait.",
		Scope: postrider.ScopeWebhooksRead,
	}, s.getHold)
	rest.Handle(rt, rest.Route{
		Name: "resume-after-restore", Path: "POST /hold/resume",
		Summary:     "Send again after a restore",
		Description: "All servers send again within about a second. A store that is not held stays as it is, and the response has no work.",
		Codes:       []string{"expunges_unfinished"},
		Scope:       postrider.ScopeAdmin,
	}, s.resumeHold)
}

// getHold shows the hold. Callers that are bound to no account also see the number of deliveries
// and fan-out jobs that may send an event twice.
func (s *Routes) getHold(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.Hold], error) {
	hold, err := s.Store.Held(ctx)
	if err != nil {
		return nil, err
	}
	if !rest.InfoOf(ctx).Caller.Account.IsZero() {
		return rest.Respond(viewHold(hold)), nil
	}
	var work store.HeldWork
	if hold.Held() {
		if work, err = s.Store.HeldWork(ctx); err != nil {
			return nil, err
		}
	}
	return rest.Respond(withWork(viewHold(hold), work)), nil
}

// resumeHold ends the hold. The audit entry has the number of deliveries and fan-out jobs that may
// send an event twice.
func (s *Routes) resumeHold(ctx context.Context, _ *rest.None) (*rest.Reply[apitypes.Hold], error) {
	switch n, err := s.Expunger.Unfinished(ctx); {
	case err != nil:
		return nil, err
	case n > 0:
		return nil, rest.Conflict("expunges_unfinished", fmt.Sprintf("%d expunges of the list are done again first; try again in a minute", n))
	}
	work, err := s.Store.Resume(ctx)
	if err != nil {
		return nil, err
	}
	rest.InfoOf(ctx).Note("deliveries", strconv.Itoa(work.Deliveries))
	rest.InfoOf(ctx).Note("fan_outs", strconv.Itoa(work.FanOuts))
	return rest.Respond(withWork(viewHold(postrider.Hold{}), work)), nil
}

func viewHold(h postrider.Hold) apitypes.Hold {
	return apitypes.Hold{Held: h.Held(), Since: render.TimeOrNull(h.Since), Reason: render.OrNull(h.Reason)}
}

// withWork adds to the hold the deliveries and fan-out jobs that may send an event twice.
func withWork(h apitypes.Hold, w store.HeldWork) apitypes.Hold {
	h.Deliveries, h.FanOuts = &w.Deliveries, &w.FanOuts
	return h
}
