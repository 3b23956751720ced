package deliveries

import (
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// viewDeadLetter returns a dead letter in the form of a response. The fields of the resolution are
// null while the dead letter is unresolved.
func viewDeadLetter(d postrider.DeadLetter) apitypes.DeadLetter {
	return apitypes.DeadLetter{
		Delivery: d.Delivery, Event: d.Event, Endpoint: d.Endpoint, Account: d.Account, EventType: d.EventType,
		Test: postrider.IsTest(d.Event), Reason: d.Reason, Attempts: d.Attempts, LastStatusCode: render.OrNull(d.LastStatusCode),
		LastError: render.OrNull(d.LastError), ReplayedFrom: render.OrNull(d.ReplayedFrom), CreatedAt: render.Instant(d.Delivery.Time()),
		DiedAt: render.Instant(d.DiedAt), ResolvedAt: render.TimeOrNull(d.ResolvedAt), Resolution: render.OrNull(d.Resolution),
		ResolvedBy: render.OrNull(d.ResolvedBy), Note: render.OrNull(d.Note), Replay: render.OrNull(d.Replay),
	}
}

// registerDeadLetters registers the routes of dead letters. A dead letter has the id of
// its delivery.
func (s *Routes) registerDeadLetters(rt *rest.Router) {
	read, operate := postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate
	rest.Handle(rt, rest.Route{
		Name: "list-dead-letters", Path: "GET /dead-letters",
		Summary:     "List dead letters, newest first",
		Description: "Dead letters that were replayed or discarded are listed only with resolved=true.",
		Scope:       read,
	}, s.listDeadLetters)
	rest.Handle(rt, rest.Route{
		Name: "list-dead-letter-groups", Path: "GET /dead-letters/groups",
		Summary:     "List unresolved dead letters by endpoint and cause",
		Description: "A group has the dead letters of one endpoint with the same reason, last status code and last error. The endpoints are listed newest first.",
		Scope:       read,
	}, s.listDeadLetterGroups)
	rest.Handle(rt, rest.Route{
		Name: "get-dead-letter", Path: "GET /dead-letters/{delivery}",
		Summary: "Get a dead letter, resolved or not",
		Scope:   read,
	}, s.getDeadLetter)
	rest.Handle(rt, rest.Route{
		Name: "replay-dead-letter", Path: "POST /dead-letters/{delivery}/replay",
		Summary:     "Replay a dead letter as a new delivery",
		Description: replayDescription,
		Codes:       deadReplayCodes,
		Scope:       operate, Status: 202,
	}, s.replayDeadLetter)
	rest.HandleBody(rt, rest.Route{
		Name: "discard-dead-letter", Path: "POST /dead-letters/{delivery}/discard",
		Summary:     "Discard a dead letter",
		Description: "It is final: the dead letter can no longer be replayed.",
		Codes:       []string{"dead_letter_replayed", "dead_letter_discarded"},
		Scope:       operate, Empty: true,
	}, s.discardDeadLetter)
}

// listDeadLetters lists the dead letters that all given filters select.
func (s *Routes) listDeadLetters(ctx context.Context, in *struct {
	Account   string `query:"account" doc:"Id or uid of the account."`
	Endpoint  string `query:"endpoint" doc:"Id of the endpoint. With the account, its uid works too."`
	EventType string `query:"event_type"`
	Reason    string `query:"reason" enum:"exhausted,gone,client_error,aborted_by_receiver,expired,filter_failed,system" doc:"Why the delivery died."`
	Resolved  bool   `query:"resolved" doc:"Whether to list resolved dead letters too; default false."`
	rest.Span
	rest.Order
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.DeadLetter]], error) {
	account, endpoint, err := s.Names.Scope(ctx, in.Account, in.Endpoint)
	if err := errors.Join(err, rest.CheckTypeFilter("event_type", in.EventType)); err != nil {
		return nil, err
	}
	return rest.RespondPage(viewDeadLetter)(s.Letters.DeadLetters(ctx, store.DeadLetterQuery{
		Account: account, Endpoint: endpoint, EventType: in.EventType, Reason: in.Reason, Resolved: in.Resolved,
		Span: in.Span.Of(), Paging: in.Page(in.Paging),
	}))
}

// listDeadLetterGroups groups the dead letters that all given filters select.
func (s *Routes) listDeadLetterGroups(ctx context.Context, in *struct {
	Account  string `query:"account" doc:"Id or uid of the account."`
	Endpoint string `query:"endpoint" doc:"Id of the endpoint. With the account, its uid works too."`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.DeadLetterGroup]], error) {
	account, endpoint, err := s.Names.Scope(ctx, in.Account, in.Endpoint)
	if err != nil {
		return nil, err
	}
	if !endpoint.IsZero() && account.IsZero() { // the index of groups begins with the account
		e, err := s.Names.Endpoint(ctx, endpoint.String())
		if err != nil {
			return nil, err
		}
		account = e.Account
	}
	return rest.RespondPage(viewDeadLetterGroup)(s.Letters.DeadLetterGroups(ctx, store.DeadLetterGroupQuery{
		Account: account, Endpoint: endpoint, Paging: in.Paging.Of(),
	}))
}

// viewDeadLetterGroup returns a group in the form of a response.
func viewDeadLetterGroup(g store.DeadLetterGroup) apitypes.DeadLetterGroup {
	return apitypes.DeadLetterGroup{
		Account: g.Account, Endpoint: g.Endpoint, Reason: g.Reason, LastStatusCode: render.OrNull(g.LastStatusCode),
		LastError: render.OrNull(g.LastError), Count: g.Count, Oldest: g.Oldest, OldestAt: render.Instant(g.Oldest.Time()),
		Newest: g.Newest, NewestAt: render.Instant(g.Newest.Time()),
	}
}

func (s *Routes) getDeadLetter(ctx context.Context, in *DeliveryPath) (*rest.Reply[apitypes.DeadLetter], error) {
	id, err := rest.ParseID[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(viewDeadLetter)(s.findDeadLetter(ctx, id))
}

// findDeadLetter returns a dead letter that the caller may see, resolved or not.
func (s *Routes) findDeadLetter(ctx context.Context, id postrider.DeliveryID) (postrider.DeadLetter, error) {
	query := store.DeadLetterQuery{Account: rest.InfoOf(ctx).Caller.Account, Delivery: id, Resolved: true}
	return store.First(s.Letters.DeadLetters(ctx, query))
}

// replayDeadLetter replays the delivery of a dead letter. A delivery that is not dead is reported
// as missing, because it has no dead letter.
func (s *Routes) replayDeadLetter(ctx context.Context, in *DeliveryPath) (*rest.Reply[apitypes.Delivery], error) {
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	if d.Status != postrider.Dead {
		return nil, postrider.ErrNotFound
	}
	return rest.RespondWith(viewDelivery)(s.replay(ctx, d))
}

// discardDeadLetter resolves a dead letter without a replay. It stores the caller's name and the
// reason. If the dead letter is resolved already, the conflict names the resolution.
func (s *Routes) discardDeadLetter(ctx context.Context, in *DeliveryPath,
	body apitypes.DeadLetterDiscard,
) (*rest.Reply[apitypes.DeadLetter], error) {
	id, err := rest.ParseID[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	if err := rest.CheckText("reason", body.Reason, rest.MaxDescription); err != nil {
		return nil, err
	}
	caller := rest.InfoOf(ctx).Caller
	letter, err := s.Letters.Discard(ctx, store.Discard{
		Account: caller.Account, Delivery: id, By: caller.Name, Note: body.Reason,
	})
	if errors.Is(err, postrider.ErrConflict) {
		if letter, err = s.findDeadLetter(ctx, id); err == nil {
			err = rest.Conflict("dead_letter_"+string(letter.Resolution), "the dead letter was "+string(letter.Resolution))
		}
	}
	if err != nil {
		return nil, err
	}
	s.Effects.Notify(letter.Endpoint) // the next delivery of its ordering key may be due
	return rest.Respond(viewDeadLetter(letter)), nil
}
