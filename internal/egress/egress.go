// Package egress is the one door to the outside: every connection that leaves
// this program for an address that a tenant chose is made here.
//
// [Egress.CheckURL] and [Egress.ParseURL] check a URL without the network.
// [Egress.ClientTLS] reads the certificate, the key and the authorities of an endpoint.
// [Egress.RoundTrip] sends one HTTP/1.1 request, whose bytes the caller built,
// and reads the response. The content of a request and the meaning of a response are the
// caller's: see package webhook.
//
// Whatever a URL, the DNS or a server does, this holds:
//
//   - No connection is made to an address that [Options] does not allow. The
//     address is checked when it is dialed, after the DNS has answered. If a
//     name has one forbidden address, the whole name is forbidden.
//   - A round trip ends with its context. Its deadline and its cancellation
//     cover the DNS, the handshakes, the request and the response. The caller's
//     goroutine does all of it; only a DNS lookup that was given up may end a
//     moment later.
//   - One round trip writes one request. It is tried again on a new connection
//     only if a pooled connection turned out to be closed before a byte of the
//     request was written.
//   - Redirects, proxies of the environment, cookies and decompression do not
//     exist here. Only HTTP/1.1 is spoken.
//   - A connection is used again only if its last response was read to an
//     unambiguous end and the server has sent nothing since.
//   - Servers that are shown different client certificates, or are verified by
//     different authorities, share neither connections nor TLS sessions.
//   - A response costs at most 16 KiB of header and 24 KiB of body in memory;
//     16 KiB of the body are returned.
//   - It leaves descriptors to the rest of the process, and half of the local ports to
//     other servers ([Connections]). A round trip that would need more, or that the machine
//     has no descriptor, port or memory for, fails with one of [postrider.ServerFailures].
//   - No error repeats a URL, a header or a body.
//
// One round trip goes like this:
//
//  1. The pool is asked for an idle connection to the server (pool.go). It is
//     used if nothing has arrived on it since its last response (conn.go,
//     tlslayer.go).
//  2. Otherwise the dialer resolves the name, checks all of its addresses with
//     the guard and connects to one of them, directly or through the proxy
//     (dial.go, guard.go, proxy.go), and makes the TLS handshake (clienttls.go).
//  3. The request is written at once and its memory is freed (roundtrip.go).
//  4. The header is read and checked (reader.go, header.go), then the body up to
//     its limit (body.go).
//  5. The connection goes back to the pool, or is closed if there is any doubt
//     about where the response ended.
package egress

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/postrider/postrider/internal/cache"
)

// Options configures an [Egress]. The zero value is the production default.
type Options struct {
	Reach
	Proxy    *url.URL       // from [ParseProxy]; makes every connection, to addresses that were checked here. nil: none
	Resolver Resolver       // default: the pure Go resolver
	RootCAs  *x509.CertPool // authorities that servers' certificates must come from; nil: the system's

	Descriptors uint64 // files that this process may open; see [Connections]. 0: connections are not bounded
	LocalPorts  int    // that connections of this machine may have; 0: connections to one server are not bounded
}

// Reach says which targets are allowed. The zero value is the production
// default: https to public addresses on ports 80, 443, 8080 and 8443.
type Reach struct {
	AllowHTTP bool           // allow http besides https
	Allow     []netip.Prefix // addresses allowed although they are not public; they win over Deny
	Deny      []netip.Prefix // addresses refused although they are public, such as our own
	Ports     []uint16       // allowed ports; nil: 80, 443, 8080, 8443
	AnyPort   bool           // allow every port; Ports means nothing then
}

// Resolver finds the addresses of a name. [net.Resolver] is one.
type Resolver interface {
	// LookupNetIP returns every address of the host.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// The limits of a response and of what is kept between round trips.
const (
	maxHeader    = 16 << 10 // bytes of a response's header, interim responses included
	maxBody      = 16 << 10 // bytes of a response's body that are returned
	maxDrain     = 8 << 10  // bytes read past maxBody so that the connection can be used again
	maxIdle      = 1024     // idle connections in the pool
	maxIdleHost  = 256      // idle connections to one server: the default limit of attempts to one host
	idleTimeout  = 30 * time.Second
	tlsSessions  = 1024
	maxAddresses = 8 // addresses of one name that are tried in one round trip
)

func (o Options) withDefaults() Options {
	if o.Ports == nil {
		o.Ports = []uint16{80, 443, 8080, 8443}
	}
	return o
}

// Egress makes round trips. It may be used from any goroutine.
type Egress struct {
	guard  *guard
	dialer *dialer
	pool   *pool
	room   *room

	// clientTLSs has the configurations of endpoints with their own TLS, by the
	// digest of their certificate, key and authorities. Making one costs a millisecond.
	clientTLSs *cache.Cache[[sha256.Size]byte, *ClientTLS]
}

// New returns an Egress that allows what opts allow.
func New(opts Options) *Egress {
	opts = opts.withDefaults()
	g := newGuard(opts.Reach)
	d := &dialer{
		guard:   g,
		lookups: make(chan struct{}, lookups(opts.Descriptors)),
		net:     net.Dialer{ControlContext: g.control},
		tls:     newTLSConfig(opts.RootCAs),
	}
	own := d.newResolver()
	d.proxy = newProxy(opts.Proxy, opts.RootCAs, own)
	if d.resolver = opts.Resolver; d.resolver == nil {
		d.resolver = own
	}
	return &Egress{
		guard: g, dialer: d, pool: newPool(),
		room:       newRoom(Connections(opts.Descriptors), opts.LocalPorts/2),
		clientTLSs: cache.New[[sha256.Size]byte, *ClientTLS](maxClientTLS),
	}
}

// Close closes the idle connections and keeps no more of them. Round trips
// under way go on.
func (e *Egress) Close() { e.pool.close() }

// CheckURL returns the canonical form of an endpoint's URL, or a
// [postrider.InvalidError] for the field "url" that says what the URL must be
// and repeats nothing of it. A name that passes may still resolve to a
// forbidden address: that is checked at every round trip.
func (e *Egress) CheckURL(raw string) (string, error) {
	u, err := e.guard.parse(raw)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// ParseURL is [Egress.CheckURL] with the URL as its result.
func (e *Egress) ParseURL(raw string) (*url.URL, error) { return e.guard.parse(raw) }

// Server says where a connection leads and how this side presents itself. Round
// trips to equal servers share connections, so it has everything that makes a
// difference to the other side.
type Server struct {
	Secure  bool       // TLS
	Address string     // host:port; the host is canonical
	TLS     *ClientTLS // from [Egress.ClientTLS]; nil: the common configuration
}

// ServerOf returns the server that a URL from [Egress.ParseURL] leads to.
func ServerOf(u *url.URL, own *ClientTLS) Server {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return Server{Secure: u.Scheme == "https", Address: net.JoinHostPort(u.Hostname(), port), TLS: own}
}
