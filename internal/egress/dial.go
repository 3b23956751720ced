package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// dialer makes connections to vetted addresses.
type dialer struct {
	guard    *guard
	resolver Resolver
	net      net.Dialer
	tls      *tls.Config
}

// stageError says at which stage before sending an attempt failed.
type stageError struct {
	class string
	err   error
}

// Error says the class and its cause.
func (e *stageError) Error() string { return e.class + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *stageError) Unwrap() error { return e.err }

// dial returns a new connection to the peer. It takes the deadline of the
// context seriously also where the context itself would not end with it.
func (d *dialer) dial(ctx context.Context, to peer) (*conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	tcp, err := d.connect(ctx, to.address)
	if err != nil {
		return nil, err
	}
	c, err := newConn(to, tcp)
	if err != nil {
		return nil, &stageError{classConnect, errors.Join(err, tcp.Close())}
	}
	if to.secure {
		if err := d.secure(ctx, c); err != nil {
			return nil, &stageError{classTLS, errors.Join(err, tcp.Close())}
		}
	}
	return c, nil
}

// secure puts TLS on the connection.
func (d *dialer) secure(ctx context.Context, c *conn) error {
	config := d.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(c.peer.address)
	c.tls = &records{Conn: c.tcp}
	secure := tls.Client(c.tls, config)
	c.Conn = secure
	return secure.HandshakeContext(ctx)
}

// connect tries the addresses of the host in turn until one answers.
func (d *dialer) connect(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &stageError{classConnect, err}
	}
	ips, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	ips = ips[:min(len(ips), maxAddresses)]
	for i, ip := range ips {
		conn, err := d.connectTo(ctx, net.JoinHostPort(ip.String(), port), len(ips)-i)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, errForbidden):
			return nil, &stageError{classForbidden, err}
		case i == len(ips)-1 || ctx.Err() != nil:
			return nil, &stageError{classConnect, err}
		}
	}
	return nil, &stageError{classDNS, errors.New("name has no address")}
}

// connectTo leaves each of the addresses that are still to be tried its share
// of the time.
func (d *dialer) connectTo(ctx context.Context, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), time.Second)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	return d.net.DialContext(ctx, "tcp", address)
}

// resolve returns the addresses of a host, all of them allowed. One that is
// not makes the whole name forbidden: who controls a name must not get to
// choose by luck.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := d.lookup(ctx, host)
	if err != nil {
		return nil, &stageError{classDNS, err}
	}
	for i, ip := range ips {
		if !d.guard.allows(ip) {
			return nil, &stageError{classForbidden, fmt.Errorf("%w: %s", errForbidden, ip)}
		}
		ips[i] = ip.Unmap()
	}
	return ips, nil
}

func (d *dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	if d.guard.widened && !strings.Contains(host, ".") {
		// Where private targets are meant, a single label is a name of
		// /etc/hosts or of the cluster, which are not found with a dot.
		return d.resolver.LookupNetIP(ctx, "ip", host)
	}
	// The dot keeps search domains out of it.
	return d.resolver.LookupNetIP(ctx, "ip", host+".")
}

// LocalPrefixes returns the addresses of this machine's interfaces, for
// [Options].Deny: a URL must not reach our own API from behind.
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
