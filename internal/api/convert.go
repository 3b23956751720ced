package api

import (
	"math"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// reply is an answer with a body.
type reply[B any] struct {
	Body B
}

func answered[B any](b B) *reply[B] { return &reply[B]{Body: b} }

// none is the answer without a body, or the request without parameters.
type none struct{}

func instant(t time.Time) apitypes.Time { return apitypes.Time{Time: t} }

// timeOrNull returns nil for the zero time.
func timeOrNull(t time.Time) *apitypes.Time {
	if t.IsZero() {
		return nil
	}
	return &apitypes.Time{Time: t}
}

// orNull returns nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// millis returns n milliseconds; what would overflow becomes the longest or
// shortest duration, which every policy refuses.
func millis(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// checkText returns the fault of a text that is too long.
func checkText(field, text string, longest int) error {
	if len(text) > longest {
		return &postrider.InvalidError{Field: field, Reason: "is too long"}
	}
	return nil
}
