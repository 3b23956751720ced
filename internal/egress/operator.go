package egress

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// operatorTime is the time limit of one request to a server of the operator.
	operatorTime = 10 * time.Second
	// operatorBytes is the limit of the bytes that are read of its response.
	operatorBytes = 1 << 20
)

// OperatorClient returns a client for URLs that the operator sets, such as the URL of an
// identity provider. It is not guarded: it reaches private networks, and uses the proxy of
// the environment. So never use it for a URL that a tenant sets. It follows no redirect.
func OperatorClient() *http.Client {
	return &http.Client{
		Timeout: operatorTime,
		Transport: bounded{&http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: operatorTime / 2}).DialContext, TLSHandshakeTimeout: operatorTime / 2,
			DisableKeepAlives:      true, // logins are rare, and no connection outlives the server
			MaxResponseHeaderBytes: 64 << 10,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded is a transport whose responses have at most operatorBytes.
type bounded struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(r)
	if err == nil {
		response.Body = &boundedBody{response.Body, operatorBytes}
	}
	return response, err
}

// boundedBody fails when more than left bytes are read.
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
