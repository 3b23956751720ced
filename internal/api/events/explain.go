package events

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/filter/condition"
	"github.com/postrider/postrider/internal/store"
)

// explainEvent says whether an endpoint wanted an event, by the subscription that it had when the event
// was published, and whether it would want the event now.
func (s *Routes) explainEvent(ctx context.Context, in *struct {
	rest.EventPath
	Endpoint string `query:"endpoint" doc:"Id or uid of an endpoint of the event's account. It is required."`
},
) (*rest.Reply[apitypes.EventExplanation], error) {
	event, err := s.Names.Event(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	if in.Endpoint == "" {
		return nil, rest.Invalid("endpoint", postrider.FaultRequired, "is required")
	}
	_, id, err := s.Names.Scope(ctx, event.Account.String(), in.Endpoint)
	if err != nil {
		return nil, err
	}
	to, err := s.Names.Endpoint(ctx, id.String())
	if err != nil {
		return nil, err
	}
	if event.Data == nil { // whether it named endpoints is deleted, too
		return nil, postrider.ErrGone
	}
	if len(event.Endpoints) > 0 {
		view := apitypes.EventExplanation{Event: event.ID, Endpoint: to.ID, Directed: true}
		view.Matches, view.TypeMatches = event.IsFor(&to), to.Subscribes(event.Type)
		view.MatchesNow = view.Matches
		return rest.Respond(view), nil
	}
	now, at := to.Subscription(), store.EventTime(event.ID)
	then, err := s.Store.Subscription(ctx, store.SubscriptionQuery{Endpoint: to.ID, At: at})
	if errors.Is(err, postrider.ErrNotFound) {
		then, err = postrider.SubscriptionRevision{Subscription: now}, nil
	}
	if err != nil {
		return nil, err
	}
	wanted, errThen := subscriptionOf(then.Subscription, rest.InfoOf(ctx).Caller)
	wants, errNow := subscriptionOf(now, rest.InfoOf(ctx).Caller)
	if err := errors.Join(errThen, errNow); err != nil {
		return nil, err
	}
	compared, deleted := comparingOf(&event), to.Status == postrider.EndpointDeleted
	view := apitypes.EventExplanation{
		Event: event.ID, Endpoint: to.ID, Comparison: wanted.explain(compared), MatchesNow: wants.reasonOf(compared) == reason{} && !deleted,
		Since: render.TimeOrNull(then.Since), Until: render.TimeOrNull(then.Until), Deleted: deleted && !at.Before(to.StatusSince),
	}
	view.Matches = view.Matches && !view.Deleted
	return rest.Respond(view), nil
}

// explainChannels says which of the channels of the endpoint the event has.
func explainChannels(wanted, has []string) *apitypes.ChannelExplanation {
	both := slices.DeleteFunc(slices.Clone(wanted), func(channel string) bool { return !slices.Contains(has, channel) })
	return &apitypes.ChannelExplanation{Matches: len(both) > 0, Channels: both}
}

// explainCondition evaluates the condition. If it uses internal, a caller that is bound to an account sees
// neither its text, nor its cost, which tells the length of a value of internal, nor an error, which may have the value.
func (s *subscription) explainCondition(e *condition.Event) *apitypes.ConditionExplanation {
	holds, cost, err := s.condition.Holds(e)
	view := &apitypes.ConditionExplanation{Matches: holds || err != nil}
	if s.condition.Uses("internal") && !s.caller.Account.IsZero() {
		return view
	}
	view.Text, view.Cost = &s.text, cost
	if err != nil {
		view.Error = render.OrNull(err.Error())
	}
	return view
}

// explainChanged says which of the paths have changed in the event.
func explainChanged(paths []string, e *filter.Event) *apitypes.ChangedExplanation {
	changed := []string{}
	for _, path := range paths {
		if e.Changed(path) {
			changed = append(changed, path)
		}
	}
	return &apitypes.ChangedExplanation{Matches: len(changed) > 0, Told: e.SaysChanges(), Paths: changed}
}

// viewFilter returns what the caller may see: the field internal of events is for the operator.
func viewFilter(x filter.Explanation, caller *postrider.Caller) *apitypes.FilterExplanation {
	view := &apitypes.FilterExplanation{Matches: x.Matches, Apart: x.Apart, Conditions: []apitypes.FilterCondition{}}
	for _, c := range x.Conditions {
		if c.Root == "internal" && !caller.Account.IsZero() {
			continue
		}
		view.Conditions = append(view.Conditions, apitypes.FilterCondition{
			Path: c.Path, Condition: json.RawMessage(c.JSON), Holds: c.Holds, Found: render.OrNull(c.Found),
		})
	}
	return view
}
