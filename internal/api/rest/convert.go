package rest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Reply is a response with a body, in the form that huma expects.
type Reply[B any] struct {
	Body B
}

// Respond returns a response with the body b.
func Respond[B any](b B) *Reply[B] { return &Reply[B]{Body: b} }

// RespondWith returns a function that turns the results of a call into a response. The response has
// the view of the value, or the error is returned. The function takes both results of the call, so
// a handler ends with
//
//	return RespondWith(viewDelivery)(s.Names.Delivery(ctx, in.Delivery))
func RespondWith[V, B any](view func(V) B) func(V, error) (*Reply[B], error) {
	return func(value V, err error) (*Reply[B], error) {
		if err != nil {
			return nil, err
		}
		return Respond(view(value)), nil
	}
}

// None is a request without parameters, or a response without a body.
type None struct{}

// Set sets a field to the value that the request has, or to the default if the request has null. If
// the request omits the field, Set leaves the field unchanged.
func Set[T any](field *T, to apitypes.Optional[T], standard T) {
	if value, ok := to.Get(); ok {
		*field = value
	} else if to.IsNull() {
		*field = standard
	}
}

// Millis returns n milliseconds. A number that overflows becomes the longest or
// the shortest duration, which every policy refuses.
func Millis(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// Patterns converts the texts to patterns. It does not validate the patterns;
// [postrider.Pattern.Check] does.
func Patterns(texts []string) []postrider.Pattern {
	list := make([]postrider.Pattern, 0, len(texts))
	for _, text := range texts {
		list = append(list, postrider.Pattern(text))
	}
	return list
}

// CheckPatterns returns the faults of the field event_types of a request.
func CheckPatterns(list []postrider.Pattern) error {
	var faults []error
	if n := len(list); n < 1 || n > MaxPatterns {
		faults = append(faults, WrongCount("event_types", 1, MaxPatterns, "patterns"))
	}
	for i, p := range list[:min(len(list), MaxPatterns)] {
		faults = append(faults, p.Check(fmt.Sprintf("event_types[%d]", i)))
	}
	return errors.Join(faults...)
}

// HiddenFrom returns the fields of events that no filter or condition of the caller may use. The field
// internal is for the operator: callers that are bound to an account must not find out its values.
func HiddenFrom(caller *postrider.Caller) []string {
	if caller.Account.IsZero() {
		return nil
	}
	return []string{"internal"}
}
