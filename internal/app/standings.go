package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
)

// endpoints is what the dispatcher knows of endpoints: all that the routing table
// has, and how to disable one that answered 410.
type endpoints struct {
	*routing.Table

	store    store.Store
	observer *observe.Observer
	log      *slog.Logger
}

// Disable records that the endpoint lost its standing for the reason, and
// disables it. One that is deleted or not enabled is left alone.
func (e *endpoints) Disable(ctx context.Context, id postrider.EndpointID, reason string) error {
	for range 10 {
		if err := e.Refresh(ctx); err != nil {
			return err
		}
		to, ok := e.Lookup(id)
		if !ok || to.Endpoint.Status != postrider.EndpointEnabled {
			return nil
		}
		s, err := e.lastStanding(ctx, to.Endpoint)
		if err != nil {
			return err
		}
		now, err := e.store.Now(ctx)
		if err != nil {
			return fmt.Errorf("disable endpoint %s: %w", id, err)
		}
		s.Number++
		s.Status, s.Reason, s.Since = postrider.StandingDisabled, reason, now
		err = e.store.PutStanding(ctx, s)
		switch {
		case errors.Is(err, postrider.ErrConflict), errors.Is(err, postrider.ErrNotFound):
			continue // it changed since; look again
		case err != nil:
			return fmt.Errorf("disable endpoint %s: %w", id, err)
		}
		e.log.WarnContext(ctx, "endpoint standing changed",
			"endpoint", id.String(), "status", string(s.Status), "reason", reason, "warnings", s.Warnings)
		e.observer.HealthChanged(s)
		return e.Refresh(ctx)
	}
	return fmt.Errorf("disable endpoint %s: it keeps changing: %w", id, postrider.ErrBusy)
}

func (e *endpoints) lastStanding(ctx context.Context, to postrider.Endpoint) (postrider.Standing, error) {
	page, err := e.store.Standings(ctx, store.StandingQuery{
		Account: to.Account, Endpoint: to.ID, Paging: store.Paging{Limit: 1},
	})
	if err != nil {
		return postrider.Standing{}, fmt.Errorf("read standing of %s: %w", to.ID, err)
	}
	if len(page.Items) > 0 {
		return page.Items[0], nil
	}
	return postrider.Standing{Endpoint: to.ID, Account: to.Account}, nil
}
