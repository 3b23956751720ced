package api

import (
	"context"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// hold registers the routes about a store that was restored and is held.
func (rt *router) hold() {
	handle(rt, route{
		name: "get-hold", path: "GET /hold",
		summary: "Show whether sending is held after a restore",
		description: "A store that was restored from a backup is held: publishes are accepted, and nothing is sent, because what waits " +
			"may have been sent after the backup was made.",
		scope: postrider.ScopeAdmin,
	}, rt.getHold)
	handle(rt, route{
		name: "resume-after-restore", path: "POST /hold/resume",
		summary:     "Send again after a restore",
		description: "All servers send again within about a second. A store that is not held stays as it is, and the response has no work.",
		scope:       postrider.ScopeAdmin,
	}, rt.resumeHold)
}

// getHold shows the hold, and what may repeat.
func (s *server) getHold(ctx context.Context, _ *none) (*reply[apitypes.Hold], error) {
	hold, err := s.Store.Held(ctx)
	if err != nil {
		return nil, err
	}
	if !hold.Held() {
		return respond(apitypes.Hold{}), nil
	}
	work, err := s.Store.HeldWork(ctx)
	if err != nil {
		return nil, err
	}
	return respond(viewHold(hold, work)), nil
}

// resumeHold ends the hold. The audit log says what may repeat.
func (s *server) resumeHold(ctx context.Context, _ *none) (*reply[apitypes.Hold], error) {
	work, err := s.Store.Resume(ctx)
	if err != nil {
		return nil, err
	}
	infoOf(ctx).note("deliveries", strconv.Itoa(work.Deliveries))
	infoOf(ctx).note("fan_outs", strconv.Itoa(work.FanOuts))
	return respond(viewHold(postrider.Hold{}, work)), nil
}

func viewHold(h postrider.Hold, w store.HeldWork) apitypes.Hold {
	return apitypes.Hold{
		Held: h.Held(), Since: timeOrNull(h.Since), Reason: orNull(h.Reason), Deliveries: w.Deliveries, FanOuts: w.FanOuts,
	}
}
