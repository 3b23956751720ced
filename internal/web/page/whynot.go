package page

import (
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// WhyNot asks why an endpoint got an event or not. It has a form with one field, and the answer. The
// partials why-not-form and why-not show them.
type WhyNot struct {
	Field  Filter
	Answer *apitypes.EventExplanation // nil: nothing was asked, or Fault says why there is no answer
	Fault  string
}

// Ask fills in the answer about an endpoint, which is named by its id or uid.
func (w *WhyNot) Ask(v *Visit, event postrider.EventID, endpoint string) error {
	answer, err := v.API.ExplainEvent(v.Context, event, endpoint)
	faults := v.Faulty(err)
	switch {
	case err == nil:
		w.Answer = &answer
		return v.NameEndpoints(v.Context, []postrider.EndpointID{answer.Endpoint})
	case faults != nil:
		w.Fault = AnyFault(faults)
	case errors.Is(err, postrider.ErrGone):
		w.Fault = v.T("why_not.gone")
	case errors.Is(err, postrider.ErrNotFound):
		w.Fault = v.T("why_not.no_event")
	default:
		return err
	}
	return nil
}
