package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// redirectError says why a redirect was not followed although the endpoint's policy allows it.
// Nothing was sent to its location.
type redirectError struct {
	response egress.Response // the response with the redirect
	err      error
}

// Error returns the cause.
func (e *redirectError) Error() string { return "follow redirect: " + e.err.Error() }

// Unwrap returns the cause.
func (e *redirectError) Unwrap() error { return e.err }

// text returns the error for the endpoint's owner: the reason, and where the redirect points.
func (e *redirectError) text() string {
	f := egress.FailureOf(e.err, false)
	return string(postrider.FailureRedirect) + ": " + string(f) + shownLocation(e.response.Field("Location"))
}

// errDowngrade refuses a redirect from https to http, because others could read the body and its
// signature on the way.
var errDowngrade = errors.New("the redirect leads from https to http")

// keepsRequest reports whether a redirect status asks for the same request at another URL. 307 and
// 308 do. 303 asks for a GET, and after 301 and 302 clients may send one (RFC 9110, 15.4). A GET
// has no body, so the event would be lost.
func keepsRequest(status int) bool {
	return status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
}

// follow sends the draft to the location of the response and returns the response from there. If no
// byte of the second request left, it restores the exchange.
func (s *Sender) follow(ctx context.Context, x *exchange, d *draft, response egress.Response) (egress.Response, error) {
	next, err := s.targets.redirect(x.target, response.Field("Location"))
	if err != nil {
		return egress.Response{}, &redirectError{response, err}
	}
	header, err := d.build(next, &x.Request, nil)
	if err != nil {
		return egress.Response{}, &redirectError{response, err}
	}
	from := x.target
	x.target = next
	last, err := s.roundTrip(ctx, x)
	if !x.Written {
		// The result of the attempt is the redirect, so the target and header of that request are
		// recorded.
		x.target = from
		x.Request.Free()
		return egress.Response{}, &redirectError{response, err}
	}
	x.header, x.redirected = header, true
	return last, err
}

// redirect returns the target to which a response of t points. Another host, or another port of the
// same host, gets the event's bytes, its type and its id, but no signature, credential, trace or
// header of the endpoint. Otherwise a receiver with an open redirect would give the endpoint's
// secrets to any host. If the other host redirects back to the first one, these parts are still
// left out, because the other host chose that redirect.
func (ts *targets) redirect(t *target, location string) (*target, error) {
	u, err := ts.resolve(t.url, location)
	if err != nil {
		return nil, err
	}
	// The copy keeps the endpoint's TLS, signer and credentials until it is known that the server
	// is another one.
	next := *t
	next.url, next.prefix = u, ts.prefixOf(u, t.gzip)
	there := egress.ServerOf(u, t.server.TLS)
	if there == t.server {
		return &next, nil
	}
	next.server = egress.ServerOf(u, nil)
	next.signer, next.tokens, next.ownLines, next.writesID, next.sampled = nil, nil, nil, true, nil
	return &next, nil
}

// resolve returns the URL of a location, after the same checks as for an endpoint's URL.
func (ts *targets) resolve(from *url.URL, location string) (*url.URL, error) {
	invalid := func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }
	if location == "" || len(location) > egress.MaxURL || strings.ContainsFunc(location, invalid) {
		return nil, failure(postrider.FailureForbidden, errors.New("the redirect has no valid location"))
	}
	location, _, _ = strings.Cut(location, "#") // a fragment is never sent
	u, err := from.Parse(location)
	if err != nil {
		return nil, failure(postrider.FailureForbidden, errors.New("the location is not a URL"))
	}
	if from.Scheme == "https" && u.Scheme == "http" {
		return nil, failure(postrider.FailureDowngrade, errDowngrade)
	}
	if u, err = ts.egress.ParseURL(u.String()); err != nil {
		return nil, failure(postrider.FailureForbidden, err)
	}
	return u, nil
}

// withoutQuery returns the URL without its query, which may hold a credential.
func withoutQuery(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return bare.String()
}
