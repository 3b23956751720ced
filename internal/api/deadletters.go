package api

import (
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// viewDeadLetter returns a dead letter in the form of a response. The fields of
// its resolution are null while it is unresolved.
func viewDeadLetter(d postrider.DeadLetter) apitypes.DeadLetter {
	return apitypes.DeadLetter{
		Delivery: d.Delivery, Event: d.Event, Endpoint: d.Endpoint, Account: d.Account,
		EventType: d.EventType, Test: postrider.IsTest(d.Event), Reason: d.Reason, Attempts: d.Attempts, LastStatusCode: orNull(d.LastStatusCode),
		LastError: orNull(d.LastError), ReplayedFrom: orNull(d.ReplayedFrom), CreatedAt: instant(d.Delivery.Time()), DiedAt: instant(d.DiedAt),
		ResolvedAt: timeOrNull(d.ResolvedAt), Resolution: orNull(d.Resolution),
		ResolvedBy: orNull(d.ResolvedBy), Note: orNull(d.Note), Replay: orNull(d.Replay),
	}
}

// registerDeadLetters registers the routes of dead letters. A dead letter has the id of
// its delivery.
func (s *deliveriesRoutes) registerDeadLetters(rt *router) {
	read, operate := postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate
	handle(rt, route{
		name: "list-dead-letters", path: "GET /dead-letters",
		summary:     "List dead letters, newest first",
		description: "Dead letters that were replayed or discarded are listed only with resolved=true.",
		scope:       read,
	}, s.listDeadLetters)
	handle(rt, route{
		name: "list-dead-letter-groups", path: "GET /dead-letters/groups",
		summary:     "List unresolved dead letters by endpoint and cause",
		description: "A group has the dead letters of one endpoint with the same reason, last status code and last error. The endpoints are listed newest first.",
		scope:       read,
	}, s.listDeadLetterGroups)
	handle(rt, route{
		name: "get-dead-letter", path: "GET /dead-letters/{delivery}",
		summary: "Get a dead letter, resolved or not",
		scope:   read,
	}, s.getDeadLetter)
	handle(rt, route{
		name: "replay-dead-letter", path: "POST /dead-letters/{delivery}/replay",
		summary:     "Replay a dead letter as a new delivery",
		description: replayDescription,
		codes:       deadReplayCodes,
		scope:       operate, status: 202,
	}, s.replayDeadLetter)
	handle(rt, route{
		name: "discard-dead-letter", path: "POST /dead-letters/{delivery}/discard",
		summary:     "Discard a dead letter",
		description: "It is final: the dead letter can no longer be replayed.",
		codes:       []string{"dead_letter_replayed", "dead_letter_discarded"},
		scope:       operate, body: apitypes.DeadLetterDiscard{}, empty: true,
	}, s.discardDeadLetter)
}

// listDeadLetters lists the dead letters that all given filters select.
func (s *deliveriesRoutes) listDeadLetters(ctx context.Context, in *struct {
	Account   string `query:"account" doc:"Id or uid of the account."`
	Endpoint  string `query:"endpoint" doc:"Id of the endpoint. With the account, its uid works too."`
	EventType string `query:"event_type"`
	Reason    string `query:"reason" enum:"exhausted,gone,client_error,expired,system" doc:"Why the delivery died."`
	Resolved  bool   `query:"resolved" doc:"Whether to list resolved dead letters too; default false."`
	Span
	Order
	Paging
},
) (*reply[apitypes.Page[apitypes.DeadLetter]], error) {
	account, endpoint, err := s.Names.Scope(ctx, in.Account, in.Endpoint)
	if err := errors.Join(err, checkTypeFilter("event_type", in.EventType)); err != nil {
		return nil, err
	}
	return respondPage(viewDeadLetter)(s.Letters.DeadLetters(ctx, store.DeadLetterQuery{
		Account: account, Endpoint: endpoint, EventType: in.EventType, Reason: in.Reason, Resolved: in.Resolved,
		Span: in.Span.of(), Paging: in.page(in.Paging),
	}))
}

// listDeadLetterGroups groups the dead letters that all given filters select.
func (s *deliveriesRoutes) listDeadLetterGroups(ctx context.Context, in *struct {
	Account  string `query:"account" doc:"Id or uid of the account."`
	Endpoint string `query:"endpoint" doc:"Id of the endpoint. With the account, its uid works too."`
	Paging
},
) (*reply[apitypes.Page[apitypes.DeadLetterGroup]], error) {
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
	return respondPage(viewDeadLetterGroup)(s.Letters.DeadLetterGroups(ctx, store.DeadLetterGroupQuery{
		Account: account, Endpoint: endpoint, Paging: in.Paging.of(),
	}))
}

// viewDeadLetterGroup returns a group in the form of a response.
func viewDeadLetterGroup(g store.DeadLetterGroup) apitypes.DeadLetterGroup {
	return apitypes.DeadLetterGroup{
		Account: g.Account, Endpoint: g.Endpoint, Reason: g.Reason, LastStatusCode: orNull(g.LastStatusCode), LastError: orNull(g.LastError),
		Count: g.Count, Oldest: g.Oldest, OldestAt: instant(g.Oldest.Time()), Newest: g.Newest, NewestAt: instant(g.Newest.Time()),
	}
}

func (s *deliveriesRoutes) getDeadLetter(ctx context.Context, in *DeliveryPath) (*reply[apitypes.DeadLetter], error) {
	id, err := parseID[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	return respondWith(viewDeadLetter)(s.findDeadLetter(ctx, id))
}

// findDeadLetter returns a dead letter that the key may see, resolved or not.
func (s *deliveriesRoutes) findDeadLetter(ctx context.Context, id postrider.DeliveryID) (postrider.DeadLetter, error) {
	query := store.DeadLetterQuery{Account: infoOf(ctx).caller.Account, Delivery: id, Resolved: true}
	return store.First(s.Letters.DeadLetters(ctx, query))
}

// replayDeadLetter replays the delivery of a dead letter. A delivery that is
// not dead is not found, because it has no dead letter.
func (s *deliveriesRoutes) replayDeadLetter(ctx context.Context, in *DeliveryPath) (*reply[apitypes.Delivery], error) {
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	if d.Status != postrider.Dead {
		return nil, postrider.ErrNotFound
	}
	return respondWith(viewDelivery)(s.replay(ctx, d))
}

// discardDeadLetter resolves a dead letter without a replay. It stores the name
// of the caller's key and the reason. The conflict for a resolved dead letter
// names its resolution.
func (s *deliveriesRoutes) discardDeadLetter(ctx context.Context, in *DeliveryPath) (*reply[apitypes.DeadLetter], error) {
	var body apitypes.DeadLetterDiscard
	if err := decodeIfAny(ctx, &body); err != nil {
		return nil, err
	}
	id, err := parseID[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	if err := checkText("reason", body.Reason, maxDescription); err != nil {
		return nil, err
	}
	caller := infoOf(ctx).caller
	letter, err := s.Letters.Discard(ctx, store.Discard{
		Account: caller.Account, Delivery: id, By: caller.Name, Note: body.Reason,
	})
	if errors.Is(err, postrider.ErrConflict) {
		if letter, err = s.findDeadLetter(ctx, id); err == nil {
			err = conflict("dead_letter_"+string(letter.Resolution), "the dead letter was "+string(letter.Resolution))
		}
	}
	if err != nil {
		return nil, err
	}
	s.Effects.Notify(letter.Endpoint) // its ordering key may continue
	return respond(viewDeadLetter(letter)), nil
}
