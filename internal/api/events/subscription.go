package events

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/filter/condition"
)

// subscription has what says which events an endpoint gets, ready to be compared with events. Package
// routing decides by the same.
type subscription struct {
	types    []postrider.Pattern // empty: all
	filter   *filter.Pattern     // nil: none
	channels []string            // empty: events need no channel
	changed  []string            // empty: events need not say what changed

	condition *condition.Condition // nil: none
	text      string               // of the condition

	caller *postrider.Caller // for whom events are compared
}

// comparing is an event in the forms with which the parts of a subscription are compared.
type comparing struct {
	*filter.Event

	condition *condition.Event
}

func comparingOf(e *postrider.Event) comparing { return comparing{filter.Of(e), condition.Of(e)} }

// subscriptionOf parses the subscription of an endpoint.
func subscriptionOf(of postrider.Subscription, caller *postrider.Caller) (s subscription, err error) {
	s = subscription{types: of.EventTypes, channels: of.Channels, changed: of.Changed, caller: caller, text: of.Condition}
	if of.Filter != "" {
		s.filter, err = filter.Parse([]byte(of.Filter))
	}
	if of.Condition != "" && err == nil {
		s.condition, err = condition.Compile(of.Condition)
	}
	return s, err
}

// change sets the fields that the request has. It returns all their faults, which are those of a change
// of the endpoint.
func (s *subscription) change(to apitypes.Subscription) error {
	var faults []error
	if to.EventTypes != nil {
		s.types = rest.Patterns(to.EventTypes)
		faults = append(faults, rest.CheckPatterns(s.types))
	}
	hidden := rest.HiddenFrom(s.caller)
	if text, ok := to.Filter.Get(); ok {
		pattern, err := filter.Parse(text, hidden...)
		s.filter, faults = pattern, append(faults, err)
	} else if to.Filter.IsNull() {
		s.filter = nil
	}
	if text, ok := to.Condition.Get(); ok {
		compiled, err := condition.Compile(text, hidden...)
		s.condition, s.text, faults = compiled, text, append(faults, err)
	} else if to.Condition.IsNull() {
		s.condition = nil
	}
	rest.Set(&s.channels, to.Channels, nil)
	rest.Set(&s.changed, to.Changed, nil)
	policy := postrider.DefaultPolicy()
	policy.Channels, policy.Changed = s.channels, s.changed
	return errors.Join(append(faults, policy.Check())...)
}

// selects reports whether one of the event types selects the type of the event.
func (s *subscription) selects(e comparing) bool {
	return len(s.types) == 0 || slices.ContainsFunc(s.types, func(p postrider.Pattern) bool { return p.Matches(e.Type) })
}

// hasChannel reports whether the event has one of the channels.
func (s *subscription) hasChannel(e comparing) bool {
	return len(s.channels) == 0 || slices.ContainsFunc(s.channels, func(c string) bool { return slices.Contains(e.Channels, c) })
}

// hasChanged reports whether one of the changed paths has changed in the event.
func (s *subscription) hasChanged(e comparing) bool {
	return len(s.changed) == 0 || slices.ContainsFunc(s.changed, e.Changed)
}

// holds reports whether the condition holds, or cannot be evaluated: the event then gets a delivery.
func (s *subscription) holds(e comparing) bool {
	if s.condition == nil {
		return true
	}
	holds, _, err := s.condition.Holds(e.condition)
	return holds || err != nil
}

// explain compares the event with each part of the subscription.
func (s *subscription) explain(e comparing) apitypes.Comparison {
	view := apitypes.Comparison{TypeMatches: s.selects(e)}
	view.Matches = view.TypeMatches && s.hasChannel(e) && s.hasChanged(e)
	if s.filter != nil {
		explained := s.filter.Explain(e.Event)
		view.Matches = view.Matches && explained.Matches
		view.Filter = viewFilter(explained, s.caller)
	}
	if len(s.channels) > 0 {
		view.Channels = explainChannels(s.channels, e.Channels)
	}
	if len(s.changed) > 0 {
		view.Changed = explainChanged(s.changed, e.Event)
	}
	if s.condition != nil {
		view.Condition = s.explainCondition(e.condition)
		view.Matches = view.Matches && view.Condition.Matches
	}
	return view
}

// reason is why a subscription does not select an event: the fields of an [apitypes.WhatIfReason]. The
// zero reason: it does.
type reason struct{ reason, path, condition string }

// reasonOf compares the event with the parts of the subscription, up to the first that does not select
// it. It costs less than explain.
func (s *subscription) reasonOf(e comparing) reason {
	switch {
	case !s.selects(e):
		return reason{reason: "type"}
	case s.filter != nil && !s.filter.Matches(e.Event):
		failed := s.filter.Failed(e.Event)
		switch {
		case failed.Path == "":
			return reason{reason: "apart"}
		case failed.Root == "internal" && !s.caller.Account.IsZero():
			return reason{reason: "filter"}
		}
		return reason{"filter", failed.Path, failed.JSON}
	case !s.hasChannel(e):
		return reason{reason: "channels"}
	case !s.hasChanged(e):
		return reason{reason: "changed"}
	case !s.holds(e):
		return reason{reason: "condition"}
	}
	return reason{}
}

// view returns the reason, for this many events, in the form of a response.
func (r reason) view(events int) apitypes.WhatIfReason {
	return apitypes.WhatIfReason{Reason: r.reason, Path: r.path, Condition: json.RawMessage(r.condition), Events: events}
}
