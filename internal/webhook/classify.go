package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// classifyResponse records the outcome of a response. Only the status decides, not the body: a 2xx
// is accepted even if its body is cut or has not ended at the deadline, because the receiver has
// said that it has the event.
func classifyResponse(a *postrider.Attempt, r *egress.Response, now time.Time) {
	a.StatusCode, a.ResponseBody = r.Status, r.Body
	if postrider.HonoursRetryAfter(r.Status) {
		a.RetryAfter = ParseRetryAfter(r.Field("Retry-After"), r.Field("Date"), now)
	}
	a.Outcome = postrider.Classify(r.Status, a.RetryAfter)
	switch {
	case a.Outcome == postrider.OutcomeAccepted:
	case r.Status < 200:
		a.Error = string(postrider.FailureBadResponse)
	case r.Status >= 300 && r.Status <= 399:
		a.Error = string(postrider.FailureRedirect) + shownLocation(r.Field("Location"))
	default:
		a.Error = statusError(r.Status)
	}
}

// askOf returns what the receiver asks for with a response; empty: nothing. A redirect asks for
// nothing: it may be an answer of a server in front of the receiver.
func askOf(r *egress.Response) postrider.ReceiverAsk {
	if r.Status < 400 {
		return ""
	}
	switch ask := postrider.ReceiverAsk(strings.ToLower(r.Field("Webhook-Delivery"))); ask {
	case postrider.AskAbort, postrider.AskDisable:
		return ask
	}
	return ""
}

// classifyError records the outcome of an attempt without a final response. If a redirect was not
// followed, the response with the redirect is recorded.
func classifyError(ctx context.Context, a *postrider.Attempt, err error, sent bool) {
	if redirect, ok := errors.AsType[*redirectError](err); ok && !egress.Ended(ctx) {
		classifyResponse(a, &redirect.response, a.StartedAt)
		a.Error, a.Excused = redirect.text(), egress.FailureOf(redirect.err, false).IsServers()
		return
	}
	outcome, f := classifyFailure(ctx, err, sent)
	a.Outcome, a.Error = outcome, string(f)
	if f == postrider.FailureAuth {
		a.Error += tokenDetail(err)
	}
}

// classifyFailure returns the outcome and the failure for an error of an exchange. early means that
// the request could not be sent. sent means that an endpoint may have got a request.
//
// The order of the cases matters. The reason why the attempt ended (refused by this side, past its
// deadline, the server stops) comes before the error that this reason caused. For example, when a
// deadline passes during a read, the read fails like a cut connection. The attempt must then be
// timed_out and not broken, because the adaptive timeout counts timeouts.
func classifyFailure(ctx context.Context, err error, sent bool) (postrider.Outcome, postrider.Failure) {
	e, early := errors.AsType[*postrider.FailureError](err)
	is := func(f postrider.Failure) bool { return early && e.Failure == f }
	canceled := errors.Is(ctx.Err(), context.Canceled)
	f := egress.FailureOf(err, sent)
	switch {
	// This side decided it before anything was sent. Neither the deadline nor the stop of the
	// server explains the failure better.
	case f.IsServers() && !sent:
		return postrider.OutcomePostponed, f
	case is(postrider.FailureForbidden) && !sent:
		return postrider.OutcomeBlocked, postrider.FailureForbidden
	case is(postrider.FailureAuth) && !sent && !canceled:
		return postrider.OutcomeUnreachable, postrider.FailureAuth
	// The deadline has passed. If the stage that took the time is known, the failure names it:
	// dns_timeout, connect_timeout, tls_timeout. A slow proxy is no stage of the endpoint.
	case egress.Expired(ctx) && early && egress.TimedOut(e.Err) && e.Failure != postrider.FailureProxy:
		return postrider.OutcomeTimedOut, e.Failure
	case egress.Expired(ctx):
		return postrider.OutcomeTimedOut, postrider.FailureTimeout
	// The server stops and has cut the attempt. If a request was sent, the receiver may have the
	// event.
	case canceled && sent:
		return postrider.OutcomeBroken, postrider.FailureCanceled
	case canceled:
		return postrider.OutcomeUnreachable, postrider.FailureCanceled
	// Only the connection explains the failure.
	case early || !sent:
		return postrider.OutcomeUnreachable, f
	}
	return postrider.OutcomeBroken, f
}

// statusError returns the error of an attempt whose response is neither 2xx nor 3xx: the status,
// with its registered name. It does not repeat the response's reason phrase, because the receiver
// chose that.
func statusError(status int) string {
	text := string(postrider.FailureStatus) + ": " + strconv.Itoa(status)
	if name := http.StatusText(status); name != "" {
		text += " " + name
	}
	return text
}

// maxShown is the length of the longest location that is shown in full.
const maxShown = 1024

// shownLocation returns where a redirect points, as the end of an error: ": to" and the location
// without user, query and fragment, which may contain credentials. If the path has unusual
// characters, only the host is shown. If the host is unusual, nothing is shown.
func shownLocation(location string) string {
	u, err := url.Parse(location)
	if err != nil || len(location) > egress.MaxURL || u.Opaque != "" || (u.Scheme != "" && u.Host == "") {
		return ""
	}
	shown := withoutQuery(&url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)})
	if strings.ContainsFunc(shown, notIn(hostBytes)) {
		return ""
	}
	if whole := shown + u.EscapedPath(); len(whole) <= maxShown && !strings.ContainsFunc(whole, notIn(hostBytes+pathBytes)) {
		shown = whole
	}
	if shown == "" {
		return ""
	}
	return ": to " + shown
}

const (
	hostBytes = "abcdefghijklmnopqrstuvwxyz0123456789-._:/[]"
	pathBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZ~%@!$()*+,;="
)

// notIn returns a function that reports whether a rune is not in allowed.
func notIn(allowed string) func(rune) bool {
	return func(r rune) bool { return !strings.ContainsRune(allowed, r) }
}

// ParseRetryAfter returns how long a Retry-After header asks to wait (RFC 9110, 10.2.3). It returns
// at most [postrider.MaxRetryAfter], and 0 if the header cannot be read or is in the past. A date
// is compared with the Date of the response, so the receiver's clock need not agree with ours. If
// Date is missing, now replaces it.
func ParseRetryAfter(value, date string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if len(value) <= 19 && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil || seconds > uint64(postrider.MaxRetryAfter/time.Second) {
			return postrider.MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := time.Parse(http.TimeFormat, value)
	if err != nil {
		return 0
	}
	if sent, err := time.Parse(http.TimeFormat, date); err == nil {
		now = sent
	}
	return min(max(until.Sub(now), 0), postrider.MaxRetryAfter)
}
