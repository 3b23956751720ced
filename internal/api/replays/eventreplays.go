package replays

import (
	"cmp"
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
)

// eventReplayRate is the default number of deliveries of an event that are replayed per second. It
// is higher than for other replays, because few events have many deliveries.
const eventReplayRate = 500

func (s *Routes) registerEventReplays(rt *rest.Router) {
	rest.HandleBody(rt, rest.Route{
		Name: "replay-event", Path: "POST /events/{event}/replay",
		Summary:     "Replay an event's deliveries that have ended",
		Description: "The last delivery to each endpoint is replayed as a new delivery, unless it is pending or a resolved dead letter. A replay job does it, so that it makes no difference how many endpoints there are; see its progress, and list its deliveries by replay_job.",
		Codes:       []string{"too_many_replays", "gone"},
		Scope:       postrider.ScopeWebhooksOperate, Status: 202, Empty: true,
	}, s.replayEvent)
}

// replayEvent creates a replay job for the last delivery of the event to each endpoint. An event
// may have a hundred thousand deliveries, which one request cannot replay in time.
func (s *Routes) replayEvent(ctx context.Context, in *rest.EventPath, body apitypes.EventReplay) (*rest.Reply[apitypes.Replay], error) {
	e, err := s.Names.Event(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	endpoint, err := rest.Filtered[postrider.EndpointID]("endpoint", body.Endpoint)
	job := s.newReplay(ctx, apitypes.ReplayCreate{PerSecond: cmp.Or(body.PerSecond, new(eventReplayRate))})
	job.Filter = postrider.ReplayFilter{Account: e.Account, Endpoint: endpoint, Event: e.ID, Statuses: postrider.ReplayStatuses}
	if body.Status != "" {
		job.Filter.Statuses = []postrider.Status{body.Status}
	}
	if err := errors.Join(err, checkEnded("status", body.Status), checkReplayRate(job.PerSecond)); err != nil {
		return nil, err
	}
	if e.Data == nil {
		return nil, postrider.ErrGone
	}
	return rest.RespondWith(viewReplayAlone(nil))(s.startReplay(ctx, job))
}

// checkEnded refuses a status filter that selects pending deliveries or is unknown. An empty filter
// selects all deliveries that have ended.
func checkEnded(field string, status postrider.Status) error {
	switch status {
	case "", postrider.Delivered, postrider.Dead, postrider.Cancelled, postrider.Skipped:
		return nil
	case postrider.Pending:
	}
	return rest.Invalid(field, postrider.FaultNotAChoice, "must be delivered, dead, cancelled or skipped")
}
