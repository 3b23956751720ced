package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// maxRoutes bounds how many endpoints are remembered.
const maxRoutes = 16 << 10

// Vault decrypts secrets and credentials.
type Vault interface {
	// DecryptSecret returns the text of the secret.
	DecryptSecret(ctx context.Context, s postrider.Secret) (string, error)
	// DecryptCredentials returns the credentials of the endpoint; the zero ones
	// where it has none.
	DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error)
}

// closed is a vault without keys.
type closed struct{}

var errNoVault = errors.New("there is no key to decrypt it with")

func (closed) DecryptSecret(context.Context, postrider.Secret) (string, error) { return "", errNoVault }

func (closed) DecryptCredentials(_ context.Context, e postrider.Endpoint) (postrider.Credentials, error) {
	if e.Credentials == nil {
		return postrider.Credentials{}, nil
	}
	return postrider.Credentials{}, errNoVault
}

// route is what the attempts for an endpoint have in common, as long as its
// revision and its active secrets stay the same. Nothing but what its grant
// holds ever changes.
type route struct {
	revision int64
	secrets  []postrider.SecretID // the active ones

	url    *url.URL
	peer   peer
	start  []byte            // of each head, up to the number in content-length
	own    []byte            // the lines of the endpoint's own headers and of its authentication
	shown  map[string]bool   // the endpoint's own headers, in lower case, that are not secret
	signer *signature.Signer // nil: on a hop to another host, and in a handshake
	grant  *grant            // where tokens come from; nil: none are sent
	bare   bool              // no scheme says webhook-id
	names  bool              // a scheme says the delivery and the type
	gzip   bool
	hops   int // redirects that are followed
}

// fits reports whether the route is still the endpoint's.
func (r *route) fits(to *store.EndpointSnapshot, now time.Time) bool {
	if r.revision != to.Endpoint.Revision {
		return false
	}
	active := 0
	for i := range to.Secrets {
		s := &to.Secrets[i]
		if !s.ActiveAt(now) {
			continue
		}
		if active == len(r.secrets) || r.secrets[active] != s.ID {
			return false
		}
		active++
	}
	return active == len(r.secrets)
}

// routes remembers the routes of endpoints. Forgetting one costs microseconds,
// and its token.
type routes struct {
	guard  *guard
	vault  Vault
	dialer *dialer
	agent  string

	mu    sync.RWMutex
	known map[postrider.EndpointID]*route
}

// find returns the route of an endpoint, or a [stageError].
func (rs *routes) find(ctx context.Context, to *store.EndpointSnapshot, now time.Time) (*route, error) {
	rs.mu.RLock()
	r := rs.known[to.Endpoint.ID]
	rs.mu.RUnlock()
	if r != nil && r.fits(to, now) {
		return r, nil
	}
	// The attempt's context has a deadline and does not end at it. Decrypting may
	// have to read the keyring from a database, and must end then.
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	r, err := rs.make(ctx, to, now)
	if err != nil {
		return nil, err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	was := rs.known[to.Endpoint.ID]
	switch {
	case was != nil && was.fits(to, now):
		return was, nil // another attempt made it meanwhile
	case was != nil && was.revision == r.revision:
		r.grant = was.grant // new secrets are no reason for a new token
	case was == nil && len(rs.known) >= maxRoutes:
		for id := range rs.known { // any one
			delete(rs.known, id)
			break
		}
	}
	rs.known[to.Endpoint.ID] = r
	return r, nil
}

// make decrypts the secrets and credentials and checks all of the endpoint again.
func (rs *routes) make(ctx context.Context, to *store.EndpointSnapshot, now time.Time) (*route, error) {
	return rs.makeWith(ctx, to, func(r *route) error { return rs.sign(ctx, r, to, now) })
}

// makeUnsigned is make for what no scheme signs: it needs no secret.
func (rs *routes) makeUnsigned(ctx context.Context, to *store.EndpointSnapshot) (*route, error) {
	return rs.makeWith(ctx, to, func(*route) error { return nil })
}

func (rs *routes) makeWith(ctx context.Context, to *store.EndpointSnapshot, sign func(*route) error) (*route, error) {
	endpoint := &to.Endpoint
	u, err := rs.guard.parse(endpoint.URL)
	if err != nil {
		return nil, &stageError{postrider.FailureForbidden, err}
	}
	credentials, err := rs.vault.DecryptCredentials(ctx, *endpoint)
	if err != nil {
		return nil, &stageError{postrider.FailureSecrets, fmt.Errorf("decrypt credentials: %w", err)}
	}
	r := &route{
		revision: endpoint.Revision, url: u, hops: endpoint.Policy.MaxRedirects,
		gzip: endpoint.Policy.Compression == postrider.CompressionGzip,
	}
	if r.peer, err = rs.peerOf(u, endpoint, credentials); err != nil {
		return nil, err
	}
	if err := sign(r); err != nil {
		return nil, err
	}
	if err := r.addOwn(endpoint, credentials); err != nil {
		return nil, err
	}
	if r.grant, err = rs.grantOf(endpoint, credentials); err != nil {
		return nil, err
	}
	r.start = rs.start(u, r.gzip)
	return r, nil
}

// sign gives the route its signer.
func (rs *routes) sign(ctx context.Context, r *route, to *store.EndpointSnapshot, now time.Time) error {
	var keys []signature.Key
	for _, s := range to.Secrets {
		if !s.ActiveAt(now) {
			continue
		}
		text, err := rs.vault.DecryptSecret(ctx, s)
		if err != nil {
			return &stageError{postrider.FailureSecrets, fmt.Errorf("decrypt secret %s: %w", s.ID, err)}
		}
		secret, err := secretOf(text)
		if err != nil {
			return &stageError{postrider.FailureSecrets, fmt.Errorf("read secret %s: %w", s.ID, err)}
		}
		r.secrets = append(r.secrets, s.ID)
		keys = append(keys, signature.Key{ID: s.ID.String(), Secret: secret})
	}
	var formats []signature.Format
	r.bare = true
	for _, s := range to.Endpoint.Policy.Signatures {
		if s.Header != "" {
			if err := postrider.CheckHeaderName("signature header", s.Header); err != nil {
				return &stageError{postrider.FailureHeaders, err}
			}
		}
		formats = append(formats, signature.Format{Scheme: signature.Scheme(s.Scheme), Header: s.Header, Prefix: s.Prefix})
		r.bare = r.bare && s.Scheme != postrider.SchemeStandard && s.Scheme != postrider.SchemeTimestamped
		r.names = r.names || s.Scheme.CustomHeaderAllowed()
	}
	var err error
	r.signer, err = signature.NewSigner(keys, formats...)
	switch {
	case len(keys) > 0 && errors.Is(err, signature.ErrNoKey):
		return &stageError{postrider.FailureNoKey, err}
	case err != nil:
		return &stageError{postrider.FailureUnsigned, err}
	}
	return nil
}

// secretOf reads a secret in its own form, or takes the text for the key that
// somebody brought along.
func secretOf(text string) (signature.Secret, error) {
	if secret, err := signature.ParseSecret(text); err == nil {
		return secret, nil
	}
	return signature.TextSecret(text)
}

// peerOf returns the peer behind the URL, as the endpoint's requests meet it.
func (rs *routes) peerOf(u *url.URL, e *postrider.Endpoint, c postrider.Credentials) (peer, error) {
	to := peer{secure: u.Scheme == "https", address: addressOf(u)}
	if !to.secure {
		return to, nil
	}
	var err error
	to.identity, err = rs.dialer.identities.find(e.Policy.TLS, c.TLSKey)
	return to, err
}

func addressOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// start is the same in every head.
func (rs *routes) start(u *url.URL, gzip bool) []byte {
	coding := ""
	if gzip {
		coding = "Content-Encoding: gzip\r\n"
	}
	return []byte("POST " + rs.target(u) + "Content-Type: application/json\r\n" + coding + "Content-Length: ")
}

// target is what follows the method. The guard let no byte into the URL that
// would end a line or a word of it.
func (rs *routes) target(u *url.URL) string {
	return u.RequestURI() + " HTTP/1.1\r\n" +
		"Host: " + u.Host + "\r\n" +
		"User-Agent: " + rs.agent + "\r\n"
}
