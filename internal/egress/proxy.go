package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	socks "golang.org/x/net/proxy"

	"github.com/postrider/postrider"
)

// proxy is the operator's proxy. It gets only IP addresses: this program resolves each name and
// checks its addresses. The address of the proxy itself is not checked, because the operator chose
// it.
type proxy struct {
	address string
	tls     *tls.Config // for the connection to the proxy itself; nil: no TLS
	header  string      // fields of CONNECT and the end of its header; empty: a SOCKS5 proxy
	auth    *socks.Auth // for SOCKS; nil: none
	net     net.Dialer
}

// errProxyURL is the reason for every URL that is refused. The caller adds the name of the setting.
var errProxyURL = errors.New("must be http, https or socks5://host:port, with user:password@ if it wants them")

// ParseProxy reads the URL of a proxy for [Options].Proxy. No error repeats any part of the text,
// which may contain a password.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errProxyURL
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
		return nil, errProxyURL
	}
	password, _ := u.User.Password()
	switch name := u.User.Username(); {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5":
		return nil, errProxyURL
	case u.User != nil && (name == "" || len(name) > 255 || len(password) > 255):
		return nil, errors.New("must have a user and a password of at most 255 bytes each, or none")
	}
	return u, nil
}

// newProxy returns the proxy of a URL from ParseProxy; nil for nil. resolver looks up the name of
// the proxy.
func newProxy(u *url.URL, roots *x509.CertPool, resolver *net.Resolver) *proxy {
	if u == nil {
		return nil
	}
	p := &proxy{address: u.Host, net: net.Dialer{Resolver: resolver}}
	password, _ := u.User.Password()
	if u.Scheme == "socks5" {
		if u.User != nil {
			p.auth = &socks.Auth{User: u.User.Username(), Password: password}
		}
		return p
	}
	p.header = "\r\n"
	if u.User != nil {
		p.header = "Proxy-Authorization: Basic " +
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)) + "\r\n\r\n"
	}
	if u.Scheme == "https" {
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: u.Hostname()}
	}
	return p
}

// connect returns a connection through the proxy to an address (IP and port) that the guard allows.
// Every error is a failure of the proxy or of this machine.
func (p *proxy) connect(ctx context.Context, address string) (*conn, error) {
	c, err := p.dial(ctx, address)
	if err != nil {
		return nil, &postrider.FailureError{Failure: cmp.Or(serverFailure(err), postrider.FailureProxy), Err: err}
	}
	return c, nil
}

// dial connects to the proxy and lets the proxy connect to the address. When the context ends, it
// ends a read that waits for the proxy in the same way as a round trip ends: it puts the deadline
// of the socket into the past.
func (p *proxy) dial(ctx context.Context, address string) (*conn, error) {
	socket, err := p.net.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	c, err := newConn(socket)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.interrupt)
	err = p.tunnel(ctx, c, address)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		c.abort()
		return nil, err
	}
	return c, nil
}

// tunnel lets the proxy connect to the address. Afterwards c reads and writes as if it were
// connected to the server itself, and can get another layer of TLS, to the server.
func (p *proxy) tunnel(ctx context.Context, c *conn, address string) error {
	if p.tls != nil {
		if err := c.secure(ctx, p.tls); err != nil {
			return fmt.Errorf("secure connection to proxy: %w", err)
		}
	}
	if p.header != "" {
		return p.tunnelHTTP(c, address)
	}
	client, err := socks.SOCKS5("tcp", p.address, p.auth, fixedDialer{c})
	if err != nil {
		return fmt.Errorf("prepare SOCKS: %w", err)
	}
	// DialContext returns c with another address.
	if _, err := client.(socks.ContextDialer).DialContext(ctx, "tcp", address); err != nil { //nolint:errcheck // it is one
		return fmt.Errorf("ask SOCKS proxy: %w", err)
	}
	return nil
}

// tunnelHTTP asks with CONNECT (RFC 9110, 9.3.6). The limits of other responses hold for this one
// too. The response must end exactly where the bytes of the server begin. Bytes that the reader has
// already would be lost for the TLS to the server, or were planted by the proxy.
func (p *proxy) tunnelHTTP(c *conn, address string) error {
	if _, err := c.Write([]byte("CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n" + p.header)); err != nil {
		return fmt.Errorf("ask proxy: %w", err)
	}
	var reader responseReader
	reader.reset(c)
	f, err := reader.readHeader()
	switch {
	case err != nil:
		return fmt.Errorf("read response of proxy: %w", err)
	case f.status < 200 || f.status > 299:
		return fmt.Errorf("proxy responds with %d", f.status)
	case !reader.drained():
		return errors.New("proxy sends more than its response")
	}
	return nil
}

// fixedDialer gives the SOCKS client a connection that is already open.
type fixedDialer struct{ net.Conn }

// Dial returns the connection.
func (d fixedDialer) Dial(string, string) (net.Conn, error) { return d.Conn, nil }

// DialContext returns the connection.
func (d fixedDialer) DialContext(context.Context, string, string) (net.Conn, error) {
	return d.Conn, nil
}
