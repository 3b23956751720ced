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
	lacked   atomic.Pointer[lack] // of a socket for the DNS, the last one; nil: there was none
}

// lack is what this machine lacked at a time.
type lack struct {
	at      time.Time
	failure postrider.Failure
}

// dial returns a new connection to the server, after the TLS handshake if it is
// to be secure. It adds the time that it takes to timing.
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

// connect tries the addresses of the server's host, one after the other, until
// one accepts. It does not race IPv6 against IPv4, as browsers do: that would cost
// a receiver that is slow to accept two connections for each attempt.
//
// If all fail, the error is that of the last address, with two exceptions. An
// address that this machine has no route to explains nothing if another address
// failed for a better reason. An address that was not tried, because this machine lacks
// something, explains more than the others. A forbidden address ends the round trip at once.
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
	// All addresses were checked; so many are tried. More would only shorten the
	// time that each of them gets.
	ips = ips[:min(len(ips), maxAddresses)]
	var failed *postrider.FailureError
	for i, ip := range ips {
		c, err := d.connectTo(ctx, net.JoinHostPort(ip.String(), port), len(ips)-i)
		if err == nil {
			c.server = to
			return c, nil
		}
		// That this machine has no IPv6 says less than what the other
		// addresses did.
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

// connectTo connects to one of the addresses that are left to be tried. Each
// gets an equal share of the remaining time, but a second at least: with 9 seconds
// and three addresses, a first address that drops packets leaves 6 seconds for the
// other two.
func (d *dialer) connectTo(ctx context.Context, address string, left int) (*conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), time.Second)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	if d.proxy != nil {
		// The proxy dials, so control is never called for this address.
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

// hasRoute reports whether this machine has an address from which the other one can be
// reached. A UDP socket that connects sends nothing, and does not need one of the ports of
// TCP, which may be used up.
func hasRoute(ctx context.Context, address string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// resolve returns the addresses of a host, all of them allowed. If one is
// forbidden the whole name is: the owner of a name must not reach a forbidden
// address by trying until it is the one that is dialed. The guard checks the
// address again when it is dialed; see [guard.control].
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

// addresses returns the addresses that the host stands for, unchecked. A host that
// is an address stands for itself.
func (d *dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if d.guard.allowsPrivate && !strings.Contains(host, ".") {
		// Where private targets are allowed, a single label is a name of
		// /etc/hosts or of the cluster. These are not found with a dot.
		return d.lookup(ctx, host)
	}
	// The dot at the end makes the name absolute: no search domain is added.
	return d.lookup(ctx, host+".")
}

// lookup asks the resolver, after it has waited for one of the slots. Without the
// slots, a DNS server that does not answer would cost a socket and a goroutine for
// each attempt under way.
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

// newResolver returns the pure Go resolver. The resolver of the C library also reads
// spellings like 0x7f.1, and its lookups cannot be canceled.
func (d *dialer) newResolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if f := serverFailure(err); f != "" {
			d.lacked.Store(&lack{time.Now(), f})
		}
		return c, err
	}}
}

// explain returns the error of something that began then and may have asked the DNS, as a
// failure of this machine if a lookup lacked a socket meanwhile: [net.DNSError] has the
// text of its cause and not its code.
func (d *dialer) explain(err error, begun time.Time) error {
	if l := d.lacked.Load(); err != nil && l != nil && !l.at.Before(begun) {
		return &postrider.FailureError{Failure: l.failure, Err: err}
	}
	return err
}

// LocalPrefixes returns the addresses of this machine's interfaces, for
// [Reach].Deny: an endpoint must not reach our own API from inside.
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
