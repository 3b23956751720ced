package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/postrider/postrider"
)

// dialer makes connections to checked addresses.
type dialer struct {
	guard    *guard
	resolver Resolver
	lookups  chan struct{} // has one element for each lookup under way
	net      net.Dialer    // asks the guard before it connects
	proxy    *proxy        // nil: none
	tls      *tlsConfig
	lacked   atomic.Pointer[lack] // set when a DNS lookup got no socket, the last time; nil: never
}

// lack records that this machine lacked a resource, and when.
type lack struct {
	at      time.Time
	failure postrider.Failure
}

// dial returns a new connection to the server. If the server is secure, the TLS handshake is done.
// dial adds the time of its steps to timing.
func (d *dialer) dial(ctx context.Context, to Server, timing *postrider.Timing) (*conn, error) {
	c, err := d.connect(ctx, to, timing)
	if err != nil {
		return nil, err
	}
	if to.Secure {
		begun := time.Now()
		defer func() { timing.TLS += time.Since(begun) }()
		if err := c.secure(ctx, d.tls.of(to)); err != nil {
			c.abort()
			return nil, handshakeError(err)
		}
	}
	return c, nil
}

// connect tries the addresses of the server's host, one after the other, until one accepts. It does
// not race IPv6 against IPv4 as browsers do. For a receiver that is slow to accept, that would cost
// two connections for each attempt.
//
// If all addresses fail, connect returns the error of the last one, with two exceptions. "No route"
// never replaces an error that another address gave, because it explains less. A lack of this
// machine (descriptors, ports, memory) explains more, so only another such lack replaces it.
//
// A forbidden address ends the round trip at once.
func (d *dialer) connect(ctx context.Context, to Server, timing *postrider.Timing) (*conn, error) {
	host, port, err := net.SplitHostPort(to.Address)
	if err != nil {
		return nil, connectError(err)
	}
	begun := time.Now()
	ips, err := d.resolve(ctx, host)
	resolved := time.Now()
	if _, isAddress := netip.ParseAddr(host); isAddress != nil {
		timing.DNS += resolved.Sub(begun)
	}
	if err != nil {
		return nil, err
	}
	defer func() { timing.Connect += time.Since(resolved) }()
	// resolve has checked all addresses, but only maxAddresses of them are tried. Each further
	// address would shorten the time of the others.
	ips = ips[:min(len(ips), maxAddresses)]
	var failed *postrider.FailureError
	for i, ip := range ips {
		c, err := d.connectTo(ctx, net.JoinHostPort(ip.String(), port), len(ips)-i)
		if err == nil {
			c.server = to
			return c, nil
		}
		// "No route", such as on a machine without IPv6, says less than the errors of the other
		// addresses.
		f := connectError(err)
		if failed == nil || f.Failure.IsServers() || f.Failure != postrider.FailureNoRoute && !failed.Failure.IsServers() {
			failed = f
		}
		if failed.Failure == postrider.FailureForbidden || ctx.Err() != nil {
			break
		}
	}
	if failed == nil {
		return nil, &postrider.FailureError{Failure: postrider.FailureDNSNotFound, Err: errors.New("name has no address")}
	}
	return nil, failed
}

// connectTo connects to one address; left counts the addresses that are not tried yet, this one
// included. Each address gets an equal share of the remaining time, and at least a second. With 9
// seconds and three addresses, a first address that drops packets leaves 6 seconds for the other
// two.
func (d *dialer) connectTo(ctx context.Context, address string, left int) (*conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), time.Second)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	if d.proxy != nil {
		// The proxy dials, so guard.control is never called for this address.
		if err := d.guard.check(address); err != nil {
			return nil, err
		}
		begun := time.Now()
		c, err := d.proxy.connect(ctx, address)
		return c, d.explain(err, begun)
	}
	socket, err := d.net.DialContext(ctx, "tcp", address)
	if isErrno(err, syscall.EADDRNOTAVAIL) && !hasRoute(ctx, address) {
		return nil, &postrider.FailureError{Failure: postrider.FailureNoRoute, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return newConn(socket)
}

// hasRoute reports whether this machine has a route to the address. It connects a UDP socket, which
// sends nothing and needs no TCP port. The TCP ports may be used up.
func hasRoute(ctx context.Context, address string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// resolve returns the addresses of a host. If one address is forbidden, the whole name is
// forbidden. Otherwise the owner of a name could retry until the forbidden address is the one that
// is dialed. The guard checks the address again when it is dialed; see [guard.control].
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := d.addresses(ctx, host)
	if err != nil {
		return nil, lookupError(err)
	}
	for i, ip := range ips {
		if !d.guard.allows(ip) {
			return nil, &postrider.FailureError{Failure: postrider.FailureForbidden, Err: fmt.Errorf("%w: %s", errForbidden, ip)}
		}
		ips[i] = ip.Unmap()
	}
	return ips, nil
}

// addresses returns the addresses of a host, unchecked. A host that is an IP address is its own
// only address.
func (d *dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if d.guard.allowsPrivate && !strings.Contains(host, ".") {
		// Where private targets are allowed, a single label is a name of /etc/hosts or of the
		// cluster. The resolver does not find such a name with a dot at its end.
		return d.lookup(ctx, host)
	}
	// The dot at the end makes the name absolute: no search domain is added.
	return d.lookup(ctx, host+".")
}

// lookup asks the resolver, after it has waited for a slot. Without the slots, a DNS server that
// does not answer would cost a socket and a goroutine for each attempt under way.
func (d *dialer) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	select {
	case d.lookups <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-d.lookups }()
	begun := time.Now()
	ips, err := d.resolver.LookupNetIP(ctx, "ip", name)
	return ips, d.explain(err, begun)
}

// newResolver returns the pure Go resolver. The resolver of the C library also accepts spellings
// such as 0x7f.1, and its lookups cannot be cancelled. If the resolver gets no socket, it sets
// d.lacked.
func (d *dialer) newResolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if f := serverFailure(err); f != "" {
			d.lacked.Store(&lack{time.Now(), f})
		}
		return c, err
	}}
}

// explain replaces err by the failure of this machine if a DNS lookup got no socket since begun.
// begun is the time at which the work that returned err began. explain is needed because a
// [net.DNSError] has only the text of its cause and not the error code.
func (d *dialer) explain(err error, begun time.Time) error {
	if l := d.lacked.Load(); err != nil && l != nil && !l.at.Before(begun) {
		return &postrider.FailureError{Failure: l.failure, Err: err}
	}
	return err
}

// LocalPrefixes returns the addresses of this machine's interfaces, for [Reach].Deny. It keeps
// endpoints from reaching Postrider's own API from inside.
func LocalPrefixes() ([]netip.Prefix, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list interface addresses: %w", err)
	}
	var prefixes []netip.Prefix
	for _, a := range addrs {
		network, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(network.IP); ok {
			ip = ip.Unmap()
			prefixes = append(prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	return prefixes, nil
}

// LocalPorts returns how many ports connections of this machine may have; 0: that is not
// known, since the system is not Linux.
func LocalPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return 0
	}
	return max(0, last-first+1)
}
