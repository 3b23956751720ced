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

// dial is http.Transport's DialContext.
func (d *dialer) dial(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := boundDial(ctx)
	defer cancel()
	conn, err := d.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn}, nil
}

// dialTLS is http.Transport's DialTLSContext. It returns a connection that
// net/http takes for a plain one, so that the wire is above TLS and sees the
// exchange itself.
func (d *dialer) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := boundDial(ctx)
	defer cancel()
	conn, err := d.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	config := d.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(address)
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, &stageError{classTLS, errors.Join(err, conn.Close())}
	}
	return &wire{Conn: secure}, nil
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
