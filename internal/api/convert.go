package api

import (
	"math"
	"time"

	"github.com/postrider/postrider/apitypes"
)

// reply is a response with a body, in the form that huma expects.
type reply[B any] struct {
	Body B
}

// respond returns a response with the body b.
func respond[B any](b B) *reply[B] { return &reply[B]{Body: b} }

// respondWith returns a function that turns the result of a call into a response:
// the view of the value, or the error. It takes both results of the call, so a
// handler ends with
//
//	return respondWith(viewDelivery)(s.findDelivery(ctx, in.Delivery))
func respondWith[V, B any](view func(V) B) func(V, error) (*reply[B], error) {
	return func(value V, err error) (*reply[B], error) {
		if err != nil {
			return nil, err
		}
		return respond(view(value)), nil
	}
}

// none is a request without parameters, or a response without a body.
type none struct{}

// instant returns a time in the form of a response.
func instant(t time.Time) apitypes.Time { return apitypes.Time{Time: t} }

// timeOrNull is instant for an optional time: the zero time becomes null.
func timeOrNull(t time.Time) *apitypes.Time {
	if t.IsZero() {
		return nil
	}
	return &apitypes.Time{Time: t}
}

// orNull returns a pointer to the value; nil, which is null in JSON, for the
// zero value. Responses have all their fields, so that a client can tell "none" from
// "this server does not know the field".
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// millis returns n milliseconds. A number that overflows becomes the longest or
// the shortest duration, which every policy refuses.
func millis(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// checkText returns a fault if the text is longer than longest, in bytes.
func checkText(field, text string, longest int) error {
	if len(text) > longest {
		return tooLong(field, longest, "is too long")
	}
	return nil
}
