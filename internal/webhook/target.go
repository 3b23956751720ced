package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/cache"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// maxTargets is how many targets are cached. For an endpoint that is not cached, the next attempt
// takes microseconds longer and may have to fetch a token.
const maxTargets = 16 << 10

// target has everything that all requests to an endpoint have in common: the checked URL, the
// decrypted secrets in the signer, the fixed part of the header. It is valid as long as the
// endpoint's revision and its active secrets stay the same. It never changes, except inside tokens.
//
// Making a target decrypts secrets, parses certificates and checks headers. An attempt with a
// cached target does none of this.
type target struct {
	revision int64
	secrets  []postrider.SecretID // the active secrets, in the order of the snapshot

	url    *url.URL
	server egress.Server

	// prefix is the beginning of every header, up to the value of Content-Type. ownLines are the
	// lines of the endpoint's own headers and of its authentication, without an OAuth2 token.
	prefix, ownLines []byte

	// shown has the names of the fields that the endpoint or a scheme adds, in lower case. If the
	// value is true, the field may be recorded with an attempt.
	shown map[string]bool

	signer *signature.Signer // nil: requests are not signed, for example after a redirect to another host
	tokens *tokenSource      // nil: no OAuth2 token is sent

	writesID     bool // no scheme of the signer writes Webhook-Id, so build writes it
	namesType    bool // a scheme of the signer writes the delivery or the event type
	gzip         bool // bodies are compressed
	maxRedirects int  // redirects that an attempt follows; 0: none

	// sampled reports whether the spans of an event are recorded; nil: requests have no
	// traceparent.
	sampled func(postrider.EventID) bool
}

// current reports whether the target still matches the endpoint's snapshot at the time now. A
// change of the endpoint gives it another revision. When a secret expires or is rotated, the
// revision stays the same, so the active secrets are compared one by one.
func (t *target) current(to *store.EndpointSnapshot, now time.Time) bool {
	if t.revision != to.Endpoint.Revision {
		return false
	}
	active := 0
	for i := range to.Secrets {
		secret := &to.Secrets[i]
		if !secret.ActiveAt(now) {
			continue
		}
		if active == len(t.secrets) || t.secrets[active] != secret.ID {
			return false
		}
		active++
	}
	return active == len(t.secrets)
}

// targets makes the targets of endpoints and caches them.
type targets struct {
	egress *egress.Egress
	vault  Vault
	opts   Options
	cache  *cache.Cache[postrider.EndpointID, *target]
}

// newTargets returns an empty cache of targets. The options have their defaults.
func newTargets(door *egress.Egress, vault Vault, opts Options) *targets {
	return &targets{
		egress: door, vault: vault, opts: opts, cache: cache.New[postrider.EndpointID, *target](maxTargets),
	}
}

// cached returns the cached target of an endpoint; nil: a new one must be made.
func (ts *targets) cached(to *store.EndpointSnapshot, now time.Time) *target {
	if t, ok := ts.cache.Get(to.Endpoint.ID); ok && t.current(to, now) {
		return t
	}
	return nil
}

// find returns the target of an endpoint, or a [postrider.FailureError].
func (ts *targets) find(ctx context.Context, to *store.EndpointSnapshot, now time.Time) (*target, error) {
	if t := ts.cached(to, now); t != nil {
		return t, nil
	}
	made, err := ts.make(ctx, to, now)
	if err != nil {
		return nil, err
	}
	// Decrypting and parsing were done without holding the cache's lock, so another attempt may
	// have made the same target in the meantime.
	return ts.cache.Update(to.Endpoint.ID, func(stored *target, ok bool) *target {
		switch {
		case ok && stored.current(to, now):
			return stored // another attempt has made it in the meantime
		case ok && stored.revision == made.revision:
			made.tokens = stored.tokens // a new secret does not require a new token
		}
		return made
	}), nil
}

// make decrypts the endpoint's secrets and checks everything again, because the operator's settings
// may now forbid what was valid when the endpoint was stored.
func (ts *targets) make(ctx context.Context, to *store.EndpointSnapshot, now time.Time) (*target, error) {
	return ts.makeWith(ctx, to, func(t *target) error { return ts.sign(ctx, t, to, now) })
}

// makeUnsigned makes a target for requests that are not signed. It needs no secret.
func (ts *targets) makeUnsigned(ctx context.Context, to *store.EndpointSnapshot) (*target, error) {
	return ts.makeWith(ctx, to, func(*target) error { return nil })
}

// makeWith makes a target. It calls sign, which adds the signer, after the server is set and before
// any header name is reserved, so that the signer's names come first.
func (ts *targets) makeWith(ctx context.Context, to *store.EndpointSnapshot, sign func(*target) error) (*target, error) {
	endpoint := &to.Endpoint
	u, err := ts.egress.ParseURL(endpoint.URL)
	if err != nil {
		return nil, failure(postrider.FailureForbidden, err)
	}
	credentials, err := ts.decryptCredentials(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	t := ts.begin(endpoint, u)
	if t.server, err = ts.serverOf(u, endpoint, credentials); err != nil {
		return nil, err
	}
	if err := sign(t); err != nil {
		return nil, err
	}
	if err := t.addOwnLines(endpoint, credentials); err != nil {
		return nil, err
	}
	if t.tokens, err = ts.tokensOf(endpoint, credentials); err != nil {
		return nil, err
	}
	return t, nil
}

// makeUnsent makes a target for requests that are built but never sent. The URL is not checked. The
// target has no server and no tokens.
func (ts *targets) makeUnsent(ctx context.Context, to *store.EndpointSnapshot, at time.Time, u *url.URL) (*target, error) {
	credentials, err := ts.decryptCredentials(ctx, &to.Endpoint)
	if err != nil {
		return nil, err
	}
	t := ts.begin(&to.Endpoint, u)
	if err := ts.sign(ctx, t, to, at); err != nil {
		return nil, err
	}
	return t, t.addOwnLines(&to.Endpoint, credentials)
}

// begin returns a target with the fields that need neither secrets nor the network.
func (ts *targets) begin(e *postrider.Endpoint, u *url.URL) *target {
	gzip := e.Policy.Compression == postrider.CompressionGzip
	t := &target{revision: e.Revision, url: u, prefix: ts.prefixOf(u, gzip), gzip: gzip, maxRedirects: e.Policy.MaxRedirects}
	if e.Policy.SendTraceParent {
		t.sampled = ts.opts.Sampled
	}
	return t
}

func (ts *targets) decryptCredentials(ctx context.Context, e *postrider.Endpoint) (postrider.Credentials, error) {
	credentials, err := ts.vault.DecryptCredentials(ctx, *e)
	if err != nil {
		return credentials, failure(postrider.FailureSecrets, fmt.Errorf("decrypt credentials: %w", err))
	}
	return credentials, nil
}

// failure returns an error that an attempt records as the failure f.
func failure(f postrider.Failure, err error) error {
	return &postrider.FailureError{Failure: f, Err: err}
}

// sign sets the signer of the target.
func (ts *targets) sign(ctx context.Context, t *target, to *store.EndpointSnapshot, now time.Time) error {
	var keys []signature.Key
	for _, s := range to.Secrets {
		if !s.ActiveAt(now) {
			continue
		}
		text, err := ts.vault.DecryptSecret(ctx, s)
		if err != nil {
			return failure(postrider.FailureSecrets, fmt.Errorf("decrypt secret %s: %w", s.ID, err))
		}
		secret, err := parseSecret(text)
		if err != nil {
			return failure(postrider.FailureSecrets, fmt.Errorf("read secret %s: %w", s.ID, err))
		}
		t.secrets = append(t.secrets, s.ID)
		keys = append(keys, signature.Key{ID: s.ID.String(), Secret: secret})
	}
	// Every request has the event's id in Webhook-Id. The schemes standard and timestamped write
	// that header themselves.
	var formats []signature.Format
	t.writesID = true
	for _, s := range to.Endpoint.Policy.Signatures {
		if s.Header != "" {
			if err := postrider.CheckHeaderName("signature header", s.Header); err != nil {
				return failure(postrider.FailureHeaders, err)
			}
		}
		formats = append(formats, formatOf(s))
		t.writesID = t.writesID && s.Scheme != postrider.SchemeStandard && s.Scheme != postrider.SchemeTimestamped
		t.namesType = t.namesType || s.Scheme.CustomHeaderAllowed()
	}
	var err error
	t.signer, err = signature.NewSigner(keys, formats...)
	switch {
	case len(keys) > 0 && errors.Is(err, signature.ErrNoKey):
		return failure(postrider.FailureNoKey, err)
	case err != nil:
		return failure(postrider.FailureUnsigned, err)
	}
	return nil
}

// formatOf returns the format of a signature of the policy.
func formatOf(s postrider.Signature) signature.Format {
	return signature.Format{Scheme: signature.Scheme(s.Scheme), Header: s.Header, Prefix: s.Prefix}
}

// parseSecret reads a secret in Postrider's form (whsec_, whsk_). Any other text is a key that the
// endpoint's owner supplied.
func parseSecret(text string) (signature.Secret, error) {
	if secret, err := signature.ParseSecret(text); err == nil {
		return secret, nil
	}
	return signature.TextSecret(text)
}

// serverOf returns the server of the URL, with the endpoint's own TLS.
func (ts *targets) serverOf(u *url.URL, e *postrider.Endpoint, c postrider.Credentials) (egress.Server, error) {
	if u.Scheme != "https" {
		return egress.ServerOf(u, nil), nil
	}
	own, err := ts.egress.ClientTLS(e.Policy.TLS, c.TLSKey)
	return egress.ServerOf(u, own), err
}

// prefixOf returns the beginning of every header of a request to the URL.
func (ts *targets) prefixOf(u *url.URL, gzip bool) []byte {
	coding := ""
	if gzip {
		coding = "Content-Encoding: gzip\r\n"
	}
	return []byte("POST " + ts.requestLine(u) + coding + "Content-Type: ")
}

// requestLine returns the part after the method: the rest of the request line, Host and User-Agent.
// The guard allows no byte in a URL that would end a line or a word of it.
func (ts *targets) requestLine(u *url.URL) string {
	return u.RequestURI() + " HTTP/1.1\r\n" +
		"Host: " + u.Host + "\r\n" +
		"User-Agent: " + ts.opts.UserAgent + "\r\n"
}
