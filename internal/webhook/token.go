package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// These times limit the use of a token.
const (
	tokenLife = time.Hour // for a token whose server does not say when it expires
	// A token is replaced this long before it expires, because an attempt may last as long.
	tokenMargin = 30 * time.Second
	tokenJitter = 5 * time.Minute // and up to this much earlier, so that endpoints do not fetch at the same time
)

// refusals is how often a token may be dropped because the endpoint refused it: ten times at once,
// and then once a second. So a token that is revoked again and again is replaced in time, but an
// endpoint that refuses every token does not cause a fetch for each attempt.
var refusals = postrider.Rate{Attempts: 60, Per: time.Minute, Burst: 10}

// tokenSource gets the tokens of an endpoint by OAuth2's client credentials grant (RFC 6749, 4.4)
// and keeps the valid one. Only one request for a token is in flight at a time, even if many
// attempts need one. Each of them waits, but no longer than its own deadline.
//
// No separate goroutine fetches tokens. The first attempt that needs one makes the request, within
// its own deadline, and the others wait for that request:
//
//	attempt 1   join: makes the request ──► fetch ──────► finish: wakes the others
//	attempt 2        join: waits ───────────────────────► uses the token
//	attempt 3             join: waits ── deadline: fails with a timeout
//
// If attempt 1 ends before the token arrives, because its deadline passes or it is cancelled, its
// request fails with errGivenUp. That is no failure of the token server. So each waiting attempt
// joins again, and one of them makes the next request.
//
// The token server is not part of the endpoint, so the connection to it does not use the endpoint's
// own TLS settings.
type tokenSource struct {
	endpoint    postrider.EndpointID
	egress      *egress.Egress
	server      egress.Server
	requestLine string // rest of the request line, with Host and User-Agent
	form        url.Values
	id, secret  string

	mu      sync.Mutex
	valid   string           // the valid token; "": none
	until   time.Time        // when valid is replaced
	dropped postrider.Bucket // token bucket of the rate refusals
	pending *tokenRequest    // request that is under way; nil: none

	// secretInBody is how the server accepted the secret last: false in the Authorization header,
	// true in the body. Only a pending request uses it.
	secretInBody bool
}

// tokenRequest is one fetch of a token.
type tokenRequest struct {
	done  chan struct{} // closed when the other fields are set
	token string
	until time.Time
	err   error
}

// errGivenUp says that a fetch ended because the attempt that made it ended.
var errGivenUp = errors.New("the attempt that asked for the token ended")

// tokensOf returns the source of the endpoint's tokens; nil: the endpoint needs none.
func (ts *targets) tokensOf(e *postrider.Endpoint, c postrider.Credentials) (*tokenSource, error) {
	auth := e.Policy.Auth
	if auth.Kind != postrider.AuthOAuth2 {
		return nil, nil //nolint:nilnil // a nil tokenSource gives no token
	}
	u, err := ts.egress.ParseURL(auth.TokenURL)
	if err != nil {
		return nil, failure(postrider.FailureAuth, fmt.Errorf("token URL: %w", err))
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(auth.Scopes) > 0 {
		form.Set("scope", strings.Join(auth.Scopes, " "))
	}
	if auth.Audience != "" {
		form.Set("audience", auth.Audience)
	}
	return &tokenSource{
		endpoint: e.ID, egress: ts.egress, server: egress.ServerOf(u, nil), requestLine: ts.requestLine(u),
		form: form, id: auth.ClientID, secret: c.Auth,
	}, nil
}

// token returns a token, which it fetches if necessary, or a [postrider.FailureError]. cached is
// true if the caller did not wait for a fetch. A nil source returns "". look is called before a
// request to the token server, like [egress.Exchange.Look].
func (s *tokenSource) token(ctx context.Context, look func() bool) (token string, cached bool, err error) {
	if s == nil {
		return "", false, nil
	}
	for {
		token, request, own := s.join(time.Now())
		if request == nil {
			return token, true, nil
		}
		if own {
			s.fetch(ctx, request, look)
		}
		select {
		case <-request.done:
		case <-ctx.Done():
			return "", false, failure(postrider.FailureAuth, ctx.Err())
		}
		switch {
		case request.err == nil:
			return request.token, false, nil
		case own && errors.Is(request.err, egress.ErrWithdrawn):
			return "", false, request.err
		case egress.FailureOf(request.err, false).IsServers():
			return "", false, request.err // this server's own failure, not the token server's
		case !errors.Is(request.err, errGivenUp) || egress.Ended(ctx):
			return "", false, failure(postrider.FailureAuth, request.err)
		}
		// The attempt that fetched the token ended before the token came, so join again.
	}
}

// join returns the valid token, or the request that fetches one. If own is true, the caller must
// carry the request out.
func (s *tokenSource) join(now time.Time) (token string, request *tokenRequest, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.valid != "" && now.Before(s.until) {
		return s.valid, nil, false
	}
	if s.pending == nil {
		s.pending = &tokenRequest{done: make(chan struct{}), err: errGivenUp}
		return "", s.pending, true
	}
	return "", s.pending, false
}

// fetch carries the request out and wakes the attempts that wait for it.
func (s *tokenSource) fetch(ctx context.Context, request *tokenRequest, look func() bool) {
	defer s.finish(request)
	token, until, err := s.retrieve(ctx, look)
	if err != nil && (egress.Ended(ctx) || errors.Is(err, egress.ErrWithdrawn)) {
		err = errors.Join(errGivenUp, err)
	}
	request.token, request.until, request.err = token, until, err
}

// finish ends the pending request and stores its token. It is deferred, so that no attempt waits
// for ever if retrieve panics. Then the error is errGivenUp, which join has set.
func (s *tokenSource) finish(request *tokenRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = nil
	if request.err == nil {
		s.valid, s.until = request.token, request.until
	}
	close(request.done)
}

// reject is called when the endpoint has refused a cached token. It drops the token, as often as
// refusals allows. It reports whether another token can be had: the token was dropped, or was
// already replaced.
func (s *tokenSource) reject(token string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case token != s.valid:
		return true
	case s.dropped.ReadyAt(refusals).After(now):
		return false
	}
	s.dropped.Take(refusals, now)
	s.valid = ""
	return true
}

// refusesToken reports whether a response says that the token is not valid (RFC 6750, 3.1):
// a 401, or another 4xx with this error.
func refusesToken(r *egress.Response) bool {
	return r.Status == http.StatusUnauthorized ||
		r.Status >= 400 && r.Status <= 499 && strings.Contains(r.Field("WWW-Authenticate"), `error="invalid_token"`)
}

// retrieve gets a token. Servers accept the secret in the Authorization header or in the body (RFC
// 6749, 2.3.1), and nothing says in advance which. It first tries the way that worked last. If the
// server refuses that, it tries the other way. The errors contain nothing of the response, because
// a server may repeat the secret in it.
func (s *tokenSource) retrieve(ctx context.Context, look func() bool) (string, time.Time, error) {
	now := time.Now() // before the request, because the life of a token begins when it is made
	t, err := s.request(ctx, look, s.secretInBody)
	if _, refused := errors.AsType[*refusalError](err); refused {
		if t, err = s.request(ctx, look, !s.secretInBody); err == nil {
			s.secretInBody = !s.secretInBody
		}
	}
	switch {
	case err != nil:
		return "", time.Time{}, err
	case t.Type != "" && !strings.EqualFold(t.Type, "bearer"):
		return "", time.Time{}, errors.New("token server gives tokens of another type than bearer")
	}
	if err := postrider.CheckHeaderValue("token", t.Token); err != nil {
		return "", time.Time{}, err
	}
	return t.Token, s.keptUntil(now, t.life()), nil
}

// keptUntil returns the time at which a token is replaced. An attempt may use the token until its
// own deadline. So the token is replaced tokenMargin before it expires, and a random time earlier.
// A token that is valid for an hour is used for 54.5 to 59.5 minutes, one that is valid for 10
// seconds for 5 seconds.
func (s *tokenSource) keptUntil(now time.Time, life time.Duration) time.Time {
	// The jitter depends only on the endpoint and the expiry, so it needs no source of randomness
	// and is always the same.
	expiry := now.Add(life)
	hash := fnv.New32a()
	hash.Write(s.endpoint[:])
	hash.Write(strconv.AppendInt(nil, expiry.Unix(), 10))
	jitter := min(tokenJitter, life/10) * time.Duration(hash.Sum32()%1000) / 1000
	return expiry.Add(-min(tokenMargin+jitter, life/2))
}

// request asks the token server once.
func (s *tokenSource) request(ctx context.Context, look func() bool, secretInBody bool) (tokenResponse, error) {
	form, authorization := s.form, ""
	if secretInBody {
		form = maps.Clone(form)
		form.Set("client_id", s.id)
		form.Set("client_secret", s.secret)
	} else {
		pair := url.QueryEscape(s.id) + ":" + url.QueryEscape(s.secret)
		authorization = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) + "\r\n"
	}
	body := form.Encode()
	x := egress.Exchange{Look: look}
	defer x.Reset()
	x.Request.Set(append(x.Request.Buffer(), "POST "+s.requestLine+
		"Content-Type: application/x-www-form-urlencoded\r\n"+authorization+
		"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body...), 0)
	response, err := s.egress.RoundTrip(ctx, s.server, &x)
	if errors.Is(err, egress.ErrWithdrawn) {
		return tokenResponse{}, err
	}
	if e, early := errors.AsType[*postrider.FailureError](err); early {
		return tokenResponse{}, fmt.Errorf("reach token server: %w", e)
	}
	if err != nil {
		return tokenResponse{}, errors.New("token server does not respond")
	}
	return readToken(&response)
}

// tokenResponse is the response of a token server (RFC 6749, 5.1 and 5.2).
type tokenResponse struct {
	Token   string      `json:"access_token"`
	Type    string      `json:"token_type"`
	Expires json.Number `json:"expires_in"` // seconds; some servers send them as a string
	Error   string      `json:"error"`
}

// life returns how long the token is valid.
func (t *tokenResponse) life() time.Duration {
	seconds, err := t.Expires.Int64()
	if err != nil || seconds <= 0 {
		return tokenLife
	}
	return time.Duration(min(seconds, math.MaxInt32)) * time.Second
}

// readToken reads JSON, or the form encoding that some old servers send.
func readToken(r *egress.Response) (t tokenResponse, err error) {
	kind, _, _ := mime.ParseMediaType(r.Field("Content-Type"))
	if kind == "application/x-www-form-urlencoded" || kind == "text/plain" {
		var form url.Values
		form, err = url.ParseQuery(string(r.Body))
		t = tokenResponse{form.Get("access_token"), form.Get("token_type"), json.Number(form.Get("expires_in")), form.Get("error")}
	} else {
		err = json.Unmarshal(r.Body, &t)
	}
	// Some servers refuse with status 200 and an error in the body.
	switch {
	case r.Status < 200 || r.Status > 299 || err == nil && t.Error != "":
		refusal := &refusalError{status: r.Status}
		if slices.Contains(tokenErrors, t.Error) {
			refusal.code = t.Error
		}
		return tokenResponse{}, refusal
	case err != nil || t.Token == "":
		return tokenResponse{}, errors.New("token server answers without a token")
	}
	return t, nil
}

// tokenErrors are the codes of RFC 6749, 5.2.
var tokenErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
}

// refusalError says that the token server refused a token.
type refusalError struct {
	status int
	code   string // one of tokenErrors; "": the response has none of them
}

// Error returns the status and the error code of the response.
func (e *refusalError) Error() string {
	text := "token server answers " + strconv.Itoa(e.status)
	if e.code != "" {
		text += ", " + e.code
	}
	return text
}

// tokenDetail returns a detail for the error of an attempt that got no token: the failure on the
// way to the token server, or its response.
func tokenDetail(err error) string {
	auth, ok := errors.AsType[*postrider.FailureError](err)
	if !ok {
		return ""
	}
	if egress.TimedOut(auth.Err) || errors.Is(auth.Err, errGivenUp) {
		return ": " + string(postrider.FailureTimeout)
	}
	if onTheWay, ok := errors.AsType[*postrider.FailureError](auth.Err); ok {
		return ": " + string(onTheWay.Failure)
	}
	if refusal, ok := errors.AsType[*refusalError](auth.Err); ok {
		return ": " + refusal.Error()
	}
	return ""
}
