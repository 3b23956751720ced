package egress

import (
	"bytes"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// maxRoutes bounds how many endpoints are remembered.
const maxRoutes = 16 << 10

// route is what the attempts for an endpoint have in common, as long as its
// URL, its schemes and its active secrets stay the same. It never changes.
type route struct {
	url     string
	schemes []postrider.Scheme
	secrets []postrider.Secret

	peer   peer
	start  []byte // of each head, up to the number in content-length
	signer *signature.Signer
	bare   bool // no scheme says webhook-id
	plain  bool // a scheme says the delivery
}

// fits reports whether the route is still the endpoint's.
func (r *route) fits(to *store.Routed, now time.Time) bool {
	if r.url != to.Endpoint.URL || !slices.Equal(r.schemes, to.Endpoint.Policy.Signatures) {
		return false
	}
	active := 0
	for i := range to.Secrets {
		s := &to.Secrets[i]
		if !s.ActiveAt(now) {
			continue
		}
		if active == len(r.secrets) || r.secrets[active].ID != s.ID || !bytes.Equal(r.secrets[active].Key, s.Key) {
			return false
		}
		active++
	}
	return active == len(r.secrets)
}

// routes remembers the routes of endpoints. Forgetting one costs microseconds.
type routes struct {
	guard *guard
	agent string

	mu    sync.RWMutex
	known map[postrider.EndpointID]*route
}

// find returns the route of an endpoint, or a [stageError].
func (rs *routes) find(to *store.Routed, now time.Time) (*route, error) {
	rs.mu.RLock()
	r := rs.known[to.Endpoint.ID]
	rs.mu.RUnlock()
	if r != nil && r.fits(to, now) {
		return r, nil
	}
	r, err := rs.make(to, now)
	if err != nil {
		return nil, err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.known) >= maxRoutes {
		for id := range rs.known { // any one
			delete(rs.known, id)
			break
		}
	}
	rs.known[to.Endpoint.ID] = r
	return r, nil
}

func (rs *routes) make(to *store.Routed, now time.Time) (*route, error) {
	u, err := rs.guard.parse(to.Endpoint.URL)
	if err != nil {
		return nil, &stageError{classForbidden, err}
	}
	r := &route{
		url: to.Endpoint.URL, schemes: to.Endpoint.Policy.Signatures,
		peer: peerOf(u), start: rs.start(u), bare: true,
	}
	var keys []signature.Key
	for _, s := range to.Secrets {
		if s.ActiveAt(now) {
			r.secrets = append(r.secrets, s)
			keys = append(keys, signature.Key{ID: s.ID.String(), Secret: s.Key})
		}
	}
	var schemes []signature.Scheme
	for _, s := range r.schemes {
		schemes = append(schemes, signature.Scheme(s))
		r.bare = r.bare && s == postrider.SchemePlain
		r.plain = r.plain || s == postrider.SchemePlain
	}
	if r.signer, err = signature.NewSigner(keys, schemes...); err != nil {
		return nil, &stageError{classUnsigned, err}
	}
	return r, nil
}

func peerOf(u *url.URL) peer {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return peer{secure: u.Scheme == "https", address: net.JoinHostPort(u.Hostname(), port)}
}

// start is the same in every head. The guard let no byte into the URL that
// would end a line or a word of it.
func (rs *routes) start(u *url.URL) []byte {
	return []byte("POST " + u.RequestURI() + " HTTP/1.1\r\n" +
		"Host: " + u.Host + "\r\n" +
		"User-Agent: " + rs.agent + "\r\n" +
		"Content-Type: application/json\r\n" +
		"Content-Length: ")
}
