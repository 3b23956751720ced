package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// registerArchived registers the routes of the job that compares archived events. A caller that is bound to
// an account never has the scope admin, so the job sees all of an event.
func (s *Routes) registerArchived(rt *rest.Router) {
	const path = "/endpoints/{endpoint}/what-if/archive"
	rest.HandleBody(rt, rest.Route{
		Name: "compare-archive", Path: "POST " + path,
		Summary: "Compare archived events with a change of a subscription",
		Description: "Nothing of the subscription is changed. A job of the server reads the archive, the oldest day first, and " +
			"compares its events with the present and with the changed subscription. Look at it with GET, and cancel it with DELETE. " +
			"Each account has one job: a new one replaces one that has ended. An hour after its last step the job is deleted.",
		Codes: []string{"no_archive", "what_if_running"},
		Scope: postrider.ScopeAdmin, Status: 202, Empty: true,
	}, s.compareArchive)
	rest.Handle(rt, rest.Route{
		Name: "get-archive-comparison", Path: "GET " + path,
		Summary: "Get the progress and the result of the job that compares archived events",
		Codes:   []string{"no_archive"},
		Scope:   postrider.ScopeAdmin,
	}, s.archiveComparison)
	rest.Handle(rt, rest.Route{
		Name: "cancel-archive-comparison", Path: "DELETE " + path,
		Summary: "Cancel the job that compares archived events, and delete its result",
		Codes:   []string{"no_archive"},
		Scope:   postrider.ScopeAdmin,
	}, s.cancelArchiveComparison)
}

var errNoArchive = rest.Conflict("no_archive", "the server has no archive: --archive names one")

// compareArchive begins a job, and wakes the comparer of this node.
func (s *Routes) compareArchive(
	ctx context.Context, in *rest.EndpointPath, body apitypes.ArchiveWhatIf,
) (*rest.Reply[apitypes.ArchiveComparison], error) {
	if s.Comparer.Archive == nil {
		return nil, errNoArchive
	}
	to, err := s.Names.LiveEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	wants, err := subscriptionOf(to.Subscription(), rest.InfoOf(ctx).Caller)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(wants.change(body.Subscription), checkSpan(body.Type, body.From, body.To)); err != nil {
		return nil, err
	}
	now := render.Instant(s.Clock.Wall())
	job := comparison{Present: store.EncodeSubscription(to.Subscription()), Asked: body, View: apitypes.ArchiveComparison{
		Endpoint: to.ID, Status: statusRunning, CreatedAt: now, UpdatedAt: now, Result: (&tally{against: againstSubscription}).view(),
	}}
	if job.View.Parts, err = s.Comparer.parts(ctx, job.query()); err != nil {
		return nil, err
	}
	if err := s.Comparer.begin(ctx, to.Account, &job); err != nil {
		return nil, err
	}
	return rest.Respond(job.View), nil
}

// archiveComparison shows the job of an endpoint.
func (s *Routes) archiveComparison(ctx context.Context, in *rest.EndpointPath) (*rest.Reply[apitypes.ArchiveComparison], error) {
	_, view, err := s.comparisonOf(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	return rest.Respond(view), nil
}

// cancelArchiveComparison deletes the job of an endpoint. The node that works on it notices that when its
// step ends.
func (s *Routes) cancelArchiveComparison(ctx context.Context, in *rest.EndpointPath) (*rest.None, error) {
	account, _, err := s.comparisonOf(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	return nil, s.Comparer.Jobs.DeleteWhatIf(ctx, account)
}

// comparisonOf returns the job of an endpoint, and its account. If the job of the account is that of
// another endpoint, this one has none.
func (s *Routes) comparisonOf(ctx context.Context, endpoint string) (postrider.AccountID, apitypes.ArchiveComparison, error) {
	var view apitypes.ArchiveComparison
	if s.Comparer.Archive == nil {
		return postrider.AccountID{}, view, errNoArchive
	}
	to, err := s.Names.Endpoint(ctx, endpoint)
	if err != nil {
		return to.Account, view, err
	}
	w, err := s.Comparer.Jobs.WhatIf(ctx, to.Account)
	if err == nil && w.Endpoint != to.ID {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return to.Account, view, err
	}
	job, err := decodeComparison(w)
	return to.Account, job.View, err
}

// checkSpan returns the faults of what selects the events to compare.
func checkSpan(eventType string, from, to *apitypes.Time) error {
	err := rest.CheckTypeFilter("type", eventType)
	if from != nil && to != nil && from.After(to.Time) {
		err = errors.Join(err, rest.Invalid("from", postrider.FaultContradictory, "must not be later than to"))
	}
	return err
}

// parts counts the parts of the archive that a job will read.
func (c *Comparer) parts(ctx context.Context, q store.ArchiveQuery) (n int, err error) {
	for p := (store.ArchiveParts{Kind: store.OldEvents, From: store.DayOf(q.From), To: q.To, Limit: store.MaxLimit}); ; {
		page, err := c.Archive.Parts(ctx, p)
		if n += len(page); err != nil || len(page) < p.Limit {
			return n, err
		}
		p.After = page[len(page)-1]
	}
}

// begin stores a job. If the job of the account runs, the error names its endpoint.
func (c *Comparer) begin(ctx context.Context, account postrider.AccountID, job *comparison) error {
	document, err := job.encode()
	if err != nil {
		return err
	}
	err = c.Jobs.PutWhatIf(ctx, store.WhatIf{Account: account, Endpoint: job.View.Endpoint, Document: document})
	if !errors.Is(err, postrider.ErrConflict) {
		c.begun.Set()
		return err
	}
	other, err := c.Jobs.WhatIf(ctx, account)
	if err != nil && !errors.Is(err, postrider.ErrNotFound) { // it may just have been cancelled
		return err
	}
	return rest.Conflict("what_if_running", fmt.Sprintf(
		"archived events of the account are being compared for the endpoint %s: wait for the end of that job, or cancel it", other.Endpoint))
}

// timeOf returns the time; zero: there is none.
func timeOf(t *apitypes.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
