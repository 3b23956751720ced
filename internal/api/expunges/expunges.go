// Package expunges is the part of the API that removes an event, an endpoint or an account with all
// data that is stored about it. The response names the places that still hold such data.
package expunges

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Expunger runs expunges.
type Expunger interface {
	// Begin begins an expunge. The expunge continues in the background, and after a restart.
	Begin(ctx context.Context, e postrider.Expunge) error
	// Prepare stops activity on the object of the expunge. It deletes the endpoint or the account,
	// or cancels the deliveries of the event.
	Prepare(ctx context.Context, e postrider.Expunge) error
	// List returns the path of the expunge list. A restored store reads this list and makes the
	// expunges again. Empty: there is no list.
	List() string
}

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Expunges is the method of store.Expunges.
	Expunges(ctx context.Context, q store.ExpungeQuery) (store.Page[postrider.Expunge], error)
}

// Archive finds events that exist only in the archive.
type Archive interface {
	// Event finds an event in the archive. The result has only the id and the account.
	Event(ctx context.Context, text string) (postrider.Event, error)
}

// Routes serves expunges.
type Routes struct {
	*rest.Shared

	Store    Store
	Archive  Archive
	Expunger Expunger
	// FilesHeld is true if the store cannot remove deleted rows from its own files.
	FilesHeld bool
}

// Register registers the routes of expunges.
func (s *Routes) Register(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "create-expunge", Path: "POST /expunges",
		Summary: "Remove an event, an endpoint or an account with all that is stored about it",
		Description: "It cannot be undone. An endpoint or account is deleted first. What is pending is cancelled. " +
			"The removal goes on after a restart of the server; 15 minutes after the last row was found, since an attempt may be under way, the archive follows, and then it ends. " +
			"An event that only the archive has is found there.",
		Codes: []string{"archive_unavailable", "archive_damaged", "expunge_list_unwritable"}, ReceiverTime: rest.ArchiveTime,
		Scope: postrider.ScopeAdmin, Status: 202, Body: apitypes.ExpungeCreate{}, Empty: true, Withdraws: true,
	}, s.createExpunge)
	rest.Handle(rt, rest.Route{
		Name: "list-expunges", Path: "GET /expunges",
		Summary: "List expunges, newest first",
		Scope:   postrider.ScopeAdmin,
	}, s.listExpunges)
	rest.Handle(rt, rest.Route{
		Name: "get-expunge", Path: "GET /expunges/{expunge}",
		Summary: "Get an expunge with its progress",
		Scope:   postrider.ScopeAdmin,
	}, s.getExpunge)
}

// createExpunge begins an expunge of the object that the body names.
func (s *Routes) createExpunge(ctx context.Context, _ *struct{}) (*rest.Reply[apitypes.Expunge], error) {
	var body apitypes.ExpungeCreate
	if err := rest.Decode(ctx, &body); err != nil {
		return nil, err
	}
	e := postrider.Expunge{ID: store.NewID[postrider.ExpungeID](s.IDs), By: rest.InfoOf(ctx).Caller.Name, CreatedAt: s.Clock.Wall()}
	if err := s.fillExpunge(ctx, &e, body); err != nil {
		return nil, err
	}
	if err := s.Expunger.Begin(ctx, e); err != nil {
		return nil, err
	}
	if err := s.Expunger.Prepare(ctx, e); err != nil { // the runner of expunges tries again
		s.Effects.Soon(ctx)
	} else if e.Event.IsZero() {
		s.Effects.AwaitDeleted(ctx)
	} else {
		s.Effects.Await(ctx, postrider.Withdrawal{Event: e.Event})
	}
	return rest.RespondWith(s.viewExpunge)(store.First(s.Store.Expunges(ctx, store.ExpungeQuery{ID: e.ID})))
}

// fillExpunge sets the object of the expunge. It finds deleted endpoints and accounts by their ids.
// It finds a deleted event through its deliveries or in the archive.
func (s *Routes) fillExpunge(ctx context.Context, e *postrider.Expunge, body apitypes.ExpungeCreate) error {
	named := 0
	for _, name := range []string{body.Event, body.Endpoint, body.Account} {
		if name != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return rest.Invalid("event", postrider.FaultContradictory, "name exactly one of event, endpoint and account")
	case body.Event != "":
		event, err := s.Names.Event(ctx, body.Event)
		if errors.Is(err, postrider.ErrNotFound) {
			event, err = s.Archive.Event(ctx, body.Event)
		}
		e.Event, e.Account = event.ID, event.Account
		return inField("event", err)
	case body.Endpoint != "":
		endpoint, err := s.Names.Endpoint(ctx, body.Endpoint)
		e.Endpoint, e.Account = endpoint.ID, endpoint.Account
		return inField("endpoint", err)
	}
	account, err := s.Names.Account(ctx, body.Account)
	e.Account = account.ID
	rest.InfoOf(ctx).Account = account.ID
	return inField("account", err)
}

// inField turns ErrNotFound into a fault of the field that names the missing object.
func inField(field string, err error) error {
	if errors.Is(err, postrider.ErrNotFound) {
		return rest.Invalid(field, postrider.FaultUnknown, "must be the id of an existing "+field)
	}
	return err
}

func (s *Routes) listExpunges(ctx context.Context, in *struct {
	Running bool `query:"running" doc:"Only those that have not ended."`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Expunge]], error) {
	return rest.RespondPage(s.viewExpunge)(s.Store.Expunges(ctx, store.ExpungeQuery{Running: in.Running, Paging: in.Paging.Of()}))
}

func (s *Routes) getExpunge(ctx context.Context, in *struct {
	Expunge string `path:"expunge"`
},
) (*rest.Reply[apitypes.Expunge], error) {
	id, err := rest.ParseID[postrider.ExpungeID](in.Expunge)
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(s.viewExpunge)(store.First(s.Store.Expunges(ctx, store.ExpungeQuery{ID: id})))
}

func (s *Routes) viewExpunge(e postrider.Expunge) apitypes.Expunge {
	view := apitypes.Expunge{
		ID: e.ID, Event: render.OrNull(e.Event), Endpoint: render.OrNull(e.Endpoint), Account: e.Account, CreatedBy: e.By,
		CreatedAt: render.Instant(e.CreatedAt), EndedAt: render.TimeOrNull(e.EndedAt),
		Removed: apitypes.ExpungeCounts(e.Removed), SHA256: hex.EncodeToString(e.Digest[:]), ArchiveError: render.OrNull(e.Archive.Fault),
		OutboxRows: e.Outbox.Removed, OutboxError: render.OrNull(e.Outbox.Fault),
		StillHeld: []string{"backups_without_list", "audit_log", "logs"},
	}
	if s.Expunger.List() != "" {
		view.StillHeld[0] = "backups"
	}
	if s.FilesHeld || e.EndedAt.IsZero() {
		view.StillHeld = append(view.StillHeld, "files")
	}
	if e.Archive.Held {
		view.StillHeld = append(view.StillHeld, "archive")
	}
	return view
}
