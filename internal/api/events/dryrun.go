package events

import (
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
)

// registerTries registers the routes that compare events with a subscription that is not stored.
func (s *Routes) registerTries(rt *rest.Router) {
	s.read = rt.Read
	rest.HandleBody(rt, rest.Route{
		Name: "try-subscription", Path: "POST /events/dry-run",
		Summary:     "Compare an event with a subscription",
		Description: "Nothing is stored or sent. The answer says of each condition whether it holds, and what the event has there.",
		Scope:       postrider.ScopeWebhooksRead, Reads: true, Limit: int64(s.MaxData + 2*envelopeSize),
	}, s.trySubscription)
	rest.HandleBody(rt, rest.Route{
		Name: "what-if", Path: "POST /endpoints/{endpoint}/what-if",
		Summary: "Compare stored events with a change of a subscription",
		Description: "Nothing is changed. The answer counts the events that the subscription would have selected, and those of which the endpoint has a " +
			"delivery. It compares for at most 5 seconds. Each account may run one at a time, and each server two.",
		Scope: postrider.ScopeWebhooksRead, Reads: true, Pages: true, Empty: true,
	}, s.whatIf)
	s.registerArchived(rt)
}

// trySubscription compares the event of the request with the subscription of the request.
func (s *Routes) trySubscription(ctx context.Context, _ *rest.None, body apitypes.DryRun) (*rest.Reply[apitypes.Comparison], error) {
	wants := subscription{caller: rest.InfoOf(ctx).Caller}
	err := wants.change(body.Subscription)
	e := postrider.Event{Type: body.Event.Type, Data: body.Event.Data, About: postrider.About(body.Event.About)}
	err = errors.Join(err, within("event.", s.check(ctx, &e)))
	if err != nil {
		return nil, err
	}
	return rest.Respond(wants.explain(comparingOf(&e))), nil
}
