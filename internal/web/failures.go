package web

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// reasonOf says in words why a request failed.
func (v *visit) reasonOf(f *apitypes.LastFailure) string {
	if f.Error != nil {
		return v.cause(*f.Error)
	}
	return v.t(fmt.Sprint("outcome.", f.Outcome))
}

// advice says what the receiver's owner can do about a failed request; empty: nobody knows,
// or there was none.
func (v *visit) advice(f *apitypes.LastFailure) string {
	if f == nil {
		return ""
	}
	if key := "advice." + adviceOf(f); v.text.has(key) {
		return v.t(key)
	}
	return ""
}

// adviceOf returns what the advice about a failed request depends on.
func adviceOf(f *apitypes.LastFailure) string {
	cause, _, _ := strings.Cut(fmt.Sprint(deref(f.Error)), ":")
	code := 0
	if f.StatusCode != nil {
		code = *f.StatusCode
	}
	switch {
	case cause != string(postrider.FailureStatus):
		family, _, _ := strings.Cut(cause, "_")
		return family
	case code == 401 || code == 403:
		return "refused_signature"
	case code == 404 || code == 405:
		return "no_path"
	case code == 410:
		return "gone"
	case code == 429:
		return "too_many"
	case code >= 500:
		return "receiver_fails"
	}
	return "receiver_refuses"
}

// overdueAfterMS is from which age on the oldest due delivery counts against the success.
const overdueAfterMS = 60_000

// share is how many deliveries were delivered, of those that have ended or are late.
type share struct {
	Rate  *float64 // nil: there are none
	Waits int64    // pending deliveries among them; 0: none is late
	More  bool     // there may be more
}

// success returns the share of delivered deliveries. What has ended says nothing of an
// endpoint that accepts nothing: its deliveries wait. So while the oldest one is overdue, what
// is pending counts as not delivered.
func success(delivered, dead int64, s share) share {
	if all := delivered + dead + s.Waits; all > 0 {
		s.Rate = new(float64(delivered) / float64(all))
	}
	return s
}

// successOf returns the success of an endpoint of a list.
func successOf(e *apitypes.EndpointState) share {
	late := share{}
	if known(e.OldestDueMS) >= overdueAfterMS {
		late = share{Waits: int64(e.Pending), More: e.PendingMore}
	}
	return success(e.Delivered, e.Dead, late)
}

// successIn returns the success of stats.
func successIn(s apitypes.Stats) share {
	late := share{}
	if known(s.Now.OldestDueMS) >= overdueAfterMS {
		late = share{Waits: int64(s.Now.Pending), More: s.Now.Pending >= countEnd}
	}
	return success(s.Total.Deliveries.Delivered, s.Total.Deliveries.Dead, late)
}

// percent returns a share in percent. Only all of it is 100 %.
func (v *visit) percent(share float64) string {
	shown := share * 100
	if share < 1 {
		shown = min(shown, 99.9)
	}
	return v.text.decimal(shown) + "\u00a0%"
}

// normal reports whether an endpoint of a list is sent to as it should be, so that its state
// needs no word.
func normal(e apitypes.Endpoint) bool {
	s := e.State
	return e.Status == postrider.EndpointEnabled && len(e.Warnings) == 0 &&
		(s == nil || s.FailingSince == nil && s.Health == postrider.Healthy && s.Circuit == postrider.CircuitClosed)
}
