package api

import (
	"context"
	"fmt"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type holdStore interface {
	// Held is the method of store.Holding.
	Held(ctx context.Context) (postrider.Hold, error)
	// HeldWork is the method of store.Holding.
	HeldWork(ctx context.Context) (store.HeldWork, error)
	// Resume is the method of store.Holding.
	Resume(ctx context.Context) (store.HeldWork, error)
}

// Expunger knows the expunges that a restored store makes again.
type holdExpunger interface {
	// Unfinished returns how many expunges have not removed everything yet.
	Unfinished(ctx context.Context) (int, error)
}

// Routes serves the hold of a store that was restored.
type holdRoutes struct {
	Store    holdStore
	Expunger holdExpunger
}

// Register registers the routes about a store that was restored and is held.
func (s *holdRoutes) Register(rt *router) {
	handle(rt, route{
		name: "get-hold", path: "GET /hold",
		summary: "Show whether sending is held after a restore",
		description: "A store that was restored from a backup is held: publishes are accepted, and nothing is sent, because what waits " +
			"may have been sent after the backup was made. A caller that may see deliveries may know why they wait.",
		scope: postrider.ScopeWebhooksRead,
	}, s.getHold)
	handle(rt, route{
		name: "resume-after-restore", path: "POST /hold/resume",
		summary:     "Send again after a restore",
		description: "All servers send again within about a second. A store that is not held stays as it is, and the response has no work.",
		codes:       []string{"expunges_unfinished"},
		scope:       postrider.ScopeAdmin,
	}, s.resumeHold)
}

// getHold shows the hold, and to callers of all accounts what may repeat.
func (s *holdRoutes) getHold(ctx context.Context, _ *none) (*reply[apitypes.Hold], error) {
	hold, err := s.Store.Held(ctx)
	if err != nil {
		return nil, err
	}
	if !infoOf(ctx).caller.Account.IsZero() {
		return respond(viewHold(hold)), nil
	}
	var work store.HeldWork
	if hold.Held() {
		if work, err = s.Store.HeldWork(ctx); err != nil {
			return nil, err
		}
	}
	return respond(withWork(viewHold(hold), work)), nil
}

// resumeHold ends the hold. The audit log says what may repeat.
func (s *holdRoutes) resumeHold(ctx context.Context, _ *none) (*reply[apitypes.Hold], error) {
	switch n, err := s.Expunger.Unfinished(ctx); {
	case err != nil:
		return nil, err
	case n > 0:
		return nil, conflict("expunges_unfinished", fmt.Sprintf("%d expunges of the list are done again first; try again in a minute", n))
	}
	work, err := s.Store.Resume(ctx)
	if err != nil {
		return nil, err
	}
	infoOf(ctx).note("deliveries", strconv.Itoa(work.Deliveries))
	infoOf(ctx).note("fan_outs", strconv.Itoa(work.FanOuts))
	return respond(withWork(viewHold(postrider.Hold{}), work)), nil
}

func viewHold(h postrider.Hold) apitypes.Hold {
	return apitypes.Hold{Held: h.Held(), Since: timeOrNull(h.Since), Reason: orNull(h.Reason)}
}

// withWork returns the hold with what may repeat.
func withWork(h apitypes.Hold, w store.HeldWork) apitypes.Hold {
	h.Deliveries, h.FanOuts = &w.Deliveries, &w.FanOuts
	return h
}
