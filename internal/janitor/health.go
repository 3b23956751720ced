package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// assessor is the chore that assesses endpoints whose health may have to change
// ([store.Health].HealthInputs). It goes through them in the order of their ids, Options.Chunk at
// a time. After an error, the next chunk begins with the endpoint that failed instead of the
// first one, so that the round gets further than its first chunk.
type assessor struct {
	*Janitor

	after  postrider.EndpointID // the last endpoint that was assessed; zero: the round begins
	counts observe.HealthCounts // of the endpoints that this round has assessed so far
}

// chunk assesses the next endpoints and reports whether there may be more. If somebody changed an
// endpoint meanwhile, the next round assesses it.
func (a *assessor) chunk(ctx context.Context) (did chunk, err error) {
	inputs, err := a.store.HealthInputs(ctx, a.after, a.opts.Chunk)
	if err != nil {
		return did, err
	}
	now, err := a.store.Now(ctx)
	if err != nil {
		return did, err
	}
	for _, in := range inputs {
		in.FailingSince, in.FailedAt = a.store.Clock().Shown(in.FailingSince), a.store.Clock().Shown(in.FailedAt)
		health, changed := in.Assess(now, *a.opts.Limits)
		if changed {
			n, is := health.Notice(in.Health.Status, in.DisabledAt(health, *a.opts.Limits))
			err := a.record(ctx, health, some(n, is)...)
			if err != nil && !overtaken(err) {
				return did, err
			}
		}
		a.count(health.Status)
		a.after = in.Endpoint
		did.rows++
	}
	if did.more = len(inputs) >= a.opts.Chunk; !did.more {
		a.opts.Hooks.HealthCounted.Call(a.counts)
		a.after, a.counts = postrider.EndpointID{}, observe.HealthCounts{}
	}
	return did, nil
}

// some returns a slice with the notice, or none if there is no notice.
func some(n postrider.Notice, is bool) []postrider.Notice {
	if !is {
		return nil
	}
	return []postrider.Notice{n}
}

// count counts an endpoint of the round. A round assesses every endpoint that is not healthy, so
// its counts are complete.
func (a *assessor) count(status postrider.HealthStatus) {
	switch status {
	case postrider.HealthWarned:
		a.counts.Warned++
	case postrider.HealthDisabled:
		a.counts.Disabled++
	case postrider.Healthy:
	}
}

// record stores a changed health with its notices, then logs it, then calls the hooks. If the
// change could not be stored, record neither logs nor reports it. No other function stores a
// health: both assessments and a 410 call record. If the health says so, the store disables the
// endpoint in the same transaction.
func (j *Janitor) record(ctx context.Context, health postrider.EndpointHealth, notices ...postrider.Notice) error {
	notices = j.numbered(notices...)
	if err := j.store.PutHealth(ctx, health, notices...); err != nil {
		return err
	}
	level := slog.LevelInfo
	if health.Status != postrider.Healthy { // the owner has to do something
		level = slog.LevelWarn
	}
	j.opts.Log.Log(ctx, level, "endpoint health changed", "endpoint", health.Endpoint.String(),
		"status", string(health.Status), "reason", health.Reason, "warnings", health.Warnings)
	j.opts.Hooks.HealthChanged.Call(health)
	j.told(notices...)
	return nil
}

// overtaken reports whether another node or a person changed or deleted the endpoint
// after its health was read.
func overtaken(err error) bool {
	return errors.Is(err, postrider.ErrConflict) || errors.Is(err, postrider.ErrNotFound)
}

// disableTries is how often Disable tries again if the endpoint changed between its read and its
// write.
const disableTries = 10

// Disable disables an endpoint at once for the reason, such as [postrider.ReasonGone] after a
// 410. It does nothing if the endpoint is deleted or disabled, or if the reason does not disable its
// status ([postrider.EndpointHealth.Disables]).
func (j *Janitor) Disable(ctx context.Context, id postrider.EndpointID, reason string) error {
	for range disableTries {
		health, status, err := j.current(ctx, id)
		if err != nil {
			return err
		}
		now, err := j.store.Now(ctx)
		if err != nil {
			return fmt.Errorf("disable endpoint %s: %w", id, err)
		}
		disabled := health.Disabled(reason, now)
		if !disabled.Disables(status) {
			return nil
		}
		n, is := disabled.Notice(health.Status, time.Time{})
		err = j.record(ctx, disabled, some(n, is)...)
		if err == nil {
			return nil
		}
		if !overtaken(err) {
			return fmt.Errorf("disable endpoint %s: %w", id, err)
		}
	}
	return fmt.Errorf("disable endpoint %s: it keeps changing: %w", id, postrider.ErrBusy)
}

// current returns the stored health and the status of the endpoint.
func (j *Janitor) current(ctx context.Context, id postrider.EndpointID) (health postrider.EndpointHealth, status postrider.EndpointStatus,
	err error,
) {
	endpoints, err := j.store.Endpoints(ctx, store.EndpointQuery{ID: id})
	if err != nil {
		return health, "", fmt.Errorf("look up endpoint %s: %w", id, err)
	}
	if len(endpoints.Items) == 0 {
		return health, postrider.EndpointDeleted, nil
	}
	history, err := j.store.HealthHistory(ctx, store.HealthQuery{Endpoint: id, Paging: store.Paging{Limit: 1}})
	if err != nil {
		return health, "", fmt.Errorf("read health of endpoint %s: %w", id, err)
	}
	health = postrider.EndpointHealth{Endpoint: id, Account: endpoints.Items[0].Account}
	if len(history.Items) > 0 {
		health = history.Items[0]
	}
	return health, endpoints.Items[0].Status, nil
}
