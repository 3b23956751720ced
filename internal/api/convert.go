package api

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
