package replays

import (
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
)

func (s *Routes) registerBackfills(rt *rest.Router) {
	rest.HandleBody(rt, rest.Route{
		Name: "backfill-endpoint", Path: "POST /endpoints/{endpoint}/backfill",
		Summary:     "Let a subscription start in the past",
		Description: "The events since start_from that the endpoint wants, by its present event types and filters, and that have no delivery to it yet, get one: oldest first and below live traffic, at the given pace or slower. Events that were published after the request get their deliveries as always. What was skipped or is a dead letter has a delivery; replay it instead. The response is a replay, to watch, pause and cancel as any other. An endpoint with order by_key must be paused, and should be resumed when the replay is done: then new events of a key wait behind its history.",
		Codes:       []string{"too_many_replays", "backfill_running", "endpoint_not_paused", "endpoint_deleted", "endpoint_set_aside"},
		Scope:       postrider.ScopeEndpointsWrite, Status: 202,
	}, s.backfillEndpoint)
	rest.HandleBody(rt, rest.Route{
		Name: "count-backfill", Path: "POST /endpoints/{endpoint}/backfill/dry-run",
		Summary: "Count the deliveries that a backfill would make",
		Codes:   []string{"endpoint_deleted", "endpoint_set_aside"},
		Scope:   postrider.ScopeWebhooksRead, Reads: true,
	}, s.countBackfill)
}

// backfillEndpoint creates the job, and wakes the replay runner of this node.
func (s *Routes) backfillEndpoint(
	ctx context.Context, in *rest.EndpointPath, body apitypes.Backfill,
) (*rest.Reply[apitypes.Replay], error) {
	job, to, err := s.requestedBackfill(ctx, in.Endpoint, body)
	if err != nil {
		return nil, err
	}
	if to.Policy.Order == postrider.OrderByKey && to.Status != postrider.EndpointPaused {
		return nil, rest.Conflict("endpoint_not_paused",
			"the endpoint gets its events in order: pause it, and resume it when the replay is done, so that new events wait behind old ones")
	}
	keptSince, err := s.keptSince(ctx, job)
	if err != nil {
		return nil, err
	}
	rest.InfoOf(ctx).Note("start_from", body.StartFrom.UTC().Format(timeOfDetail))
	return rest.RespondWith(viewReplayAlone(keptSince))(s.startReplay(ctx, fromKept(job, keptSince)))
}

// countBackfill counts the deliveries that backfillEndpoint would make.
func (s *Routes) countBackfill(
	ctx context.Context, in *rest.EndpointPath, body apitypes.Backfill,
) (*rest.Reply[apitypes.ReplayCount], error) {
	job, _, err := s.requestedBackfill(ctx, in.Endpoint, body)
	if err != nil {
		return nil, err
	}
	keptSince, err := s.keptSince(ctx, job)
	if err != nil {
		return nil, err
	}
	count, err := s.countMatches(ctx, fromKept(job, keptSince))
	return rest.RespondWith(func(c postrider.ReplayCount) apitypes.ReplayCount { return viewCount(c, keptSince) })(count, err)
}

// timeOfDetail is the form of a time in the details of an audit entry.
const timeOfDetail = "2006-01-02T15:04:05.000000Z"

// requestedBackfill returns the job that the body describes, and the endpoint. The job has an id, but is
// not stored.
func (s *Routes) requestedBackfill(
	ctx context.Context, endpoint string, body apitypes.Backfill,
) (job postrider.ReplayJob, to postrider.Endpoint, err error) {
	to, err = s.Names.ReadableEndpoint(ctx, endpoint)
	if err != nil {
		return job, to, err
	}
	job = s.newReplay(ctx, apitypes.ReplayCreate{Action: postrider.ActionBackfill, PerSecond: body.PerSecond, Note: body.Note})
	job.Filter = postrider.ReplayFilter{Account: to.Account, Endpoint: to.ID, From: body.StartFrom.UTC()}
	err = errors.Join(checkReplayRate(job.PerSecond), rest.CheckText("note", body.Note, rest.MaxDescription))
	switch {
	case body.StartFrom.IsZero():
		err = errors.Join(err, rest.Invalid("start_from", postrider.FaultRequired, "is required"))
	case body.StartFrom.After(job.CreatedAt):
		err = errors.Join(err, rest.Invalid("start_from", postrider.FaultOutOfRange, "must not be later than now"))
	}
	return job, to, err
}

// fromKept lets a backfill begin at the time before which retention may have deleted what it needs. The
// record of a delivery may be deleted before its event is, so that an earlier event could seem to have no
// delivery.
func fromKept(job postrider.ReplayJob, keptSince *apitypes.Time) postrider.ReplayJob {
	if keptSince != nil {
		job.Filter.From = keptSince.Time
	}
	return job
}
