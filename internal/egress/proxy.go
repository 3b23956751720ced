package egress

import (
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

// proxy is the operator's way to the outside. It is told addresses, never
// names: what a name means is found out and judged before, here. Its own
// address is not judged, since who runs this program chose it.
type proxy struct {
	address string
	tls     *tls.Config // nil: it is spoken to in the clear
	head    string      // of CONNECT, after the address; empty: it speaks SOCKS
	auth    *socks.Auth // for SOCKS; nil: none
	net     net.Dialer
}

var errProxyURL = errors.New("must be http, https or socks5://host:port, with user:password@ if it wants them")

// ParseProxy reads the URL of a proxy for [Options].Proxy. Its errors repeat
// nothing of the text, which may hold a password.
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

// newProxy returns the proxy of a URL from ParseProxy, nil for nil.
func newProxy(u *url.URL, roots *x509.CertPool) *proxy {
	if u == nil {
		return nil
	}
	p := &proxy{address: u.Host, net: net.Dialer{Resolver: &net.Resolver{PreferGo: true}}}
	password, _ := u.User.Password()
	if u.Scheme == "socks5" {
		if u.User != nil {
			p.auth = &socks.Auth{User: u.User.Username(), Password: password}
		}
		return p
	}
	p.head = "\r\n"
	if u.User != nil {
		p.head = "Proxy-Authorization: Basic " +
			base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)) + "\r\n\r\n"
	}
	if u.Scheme == "https" {
		p.tls = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: u.Hostname()}
	}
	return p
}

// connect returns a connection that leads through the proxy to the address, an
// IP and a port that the guard has let pass. Every fault is the proxy's.
func (p *proxy) connect(ctx context.Context, address string) (*conn, error) {
	c, err := p.begin(ctx, address)
	if err != nil {
		return nil, &stageError{postrider.FailureProxy, err}
	}
	return c, nil
}

func (p *proxy) begin(ctx context.Context, address string) (*conn, error) {
	tcp, err := p.net.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	c, err := newConn(tcp)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.interrupt)
	err = p.extend(ctx, c, address)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		c.abort()
		return nil, err
	}
	return c, nil
}

// extend has the proxy extend the connection to the address.
func (p *proxy) extend(ctx context.Context, c *conn, address string) error {
	if p.tls != nil {
		if err := c.secure(ctx, p.tls); err != nil {
			return fmt.Errorf("secure connection to proxy: %w", err)
		}
	}
	if p.head != "" {
		return p.tunnel(c, address)
	}
	way, err := socks.SOCKS5("tcp", p.address, p.auth, dialed{c})
	if err != nil {
		return fmt.Errorf("prepare SOCKS: %w", err)
	}
	// The connection that this returns only knows more of itself.
	if _, err := way.(socks.ContextDialer).DialContext(ctx, "tcp", address); err != nil { //nolint:errcheck // it is one
		return fmt.Errorf("ask SOCKS proxy: %w", err)
	}
	return nil
}

// tunnel asks with CONNECT (RFC 9110, 9.3.6). The answer is bounded as a
// receiver's is.
func (p *proxy) tunnel(c *conn, address string) error {
	if _, err := c.Write([]byte("CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n" + p.head)); err != nil {
		return fmt.Errorf("ask proxy: %w", err)
	}
	var in inbound
	in.reset(c)
	h, err := in.readHead()
	switch {
	case err != nil:
		return fmt.Errorf("read proxy's answer: %w", err)
	case h.status < 200 || h.status > 299:
		return fmt.Errorf("proxy answers %d", h.status)
	case in.r != in.w:
		return errors.New("proxy says more than was asked")
	}
	return nil
}

// dialed is a dialer for who would dial itself.
type dialed struct{ net.Conn }

// Dial returns the connection that there is.
func (d dialed) Dial(string, string) (net.Conn, error) { return d.Conn, nil }

// DialContext does the same.
func (d dialed) DialContext(context.Context, string, string) (net.Conn, error) { return d.Conn, nil }
