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

// maxLookups is how many names are looked up at once. Who comes later waits.
const maxLookups = 1024

// dialer makes connections to vetted addresses.
type dialer struct {
	guard      *guard
	resolver   Resolver
	lookups    chan struct{} // holds one for each that is under way
	net        net.Dialer    // asks the guard
	proxy      *proxy        // nil: none
	identities *identities
}

// dial returns a new connection to the peer. It takes the deadline of the
// context seriously also where the context itself would not end with it.
func (d *dialer) dial(ctx context.Context, to peer) (*conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	c, err := d.connect(ctx, to)
	if err != nil {
		return nil, err
	}
	if to.secure {
		if err := c.secure(ctx, d.identities.config(to)); err != nil {
			c.abort()
			return nil, handshakeError(err)
		}
	}
	return c, nil
}

// connect tries the addresses of the peer's host in turn until one answers.
func (d *dialer) connect(ctx context.Context, to peer) (*conn, error) {
	host, port, err := net.SplitHostPort(to.address)
	if err != nil {
		return nil, connectError(err)
	}
	ips, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	ips = ips[:min(len(ips), maxAddresses)]
	var failed *stageError
	for i, ip := range ips {
		tcp, err := d.connectTo(ctx, net.JoinHostPort(ip.String(), port), len(ips)-i)
		if err == nil {
			tcp.peer = to
			return tcp, nil
		}
		// That this machine has no IPv6 says less than what the others did.
		if s := connectError(err); failed == nil || s.failure != postrider.FailureNoRoute {
			failed = s
		}
		if failed.failure == postrider.FailureForbidden || ctx.Err() != nil {
			break
		}
	}
	if failed == nil {
		return nil, &stageError{postrider.FailureDNSNotFound, errors.New("name has no address")}
	}
	return nil, failed
}

// connectTo leaves each of the addresses that are still to be tried its share
// of the time.
func (d *dialer) connectTo(ctx context.Context, address string, left int) (*conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), time.Second)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	if d.proxy != nil {
		if err := d.guard.judge(address); err != nil {
			return nil, err
		}
		return d.proxy.connect(ctx, address)
	}
	tcp, err := d.net.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newConn(tcp)
}

// resolve returns the addresses of a host, all of them allowed. One that is
// not makes the whole name forbidden: who controls a name must not get to
// choose by luck.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := d.addresses(ctx, host)
	if err != nil {
		return nil, lookupError(err)
	}
	for i, ip := range ips {
		if !d.guard.allows(ip) {
			return nil, &stageError{postrider.FailureForbidden, fmt.Errorf("%w: %s", errForbidden, ip)}
		}
		ips[i] = ip.Unmap()
	}
	return ips, nil
}

func (d *dialer) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if d.guard.widened && !strings.Contains(host, ".") {
		// Where private targets are meant, a single label is a name of
		// /etc/hosts or of the cluster, which are not found with a dot.
		return d.lookup(ctx, host)
	}
	// The dot keeps search domains out of it.
	return d.lookup(ctx, host+".")
}

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
// [Reach].Deny: a URL must not reach our own API from behind.
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
