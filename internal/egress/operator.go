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
	// operatorBytes is the most that is read of its response.
	operatorBytes = 1 << 20
)

// OperatorClient returns a client for the URLs that the operator sets, such as the one
// of an identity provider. It goes where these settings say, private networks and the
// proxy of the environment included: no tenant has a say in them. Use it for no other
// URL. It follows no redirect.
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
