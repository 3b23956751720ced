// Package egress makes every connection from this program to an address that a tenant chose.
//
// [Egress.CheckURL] and [Egress.ParseURL] check a URL without the network. [Egress.ClientTLS] reads
// the certificate, the key and the authorities of an endpoint. [Egress.RoundTrip] sends one
// HTTP/1.1 request, whose bytes the caller built, and reads the response. The caller decides the
// content of a request and the meaning of a response: see package webhook.
//
// The package promises, for every URL, DNS answer and server:
//
//   - No connection is made to an address that [Options] does not allow. The
//     address is checked when it is dialed, after the DNS has answered. If a
//     name has one forbidden address, the whole name is forbidden.
//   - A round trip ends with its context. The deadline and the cancellation
//     cover the DNS, the handshakes, the request and the response. The caller's
//     goroutine does all the work; only a DNS lookup that was given up may end a
//     moment later.
//   - One round trip writes one request. It is tried again on a new connection
//     only if a pooled connection turned out to be closed before a byte of the
//     request was written.
//   - The package follows no redirects, uses no proxy of the environment, keeps
//     no cookies and decompresses nothing. It speaks only HTTP/1.1.
//   - A connection is used again only if its last response was read to an
//     unambiguous end and the server has sent nothing since.
//   - Endpoints with different client certificates or different authorities
//     share neither connections nor TLS sessions.
//   - A response costs at most 16 KiB of header and 24 KiB of body in memory;
//     16 KiB of the body are returned.
//   - Some file descriptors stay free for the rest of the process, and half of
//     the local ports stay free for other servers ([Connections]). A round trip
//     fails with one of [postrider.ServerFailures] if it would need more, or if
//     the machine lacks a descriptor, a port or memory for it.
//   - No error repeats a URL, a header or a body.
//
// One round trip has these steps:
//
//  1. The pool returns an idle connection to the server, if it has one
//     (pool.go). The connection is used if nothing has arrived on it since its
//     last response (conn.go, tlslayer.go).
//  2. Otherwise the dialer resolves the name, checks all of its addresses with
//     the guard and connects to one of them, directly or through the proxy
//     (dial.go, guard.go, proxy.go). Then it makes the TLS handshake
//     (clienttls.go).
//  3. The request is written at once and its memory is freed (roundtrip.go).
//  4. The header is read and checked (reader.go, header.go), then the body up to
//     its limit (body.go).
//  5. The connection goes back to the pool. It is closed instead if there is any
//     doubt about where the response ended.
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
	// Proxy comes from [ParseProxy]. It makes every connection, to addresses that were checked here.
	// Nil: no proxy.
	Proxy    *url.URL
	Resolver Resolver       // default: the pure Go resolver
	RootCAs  *x509.CertPool // authorities that servers' certificates must come from; nil: the system's

	Descriptors uint64 // file limit of this process; see [Connections]. 0: connections are not bounded
	LocalPorts  int    // local ports of this machine; 0: connections to one server are not bounded
}

// Reach says which targets are allowed. The zero value is the production
// default: https to public addresses on ports 80, 443, 8080 and 8443.
type Reach struct {
	AllowHTTP bool           // allow http besides https
	Allow     []netip.Prefix // addresses allowed although they are not public; Allow wins over Deny
	// Deny has addresses that are refused although they are public, such as this machine's own.
	Deny    []netip.Prefix
	Ports   []uint16 // allowed ports; nil: 80, 443, 8080, 8443
	AnyPort bool     // allow every port and ignore Ports
}

// Resolver looks up the addresses of a name. [net.Resolver] implements it.
type Resolver interface {
	// LookupNetIP returns every address of the host.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// The limits of a response and of the pool of connections.
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

// Close closes the idle connections. From then on the pool keeps no connection. Round trips under
// way continue.
func (e *Egress) Close() { e.pool.close() }

// CheckURL returns the canonical form of an endpoint's URL. A URL that is not valid gives a
// [postrider.InvalidError] for the field "url", which says what the URL must be and repeats no part
// of the URL. A name that passes may still resolve to a forbidden address; each round trip checks
// that.
func (e *Egress) CheckURL(raw string) (string, error) {
	u, err := e.guard.parse(raw)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// ParseURL does the same as [Egress.CheckURL], but returns the parsed URL.
func (e *Egress) ParseURL(raw string) (*url.URL, error) { return e.guard.parse(raw) }

// Server is the address of a connection and the way this program authenticates to it. Round trips
// to equal servers share connections, so Server has every field that the other side could tell
// apart.
type Server struct {
	Secure  bool       // TLS
	Address string     // host:port; the host is canonical
	TLS     *ClientTLS // from [Egress.ClientTLS]; nil: the common configuration
}

// ServerOf returns the server of a URL from [Egress.ParseURL].
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
