// Package replays is the part of the API that serves replay jobs. A job replays or discards all
// deliveries that its filter selects. It belongs to the account that the filter names, or to the
// account of the endpoint or event that the filter names.
package replays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// ReplayJobs is the method of store.Replays.
	ReplayJobs(ctx context.Context, q store.ReplayJobQuery) (store.Page[postrider.ReplayJob], error)
	// PutReplayJob is the method of store.Replays.
	PutReplayJob(ctx context.Context, job postrider.ReplayJob) error
	// SetReplayJob is the method of store.Replays.
	SetReplayJob(ctx context.Context, r store.SetReplayJob) error
	// Accounts is the method of store.Access.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
	// Endpoints is the method of store.Directory.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// Events is the method of store.Ledger.
	Events(ctx context.Context, q store.EventQuery) (store.Page[postrider.Event], error)
	// Deliveries is the method of store.Ledger.
	Deliveries(ctx context.Context, q store.DeliveryQuery) (store.Page[postrider.Delivery], error)
	// DeadLetters is the method of store.Ledger.
	DeadLetters(ctx context.Context, q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error)
}

// Replayer runs replay jobs.
type Replayer interface {
	// Wake is called after a job was created or resumed. It must not block.
	Wake()
	// Undelivered returns the next matches of a backfill after its cursor.
	Undelivered(ctx context.Context, job postrider.ReplayJob) (store.ReplayMatches, error)
}

// Routes serves replay jobs.
type Routes struct {
	*rest.Shared

	Store    Store
	Replayer Replayer
	// Retention has the days for which the server keeps events, attempts, bodies and idempotency
	// keys. An account may set fewer days.
	Retention postrider.AccountRetention
}

// Register registers the routes of replay jobs.
func (s *Routes) Register(rt *rest.Router) {
	read, operate := postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate
	rest.HandleBody(rt, rest.Route{
		Name: "create-replay", Path: "POST /replays",
		Summary:     "Replay or discard all deliveries that a filter selects",
		Description: "The deliveries are those that have ended at the time of the request. Each gets exactly one new delivery, oldest first and below live traffic, at the given pace or slower: while many of them wait for their endpoints, the job waits too. Deliveries with an ordering key are sent in sequence, and later events of the key wait for them. The job goes on after a restart of the server.",
		Codes:       []string{"too_many_replays"},
		Scope:       operate, Status: 201, Empty: true,
	}, s.createReplay)
	rest.HandleBody(rt, rest.Route{
		Name: "count-replay", Path: "POST /replays/dry-run",
		Summary: "Count the deliveries that a replay would select",
		Scope:   read, Empty: true, Reads: true,
	}, s.countReplay)
	rest.Handle(rt, rest.Route{
		Name: "list-replays", Path: "GET /replays",
		Summary: "List replays, newest first",
		Scope:   read,
	}, s.listReplays)
	rest.Handle(rt, rest.Route{
		Name: "get-replay", Path: "GET /replays/{replay}",
		Summary: "Get a replay, with what became of its deliveries",
		Scope:   read,
	}, s.getReplay)
	for verb, status := range map[string]postrider.ReplayStatus{
		"pause": postrider.ReplayPaused, "resume": postrider.ReplayRunning, "cancel": postrider.ReplayCancelled,
	} {
		codes := []string{"replay_done", "replay_failed", "replay_cancelled"}
		if verb == "cancel" {
			codes = codes[:2] // cancelling twice is no fault
		}
		rest.Handle(rt, rest.Route{
			Name: verb + "-replay", Path: "POST /replays/{replay}/" + verb,
			Summary:     map[string]string{"pause": "Pause a replay", "resume": "Resume a paused replay", "cancel": "Cancel a replay"}[verb],
			Description: "The deliveries that it has made are not affected.",
			Codes:       codes,
			Scope:       operate,
		}, s.setReplay(status))
	}
	s.registerEventReplays(rt)
	s.registerBackfills(rt)
}

const (
	// defaultReplayRate and maxReplayRate are numbers of deliveries per second.
	defaultReplayRate = 100
	maxReplayRate     = 5000
	// maxReplayJobs is the largest number of running jobs of an account. Paused jobs do not count.
	maxReplayJobs = 100
	// A count of matches stops at maxCount matches or after countTime.
	maxCount  = 10_000
	countTime = time.Second
)

// viewReplay returns a replay job in the form of a response.
func viewReplay(j postrider.ReplayJob) apitypes.Replay {
	f := j.Filter
	view := apitypes.Replay{
		ID: j.ID, Action: j.Action, Status: j.Status, Error: render.OrNull(j.Error), Account: render.OrNull(f.Account),
		Endpoint: render.OrNull(f.Endpoint), Event: render.OrNull(f.Event), EventTypes: []string{},
		Statuses: append([]postrider.Status{}, f.Statuses...),
		Reason:   render.OrNull(f.Reason), From: render.TimeOrNull(f.From), To: render.TimeOrNull(f.To), PerSecond: j.PerSecond,
		Note: render.OrNull(j.Note), CreatedBy: j.By, CreatedAt: render.Instant(j.CreatedAt), EndedAt: render.TimeOrNull(j.EndedAt),
		Expected: viewCount(j.Expected, nil), Matched: j.Matched(), Handled: j.Handled, Skipped: apitypes.ReplaySkips(j.Skipped),
	}
	for _, p := range f.EventTypes {
		view.EventTypes = append(view.EventTypes, string(p))
	}
	if reached := j.Reached(); !reached.IsZero() {
		view.Position = render.TimeOrNull(reached.Time())
	}
	return view
}

func viewCount(c postrider.ReplayCount, keptSince *apitypes.Time) apitypes.ReplayCount {
	return apitypes.ReplayCount{Matches: c.Matches, Exact: c.Exact, KeptSince: keptSince}
}

// viewReplayAlone returns a function that is viewReplay with the results of the job's deliveries,
// and with the time from [Routes.keptSince].
func viewReplayAlone(keptSince *apitypes.Time) func(postrider.ReplayJob) apitypes.Replay {
	return func(j postrider.ReplayJob) apitypes.Replay {
		view := viewReplay(j)
		if j.Action != postrider.ActionDiscard {
			made := apitypes.ReplayDeliveries(j.Made)
			view.Deliveries = &made
		}
		view.Expected.KeptSince = keptSince
		return view
	}
}

// respondReplay responds with the stored job.
func (s *Routes) respondReplay(ctx context.Context, id postrider.ReplayID) (*rest.Reply[apitypes.Replay], error) {
	job, err := s.findReplay(ctx, id)
	if err != nil {
		return nil, err
	}
	keptSince, err := s.keptSince(ctx, job)
	return rest.RespondWith(viewReplayAlone(keptSince))(job, err)
}

// keptSince returns a time, counted back from the creation of the job: retention may have deleted
// deliveries and data of events that are older. null: the job misses nothing. The time follows from
// the retention settings and not from the stored rows, because one dead letter can keep an event
// long after other events of its day are deleted.
//
// If the filter names an event, the event exists, so the job misses nothing. Unresolved dead
// letters keep their events. So a job only for dead letters misses something only if its range ends
// before the time.
func (s *Routes) keptSince(ctx context.Context, job postrider.ReplayJob) (*apitypes.Time, error) {
	f, days, begins := job.Filter, min(s.Retention.Events, s.Retention.Attempts), job.Filter.From
	if job.Action == postrider.ActionDiscard || !f.Event.IsZero() {
		return nil, nil
	}
	if slices.Equal(f.Statuses, []postrider.Status{postrider.Dead}) {
		begins = cmp.Or(f.To, job.CreatedAt)
	}
	if !f.Account.IsZero() {
		a, err := store.First(s.Store.Accounts(ctx, store.AccountQuery{ID: f.Account}))
		if err != nil {
			return nil, err
		}
		days = min(days, cmp.Or(a.Retention.Events, days), cmp.Or(a.Retention.Attempts, days))
		if a.CreatedAt.After(begins) {
			begins = a.CreatedAt
		}
	}
	if since := job.CreatedAt.AddDate(0, 0, -days); begins.Before(since) {
		return render.TimeOrNull(since), nil
	}
	return nil, nil
}

// ReplayPath names a replay job.
type ReplayPath struct {
	Replay string `path:"replay"`
}

// createReplay stores a new job, and wakes the replay runner of this node.
func (s *Routes) createReplay(ctx context.Context, _ *rest.None, body apitypes.ReplayCreate) (*rest.Reply[apitypes.Replay], error) {
	job, err := s.requestedReplay(ctx, body)
	if err != nil {
		return nil, err
	}
	// keptSince is called before the write, because an error after the write would hide the stored
	// job.
	keptSince, err := s.keptSince(ctx, job)
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(viewReplayAlone(keptSince))(s.startReplay(ctx, job))
}

// startReplay counts the matches of a new job and stores it.
func (s *Routes) startReplay(ctx context.Context, job postrider.ReplayJob) (postrider.ReplayJob, error) {
	running, err := s.Store.ReplayJobs(ctx, store.ReplayJobQuery{
		Account: job.Filter.Account, Status: postrider.ReplayRunning, Paging: store.Paging{Limit: maxReplayJobs},
	})
	if err == nil && len(running.Items) == maxReplayJobs {
		err = rest.Conflict("too_many_replays", fmt.Sprintf("%d replays are running; wait until one has ended, or cancel one", maxReplayJobs))
	}
	if err != nil {
		return job, err
	}
	if job.Expected, err = s.countMatches(ctx, job); err != nil {
		return job, err
	}
	if err := s.Store.PutReplayJob(ctx, job); err != nil {
		if job.Action == postrider.ActionBackfill && errors.Is(err, postrider.ErrConflict) {
			err = rest.Conflict("backfill_running", "a backfill of the endpoint has not ended; wait until it has, or cancel it")
		}
		return job, err
	}
	s.Replayer.Wake()
	return s.findReplay(ctx, job.ID)
}

// countReplay counts the deliveries that createReplay would select.
func (s *Routes) countReplay(ctx context.Context, _ *rest.None, body apitypes.ReplayCreate) (*rest.Reply[apitypes.ReplayCount], error) {
	job, err := s.requestedReplay(ctx, body)
	if err != nil {
		return nil, err
	}
	count, err := s.countMatches(ctx, job)
	if err != nil {
		return nil, err
	}
	keptSince, err := s.keptSince(ctx, job)
	if err != nil {
		return nil, err
	}
	return rest.Respond(viewCount(count, keptSince)), nil
}

// requestedReplay returns the job that the body describes. The job has an id, but is not stored.
func (s *Routes) requestedReplay(ctx context.Context, body apitypes.ReplayCreate) (job postrider.ReplayJob, err error) {
	job = s.newReplay(ctx, body)
	job.Filter, err = s.replayFilter(ctx, body)
	err = errors.Join(err, rest.CheckText("note", body.Note, rest.MaxDescription), checkReplayRate(job.PerSecond))
	if job.Action != postrider.ActionReplay && job.Action != postrider.ActionDiscard {
		err = errors.Join(err, rest.Invalid("action", postrider.FaultNotAChoice, "must be replay or discard"))
	}
	if job.Action == postrider.ActionDiscard && slices.ContainsFunc(job.Filter.Statuses,
		func(s postrider.Status) bool { return s != postrider.Dead }) {
		err = errors.Join(err, rest.Invalid("statuses", postrider.FaultContradictory, "must be dead to discard"))
	}
	return job, err
}

// newReplay returns a job of the caller that has no filter yet.
func (s *Routes) newReplay(ctx context.Context, body apitypes.ReplayCreate) postrider.ReplayJob {
	return postrider.ReplayJob{
		ID: store.NewID[postrider.ReplayID](s.IDs), CreatedAt: s.Clock.Wall(),
		Action: cmp.Or(body.Action, postrider.ActionReplay), PerSecond: *cmp.Or(body.PerSecond, new(defaultReplayRate)),
		By: rest.InfoOf(ctx).Caller.Name, Note: body.Note,
	}
}

func checkReplayRate(perSecond int) error {
	if perSecond < 1 || perSecond > maxReplayRate {
		return postrider.OutOfRange("per_second", 1, maxReplayRate)
	}
	return nil
}

// replayFilter returns the filter of a job. If the filter names an endpoint or an event, the filter
// gets the account of that object, so that callers of the account see the job.
func (s *Routes) replayFilter(ctx context.Context, body apitypes.ReplayCreate) (f postrider.ReplayFilter, err error) {
	account, endpoint, err := s.Names.Scope(ctx, body.Account, body.Endpoint)
	event, eventErr := rest.Filtered[postrider.EventID]("event", body.Event)
	if err := errors.Join(err, eventErr); err != nil {
		return f, err
	}
	f = postrider.ReplayFilter{
		Account: account, Endpoint: endpoint, Event: event, EventTypes: rest.Patterns(body.EventTypes),
		Statuses: slices.Compact(slices.Sorted(slices.Values(body.Statuses))), Reason: body.Reason,
	}
	if body.From != nil {
		f.From = body.From.UTC()
	}
	if body.To != nil {
		f.To = body.To.UTC()
	}
	if len(f.Statuses) == 0 {
		f.Statuses = []postrider.Status{postrider.Dead}
	}
	if !endpoint.IsZero() && account.IsZero() {
		e, findErr := store.First(s.Store.Endpoints(ctx, store.EndpointQuery{ID: endpoint}))
		f.Account, err = e.Account, findErr
	}
	if !event.IsZero() {
		e, findErr := store.First(s.Store.Events(ctx, store.EventQuery{Account: f.Account, ID: event}))
		if errors.Is(findErr, postrider.ErrNotFound) {
			findErr = rest.Invalid("event", postrider.FaultNotFound, "names nothing")
		}
		f.Account, err = e.Account, errors.Join(err, findErr)
	}
	return f, errors.Join(err, checkReplayFilter(f))
}

// checkReplayFilter returns all faults of a filter.
func checkReplayFilter(f postrider.ReplayFilter) (err error) {
	for i, p := range f.EventTypes {
		err = errors.Join(err, p.Check(fmt.Sprintf("event_types[%d]", i)))
	}
	if len(f.EventTypes) > rest.MaxPatterns {
		err = errors.Join(err, rest.WrongCount("event_types", 0, rest.MaxPatterns, "patterns"))
	}
	if slices.ContainsFunc(f.Statuses, func(s postrider.Status) bool { return !slices.Contains(postrider.ReplayStatuses, s) }) {
		err = errors.Join(err, rest.Invalid("statuses", postrider.FaultNotAChoice, "must be delivered, dead, cancelled or skipped"))
	}
	if f.Reason != "" && !slices.Contains(endReasons, f.Reason) {
		err = errors.Join(err, rest.Invalid("reason", postrider.FaultNotAChoice, "is no reason of a delivery that has ended"))
	}
	if !f.From.IsZero() && !f.To.IsZero() && f.From.After(f.To) {
		err = errors.Join(err, rest.Invalid("from", postrider.FaultContradictory, "must not be later than to"))
	}
	return err
}

// endReasons are the reasons that dead, cancelled and skipped deliveries can have.
var endReasons = append(slices.Clip(postrider.DeadReasons),
	postrider.ReasonEndpointDisabled, postrider.ReasonBacklogFull, postrider.ReasonEndpointDeleted, postrider.ReasonCancelled)

// countMatches counts the matches of a job. It stops at maxCount matches or after countTime.
func (s *Routes) countMatches(ctx context.Context, job postrider.ReplayJob) (count postrider.ReplayCount, err error) {
	begun := time.Now()
	for count.Matches < maxCount && time.Since(begun) < countTime {
		m, err := s.findMatches(ctx, job)
		if err != nil {
			return count, err
		}
		count.Matches += len(m.Items)
		if m.Done {
			count.Exact = true
			break
		}
		if m.To == job.Cursor { // the next event of a backfill has a fan-out job
			break
		}
		job.Cursor = m.To
	}
	return count, nil
}

// findMatches finds the next matches of a job after its cursor.
func (s *Routes) findMatches(ctx context.Context, job postrider.ReplayJob) (store.ReplayMatches, error) {
	if job.Action == postrider.ActionBackfill {
		return s.Replayer.Undelivered(ctx, job)
	}
	return store.FindReplayMatches(ctx, s.Store, job)
}

// listReplays lists the jobs that all given filters select.
func (s *Routes) listReplays(ctx context.Context, in *struct {
	Account string `query:"account" doc:"Id or uid of the account."`
	Status  string `query:"status" enum:"running,paused,done,cancelled,failed"`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Replay]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewReplay)(s.Store.ReplayJobs(ctx, store.ReplayJobQuery{
		Account: account, Status: postrider.ReplayStatus(in.Status), Paging: in.Paging.Of(),
	}))
}

func (s *Routes) getReplay(ctx context.Context, in *ReplayPath) (*rest.Reply[apitypes.Replay], error) {
	id, err := rest.ParseID[postrider.ReplayID](in.Replay)
	if err != nil {
		return nil, err
	}
	return s.respondReplay(ctx, id)
}

// findReplay returns the job if the caller may see it.
func (s *Routes) findReplay(ctx context.Context, id postrider.ReplayID) (postrider.ReplayJob, error) {
	return store.First(s.Store.ReplayJobs(ctx, store.ReplayJobQuery{Account: rest.InfoOf(ctx).Caller.Account, ID: id}))
}

// replayEnded returns the conflict for a job that has ended. Its text says what to do instead.
func replayEnded(status postrider.ReplayStatus) error {
	if status == postrider.ReplayDone {
		return rest.Conflict("replay_done",
			"the replay is done: all that it selects was handled; a delivery of it that is pending can be cancelled by itself")
	}
	return rest.Conflict("replay_"+string(status), fmt.Sprintf("the replay is %s: create one with the same filter to handle the rest", status))
}

// setReplay returns the handler that pauses, resumes or cancels a job.
func (s *Routes) setReplay(to postrider.ReplayStatus) func(context.Context, *ReplayPath) (*rest.Reply[apitypes.Replay], error) {
	return func(ctx context.Context, in *ReplayPath) (*rest.Reply[apitypes.Replay], error) {
		id, err := rest.ParseID[postrider.ReplayID](in.Replay)
		if err != nil {
			return nil, err
		}
		err = s.Store.SetReplayJob(ctx, store.SetReplayJob{Account: rest.InfoOf(ctx).Caller.Account, ID: id, Status: to})
		if errors.Is(err, postrider.ErrConflict) {
			job, err := s.findReplay(ctx, id)
			if err != nil {
				return nil, err
			}
			return nil, replayEnded(job.Status)
		}
		if err != nil {
			return nil, err
		}
		s.Replayer.Wake()
		return s.respondReplay(ctx, id)
	}
}
