// Package stats is the part of the API that serves statistics: the numbers of a time range, and the
// present backlog.
package stats

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // time zones on machines that have none

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Rollups is the method of store.Rollups.
	Rollups(ctx context.Context, q store.RollupQuery) ([]store.Rollup, error)
	// Backlog is the method of store.Rollups.
	Backlog(ctx context.Context, q store.BacklogQuery) (store.Backlog, error)
	// Subscription is the method of store.Directory.
	Subscription(ctx context.Context, q store.SubscriptionQuery) (postrider.SubscriptionRevision, error)
	// Events is the method of store.Ledger.
	Events(ctx context.Context, q store.EventQuery) (store.Page[postrider.Event], error)
	// Deliveries is the method of store.Ledger.
	Deliveries(ctx context.Context, q store.DeliveryQuery) (store.Page[postrider.Delivery], error)
	// Now returns the store's time, read from the store itself.
	Now(ctx context.Context) (time.Time, error)
}

// Routes serves statistics.
type Routes struct {
	*rest.Shared

	Store Store
}

// Register registers the routes of statistics.
func (s *Routes) Register(rt *rest.Router) {
	const description = "Deliveries by final status, attempts by outcome and by number, response times and latencies, in a range of time, and what waits now. "
	read := postrider.ScopeWebhooksRead
	rest.Handle(rt, rest.Route{
		Name: "get-stats", Path: "GET /stats",
		Summary:     "Get the numbers of all that the key may see",
		Description: description + "With a key that is bound to an account, those of the account.",
		Scope:       read,
	}, s.getStats)
	rest.Handle(rt, rest.Route{
		Name: "get-account-stats", Path: "GET /accounts/{account}/stats",
		Summary: "Get the numbers of an account", Description: description,
		Scope: read,
	}, s.getAccountStats)
	rest.Handle(rt, rest.Route{
		Name: "get-endpoint-stats", Path: "GET /endpoints/{endpoint}/stats",
		Summary: "Get the numbers of an endpoint", Description: description,
		Scope: read,
	}, s.getEndpointStats)
}

// Query has the query parameters of stats.
type Query struct {
	From time.Time `query:"from" doc:"Beginning of the range; it is moved back to the beginning of its step. Default: an hour before to, by hours a day, by days 30 days."`
	To   time.Time `query:"to" doc:"End of the range; it is moved on to the end of its step. Default, and latest: now."`
	Step string    `query:"step" enum:"minute,hour,day" default:"hour" doc:"Length of the steps. Minutes are kept for 2 days, hours for 90 days, days for 2 years."`
	Type string    `query:"type" doc:"Only this event type. Of an endpoint 100 types are counted apart, of an account 1000; all others together have the type other. Default: all types."`
	TZ   string    `query:"tz" doc:"With days: the time zone of the days, by its IANA name, such as Europe/Berlin. They are made of hours, which are kept for 90 days. Default: UTC."`
}

func (s *Routes) getStats(ctx context.Context, in *Query) (*rest.Reply[apitypes.Stats], error) {
	return s.statsOf(ctx, store.BacklogQuery{Account: rest.InfoOf(ctx).Caller.Account}, *in)
}

// getAccountStats returns the statistics of an account. It finds a deleted account by its id,
// because the history of the account stays.
func (s *Routes) getAccountStats(ctx context.Context, in *struct {
	Account string `path:"account" doc:"Id or uid of the account."`
	Query
},
) (*rest.Reply[apitypes.Stats], error) {
	account, err := s.Names.Account(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return s.statsOf(ctx, store.BacklogQuery{Account: account.ID}, in.Query)
}

func (s *Routes) getEndpointStats(ctx context.Context, in *struct {
	rest.EndpointPath
	Query
	LeftOut bool `query:"left_out" doc:"Also count the events that the filter or changed of the endpoint left out. This reads events, so it takes longer."`
},
) (*rest.Reply[apitypes.Stats], error) {
	e, err := s.Names.Endpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	reply, err := s.statsOf(ctx, store.BacklogQuery{Account: e.Account, Endpoint: e.ID}, in.Query)
	if err != nil || !in.LeftOut {
		return reply, err
	}
	reply.Body.LeftOut, err = s.leftOut(ctx, e, store.Span{From: reply.Body.From.Time, To: reply.Body.To.Time}, in.Type)
	return reply, err
}

// statsOf returns the statistics of an endpoint, of an account, or of everything.
func (s *Routes) statsOf(ctx context.Context, scope store.BacklogQuery, in Query) (*rest.Reply[apitypes.Stats], error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	span, err := in.span(now)
	if err != nil {
		return nil, err
	}
	rollups, err := s.Store.Rollups(ctx, store.RollupQuery{
		Account: scope.Account, Endpoint: scope.Endpoint, Type: in.Type, Step: span.stored, From: span.from, To: span.to,
	})
	if err != nil {
		return nil, err
	}
	backlog, err := s.Store.Backlog(ctx, scope)
	if err != nil {
		return nil, err
	}
	view := apitypes.Stats{
		From: render.Instant(span.start(span.from)), To: render.Instant(span.start(span.to)), Step: in.Step, TZ: span.zone.String(),
		DaysFit: span.fits(), Points: []apitypes.StatsPoint{}, Now: viewBacklog(backlog),
	}
	var total store.RollupValue
	for _, step := range span.steps(rollups) {
		var sum store.RollupValue
		for i := range step {
			if err := sum.Merge(&step[i].RollupValue); err != nil {
				return nil, fmt.Errorf("add up rollups: %w", err)
			}
		}
		if err := total.Merge(&sum); err != nil {
			return nil, fmt.Errorf("add up rollups: %w", err)
		}
		view.Points = append(view.Points, apitypes.StatsPoint{At: render.Instant(span.start(step[0].At)), StatsNumbers: viewNumbers(&sum)})
	}
	view.Total = viewNumbers(&total)
	return rest.Respond(view), nil
}

// statsSpan is a time range of whole steps.
type statsSpan struct {
	step     string
	stored   store.Step // length of the stored steps that a step consists of
	from, to time.Time  // of the stored rollups
	zone     *time.Location
}

// defaultSpans has the length of the default range, by step.
var defaultSpans = map[string]time.Duration{"minute": time.Hour, "hour": 24 * time.Hour, "day": 30 * 24 * time.Hour}

// span returns the range of the parameters, in whole steps. It refuses a range whose steps are no
// longer stored.
func (in Query) span(now time.Time) (statsSpan, error) {
	span := statsSpan{step: in.Step, zone: time.UTC, from: in.From, to: in.To}
	if err := rest.CheckTypeFilter("type", in.Type); err != nil {
		return span, err
	}
	if in.TZ != "" {
		zone, err := time.LoadLocation(in.TZ)
		if err != nil || in.TZ == "Local" {
			return span, rest.Invalid("tz", postrider.FaultMalformed, "must be a time zone by its IANA name, such as Europe/Berlin")
		}
		span.zone = zone
	}
	if in.Step != "day" && in.TZ != "" {
		return span, rest.Invalid("tz", postrider.FaultContradictory, "works only with step=day; times of shorter steps are UTC")
	}
	if end := now.Add(1); span.to.IsZero() || span.to.After(end) {
		span.to = end // the range ends with the present step
	}
	if span.from.IsZero() {
		span.from = span.to.Add(-defaultSpans[in.Step])
	}
	if !span.from.Before(span.to) {
		return span, rest.Invalid("from", postrider.FaultContradictory, "must be earlier than to")
	}
	span.stored = map[string]store.Step{"minute": store.Minutes, "hour": store.Hours, "day": store.Days}[in.Step]
	if in.Step == "day" && span.zone != time.UTC {
		span.stored = store.Hours
	}
	first, last := span.start(span.from), span.start(span.to.Add(-1))
	span.from, span.to = first.Truncate(span.stored.Duration()), span.next(last).Truncate(span.stored.Duration())
	return span, span.refuse(now)
}

// refuse returns an error if the range begins before the oldest stored step. The error names the
// parameter to change.
func (p statsSpan) refuse(now time.Time) error {
	days := int(p.stored.Kept() / (24 * time.Hour))
	switch {
	case !p.from.Before(p.start(now.Add(-p.stored.Kept()))):
		return nil
	case p.stored == store.Days:
		return rest.Invalid("from", postrider.FaultOutOfRange, fmt.Sprintf("must be at most %d days ago: days are kept for so long", days))
	case p.step == "day":
		return rest.Invalid("tz", postrider.FaultOutOfRange,
			fmt.Sprintf("is for the last %d days, for which hours are kept; leave it out for UTC days", days))
	}
	return rest.Invalid("step", postrider.FaultOutOfRange,
		fmt.Sprintf("%ss are kept for %d days; ask for a longer step, or from a later time", p.step, days))
}

// start returns the beginning of the step that contains the time. If a day of the zone begins
// within an hour of UTC, this hour belongs to that day.
func (p statsSpan) start(at time.Time) time.Time {
	if p.step != "day" {
		return at.UTC().Truncate(p.stored.Duration())
	}
	if p.stored == store.Hours {
		at = at.UTC().Truncate(time.Hour).Add(time.Hour - 1)
	}
	y, m, d := at.In(p.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, p.zone)
}

// next returns the beginning of the step after the step that begins at start.
func (p statsSpan) next(start time.Time) time.Time {
	if p.step != "day" {
		return start.Add(p.stored.Duration())
	}
	y, m, d := start.Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, p.zone)
}

// fits reports whether every day of the range begins at a full hour of UTC.
func (p statsSpan) fits() bool {
	if p.step != "day" {
		return true
	}
	for at := p.start(p.from); at.Before(p.to); at = p.next(at) {
		if !at.Equal(at.Truncate(time.Hour)) {
			return false
		}
	}
	return true
}

// steps groups the rollups by step, oldest first.
func (p statsSpan) steps(rollups []store.Rollup) (steps [][]store.Rollup) {
	for len(rollups) > 0 {
		start, n := p.start(rollups[0].At), 1
		for n < len(rollups) && p.start(rollups[n].At).Equal(start) {
			n++
		}
		steps, rollups = append(steps, rollups[:n]), rollups[n:]
	}
	return steps
}

// viewNumbers returns the numbers of a rollup in the form of a response.
func viewNumbers(v *store.RollupValue) apitypes.StatsNumbers {
	byNumber := v.Numbers[:]
	for len(byNumber) > 0 && byNumber[len(byNumber)-1] == 0 {
		byNumber = byNumber[:len(byNumber)-1]
	}
	return apitypes.StatsNumbers{
		Deliveries: apitypes.StatsDeliveries{
			Delivered: v.Status(postrider.Delivered), Dead: v.Status(postrider.Dead),
			Cancelled: v.Status(postrider.Cancelled), Skipped: v.Status(postrider.Skipped),
		},
		Attempts: apitypes.StatsAttempts{
			Total: v.AllAttempts(), Accepted: v.Outcome(postrider.OutcomeAccepted), Rejected: v.Outcome(postrider.OutcomeRejected),
			Gone: v.Outcome(postrider.OutcomeGone), Throttled: v.Outcome(postrider.OutcomeThrottled),
			Unreachable: v.Outcome(postrider.OutcomeUnreachable), TimedOut: v.Outcome(postrider.OutcomeTimedOut),
			Broken: v.Outcome(postrider.OutcomeBroken), Blocked: v.Outcome(postrider.OutcomeBlocked), Lost: v.Outcome(postrider.OutcomeLost),
		},
		AttemptsByNumber: append([]int64{}, byNumber...),
		SuccessRate:      known(v.SuccessRate()), FirstSuccessRate: known(v.FirstAttemptRate()),
		ResponseTime: viewQuantiles(&v.Responses), DeliveryLatency: viewQuantiles(&v.Latencies),
	}
}

// known returns a pointer to the value, or nil if ok is false.
func known[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

// viewQuantiles returns the quantiles of durations in the form of a response.
func viewQuantiles(s *postrider.Sketch) apitypes.StatsQuantiles {
	ms := func(q float64) *int64 {
		return known(s.Quantile(q).Round(time.Millisecond).Milliseconds(), s.Count() > 0)
	}
	return apitypes.StatsQuantiles{Count: int64(s.Count()), P50MS: ms(0.5), P95MS: ms(0.95), P99MS: ms(0.99)}
}

// viewBacklog returns a backlog in the form of a response.
func viewBacklog(b store.Backlog) apitypes.StatsNow {
	return apitypes.StatsNow{
		Pending: b.Pending, OldestDueMS: known(b.DueFor.Milliseconds(), b.IsDue), DeadLetters: b.DeadLetters, Partial: b.Partial,
	}
}
