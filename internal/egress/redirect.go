package egress

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/postrider/postrider"
)

// hopError says why a redirect that was to be followed was not. Nothing was
// sent to where it led.
type hopError struct {
	answer answer // that redirected
	err    error
}

// Error says the cause.
func (e *hopError) Error() string { return "follow redirect: " + e.err.Error() }

// Unwrap returns the cause.
func (e *hopError) Unwrap() error { return e.err }

// text says it to the endpoint's owner: why, and where the redirect points.
func (e *hopError) text() string {
	failure := connectError(e.err).failure
	return string(postrider.FailureRedirect) + ": " + string(failure) + target(e.answer.location)
}

var errDowngrade = &stageError{postrider.FailureDowngrade, errors.New("the redirect leads from https to http")}

// repeats reports whether the answer asks for the same request elsewhere: 307
// and 308 do. 303 asks for a GET, and after 301 and 302 clients may send one
// (RFC 9110, 15.4): without the body, the event would be lost.
func (h answerHead) repeats() bool {
	return h.status == http.StatusTemporaryRedirect || h.status == http.StatusPermanentRedirect
}

// follow sends the draft on to where the answer points, and returns what is
// answered there. Without a request that left, the exchange is as it was.
func (e *Egress) follow(ctx context.Context, x *exchange, d *draft, ans answer) (answer, error) {
	next, err := e.routes.next(x.route, string(ans.location))
	if err != nil {
		return answer{}, &hopError{ans, err}
	}
	from, head := x.route, x.head
	if x.request, x.head, err = d.build(next, nil); err == nil {
		x.route = next
		var there answer
		if there, err = e.ask(ctx, x); x.written {
			x.led = true
			return there, err
		}
	}
	x.request.release()
	x.route, x.head = from, head
	return answer{}, &hopError{ans, err}
}

// next returns the route to where an answer on the route points. To another
// host, or another port of the same, go the event's bytes, what they are, and
// which: nothing that shows who sent them. What was left behind does not come
// back when that host points to the first again.
func (rs *routes) next(r *route, location string) (*route, error) {
	u, err := rs.resolve(r.url, location)
	if err != nil {
		return nil, err
	}
	next := *r
	next.url, next.start = u, rs.start(u, r.gzip)
	if next.peer.secure == (u.Scheme == "https") && next.peer.address == addressOf(u) {
		return &next, nil
	}
	next.peer, err = rs.peerOf(u, new(postrider.Endpoint), postrider.Credentials{})
	next.signer, next.grant, next.own, next.bare = nil, nil, nil, true
	return &next, err
}

// resolve judges where a location points as it would an endpoint's URL.
func (rs *routes) resolve(from *url.URL, location string) (*url.URL, error) {
	strange := func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }
	if location == "" || len(location) > maxURL || strings.ContainsFunc(location, strange) {
		return nil, &stageError{postrider.FailureForbidden, errors.New("the location is none")}
	}
	location, _, _ = strings.Cut(location, "#") // which is never sent
	u, err := from.Parse(location)
	if err != nil {
		return nil, &stageError{postrider.FailureForbidden, errors.New("the location is no URL")}
	}
	if from.Scheme == "https" && u.Scheme == "http" {
		return nil, errDowngrade
	}
	if u, err = rs.guard.parse(u.String()); err != nil {
		return nil, &stageError{postrider.FailureForbidden, err}
	}
	return u, nil
}

// finalURL returns the URL without its query, which may hold a credential.
func finalURL(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return bare.String()
}
