package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	// operatorTime is the time limit of one request of [OperatorClient].
	operatorTime = 10 * time.Second
	// operatorBytes is how many bytes of a response [OperatorClient] reads at most.
	operatorBytes = 1 << 20
	// operatorConnect is the time limit of a connection, and again of its TLS handshake.
	operatorConnect = 5 * time.Second
)

// DialOperator connects to a server that the operator's settings name: a mail server, a bucket, a
// collector, an identity provider. It checks no address and reaches private networks, so never use
// it for an address that a tenant sets. A library that makes its own connections gets this function
// as its dialer.
func DialOperator(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: operatorConnect}).DialContext(ctx, network, address)
}

// SourceDialer returns a function that connects to the databases of sources, whose addresses admins set by
// the API. A connection is made only to a public address or to one in allow, on any port, and to no Unix
// socket. The address is checked when it is dialed, after the DNS has answered.
func SourceDialer(allow []netip.Prefix) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: operatorConnect, ControlContext: newGuard(Reach{Allow: allow, AnyPort: true}).control}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if refused, ok := errors.AsType[*net.OpError](err); ok && errors.Is(err, errForbidden) {
			return nil, fmt.Errorf("the rules for egress refuse %s (--source-allow)", refused.Addr)
		}
		return c, err
	}
}

// OperatorTransport returns a transport for URLs that the operator sets. It connects by
// [DialOperator], keeps connections open, and uses the proxy of the environment. It bounds the time
// of a connection and the size of a response's header. The caller bounds the time of a request and
// the size of a body, and calls CloseIdleConnections when it is done.
func OperatorTransport() *http.Transport {
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: DialOperator, TLSHandshakeTimeout: operatorConnect,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// OperatorClient returns a client for small requests to URLs that the operator sets, such as the
// URL of an identity provider. It follows no redirect and reads at most 1 MiB of a response. Each
// request has a connection of its own: logins are rare, and no connection outlives the server.
func OperatorClient() *http.Client {
	transport := OperatorTransport()
	transport.DisableKeepAlives = true
	return &http.Client{
		Timeout: operatorTime, Transport: bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded is a transport whose responses fail after operatorBytes.
type bounded struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{response.Body, operatorBytes}
	}
	return response, err
}

// boundedBody fails when more than left bytes were read.
type boundedBody struct {
	io.ReadCloser

	left int
}

// Read implements [io.Reader].
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errors.New("the response is too large")
	}
	return n, err
}
