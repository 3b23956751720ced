package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// maxLookups is how many names are looked up at a time; further lookups wait.
const maxLookups = 1024

// dialer makes connections to checked addresses.
type dialer struct {
	guard    *guard
	resolver Resolver
	lookups  chan struct{} // has one element for each lookup under way
	net      net.Dialer    // asks the guard before it connects
	proxy    *proxy        // nil: none
	tls      *tlsConfig
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
// failed for a better reason. A forbidden address ends the round trip at once.
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
		if f := connectError(err); failed == nil || f.Failure != postrider.FailureNoRoute {
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
		return d.proxy.connect(ctx, address)
	}
	socket, err := d.net.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newConn(socket)
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
	return d.resolver.LookupNetIP(ctx, "ip", name)
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
