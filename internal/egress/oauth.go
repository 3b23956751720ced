package egress

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/postrider/postrider"
)

// How long tokens are kept and what their server may answer.
const (
	tokenAge      = time.Hour        // of one that does not say when it expires
	tokenMargin   = 30 * time.Second // before it expires: as long as an attempt may last
	tokenJitter   = 5 * time.Minute  // more of a margin, so that endpoints do not fetch together
	refusalErrors = time.Minute      // between two tokens that are given up since they were refused
	maxTokenBody  = 64 << 10
)

// grant gets the tokens of an endpoint by OAuth2's client credentials (RFC
// 6749, 4.4) and keeps the one that is valid. One fetch at a time is under
// way; whoever needs its token waits for it no longer than its own deadline.
// The token server is no part of the endpoint: it meets what the operator
// trusts and nothing of the endpoint's own TLS.
type grant struct {
	endpoint postrider.EndpointID
	config   *clientcredentials.Config
	dialer   *dialer

	mu      sync.Mutex
	token   string
	until   time.Time // when another is fetched
	refused time.Time // when a token was last given up for being refused
	current *fetch    // under way; nil: none
}

// fetch is one request for a token.
type fetch struct {
	done  chan struct{} // closed when the rest is there
	token string
	until time.Time
	err   error
}

// errGivenUp says that a fetch ended with the attempt that made it.
var errGivenUp = errors.New("the attempt that asked for the token ended")

// grantOf returns where the endpoint's tokens come from; nil: it needs none.
func (rs *routes) grantOf(e *postrider.Endpoint, c postrider.Credentials) (*grant, error) {
	auth := e.Policy.Auth
	if auth.Kind != postrider.AuthOAuth2 {
		return nil, nil //nolint:nilnil // a nil grant gives no token
	}
	u, err := rs.guard.parse(auth.TokenURL)
	if err != nil {
		return nil, &stageError{postrider.FailureAuth, fmt.Errorf("token URL: %w", err)}
	}
	config := &clientcredentials.Config{
		ClientID: auth.ClientID, ClientSecret: c.Auth, TokenURL: u.String(), Scopes: auth.Scopes,
	}
	if auth.Audience != "" {
		config.EndpointParams = url.Values{"audience": {auth.Audience}}
	}
	return &grant{endpoint: e.ID, config: config, dialer: rs.dialer}, nil
}

// bearer returns a token, fetched if need be, or a [stageError]. The nil grant
// returns none.
func (g *grant) bearer(ctx context.Context) (string, error) {
	if g == nil {
		return "", nil
	}
	token, f, ours := g.join(time.Now())
	if f == nil {
		return token, nil
	}
	if deadline, ok := ctx.Deadline(); ok { // which the context itself need not end with
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	for f != nil {
		if ours {
			g.run(ctx, f)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return "", &stageError{postrider.FailureAuth, ctx.Err()}
		}
		switch {
		case f.err == nil:
			return f.token, nil
		case !errors.Is(f.err, errGivenUp) || ended(ctx):
			return "", &stageError{postrider.FailureAuth, f.err}
		}
		token, f, ours = g.join(time.Now()) // somebody else's time was up
	}
	return token, nil
}

// join returns the token that is valid, or the fetch that will have one, which
// the caller has to run if it is ours.
func (g *grant) join(now time.Time) (token string, f *fetch, ours bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != "" && now.Before(g.until) {
		return g.token, nil, false
	}
	if g.current == nil {
		g.current = &fetch{done: make(chan struct{}), err: errGivenUp}
		return "", g.current, true
	}
	return "", g.current, false
}

// run fetches a token and lets everyone have it.
func (g *grant) run(ctx context.Context, f *fetch) {
	defer g.finish(f)
	token, until, err := g.retrieve(ctx)
	if err != nil && ended(ctx) {
		err = errors.Join(errGivenUp, err)
	}
	f.token, f.until, f.err = token, until, err
}

func (g *grant) finish(f *fetch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current = nil
	if f.err == nil {
		g.token, g.until = f.token, f.until
	}
	close(f.done)
}

// reject hears that the endpoint took the token for none: the next attempt
// fetches another, unless that is what was just tried.
func (g *grant) reject(token string, now time.Time) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if token == g.token && now.Sub(g.refused) >= refusalErrors {
		g.token, g.refused = "", now
	}
}

// retrieve asks the token server. Its errors hold nothing that the server
// said: that may be the secret.
func (g *grant) retrieve(ctx context.Context) (string, time.Time, error) {
	door := g.open(ctx)
	defer door.transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     door,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	now := time.Now()
	token, err := g.config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return "", time.Time{}, door.fault(err)
	}
	if token.Type() != "Bearer" {
		return "", time.Time{}, errors.New("token server gives tokens of another type than bearer")
	}
	if err := postrider.CheckHeaderValue("token", token.AccessToken); err != nil {
		return "", time.Time{}, err
	}
	return token.AccessToken, g.keptUntil(now, token.Expiry), nil
}

// keptUntil returns when a token of that expiry is to be replaced. One that
// lives for seconds is kept for half of them.
func (g *grant) keptUntil(now, expiry time.Time) time.Time {
	if expiry.IsZero() {
		expiry = now.Add(tokenAge)
	}
	life := expiry.Sub(now)
	hash := fnv.New32a()
	hash.Write(g.endpoint[:])
	hash.Write(strconv.AppendInt(nil, expiry.Unix(), 10))
	jitter := min(tokenJitter, life/10) * time.Duration(hash.Sum32()%1000) / 1000
	return expiry.Add(-min(tokenMargin+jitter, life/2))
}

// tokenDoor lets requests for a token out: guarded like every other, bounded,
// and none after one had no answer.
type tokenDoor struct {
	transport *http.Transport
	failed    error
}

// open returns a door that closes with the context.
func (g *grant) open(ctx context.Context) *tokenDoor {
	dial := func(address string, secure bool) (net.Conn, error) {
		// Not the transport's context, which goes on when nobody waits.
		c, err := g.dialer.dial(ctx, peer{secure: secure, address: address})
		if err != nil {
			return nil, err
		}
		deadline, _ := ctx.Deadline()
		c.SetDeadline(deadline)
		return abruptly{c}, nil
	}
	return &tokenDoor{transport: &http.Transport{
		DialContext:            func(_ context.Context, _, address string) (net.Conn, error) { return dial(address, false) },
		DialTLSContext:         func(_ context.Context, _, address string) (net.Conn, error) { return dial(address, true) },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
	}}
}

// abruptly closes without a word, see [conn.abort].
type abruptly struct{ *conn }

// Close closes the connection.
func (c abruptly) Close() error {
	c.abort()
	return nil
}

// RoundTrip makes one request.
func (d *tokenDoor) RoundTrip(req *http.Request) (*http.Response, error) {
	if d.failed != nil {
		return nil, d.failed
	}
	resp, err := d.transport.RoundTrip(req)
	if err != nil {
		d.failed = err
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxTokenBody)
	return resp, nil
}

// tokenErrors are the codes of RFC 6749, 5.2.
var tokenErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
}

// fault says why there is no token.
func (d *tokenDoor) fault(err error) error {
	var stage *stageError
	var refusal *oauth2.RetrieveError
	switch {
	case errors.As(d.failed, &stage):
		return fmt.Errorf("reach token server: %w", stage)
	case d.failed != nil:
		return errors.New("token server does not answer")
	case !errors.As(err, &refusal):
		return errors.New("token server answers without a token")
	case slices.Contains(tokenErrors, refusal.ErrorCode):
		return &refusalError{refusal.Response.StatusCode, refusal.ErrorCode}
	}
	return &refusalError{status: refusal.Response.StatusCode}
}

// refusalError is an answer without a token.
type refusalError struct {
	status int
	code   string // one of tokenErrors; empty: the answer has none of them
}

// Error says what was answered.
func (e *refusalError) Error() string {
	text := "token server answers " + strconv.Itoa(e.status)
	if e.code != "" {
		text += ", " + e.code
	}
	return text
}

// tokenDetail says in the error of an attempt why there was no token: what
// failed on the way to its server, or what that answered.
func tokenDetail(err error) string {
	auth, ok := errors.AsType[*stageError](err)
	if !ok {
		return ""
	}
	if late(auth.err) || errors.Is(auth.err, errGivenUp) {
		return ": " + string(postrider.FailureTimeout)
	}
	if way, ok := errors.AsType[*stageError](auth.err); ok {
		return ": " + string(way.failure)
	}
	if refusal, ok := errors.AsType[*refusalError](auth.err); ok {
		return ": " + refusal.Error()
	}
	return ""
}
