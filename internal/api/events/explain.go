package events

import (
	"context"
	"encoding/json"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/filter"
)

// explainEvent says whether an endpoint wants an event, by its present event types, filter and changed
// paths.
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
	view := apitypes.EventExplanation{Event: event.ID, Endpoint: to.ID, TypeMatches: to.Subscribes(event.Type)}
	view.Matches = view.TypeMatches
	policy, compared := to.Policy, filter.Of(&event)
	if event.Data == nil && (policy.Filter != "" || len(policy.Changed) > 0) {
		return nil, postrider.ErrGone
	}
	if policy.Filter != "" {
		pattern, err := filter.Parse([]byte(policy.Filter))
		if err != nil {
			return nil, err
		}
		explained := pattern.Explain(compared)
		view.Matches = view.Matches && explained.Matches
		view.Filter = viewFilter(explained, rest.InfoOf(ctx).Caller)
	}
	if len(policy.Changed) > 0 {
		view.Changed = explainChanged(policy.Changed, compared)
		view.Matches = view.Matches && view.Changed.Matches
	}
	return rest.Respond(view), nil
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
