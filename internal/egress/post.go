package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/postrider/postrider"
)

// Post sends a JSON body to a URL that a tenant set, and returns the status code of the response.
// It follows no redirect. If there is no response, the error is a [postrider.FailureError].
func (e *Egress) Post(ctx context.Context, raw string, body []byte) (status int, err error) {
	u, err := e.guard.parse(raw)
	if err != nil {
		return 0, err
	}
	var x Exchange
	defer x.Reset()
	request := fmt.Appendf(x.Request.Buffer(),
		"POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Postrider\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		u.RequestURI(), u.Host, len(body))
	x.Request.Set(append(request, body...), 0)
	response, err := e.RoundTrip(ctx, ServerOf(u, nil), &x)
	if err != nil {
		return 0, &postrider.FailureError{Failure: FailureOf(err, x.Sent), Err: err}
	}
	return response.Status, nil
}

// PostAsOperator does what [Egress.Post] does, for a URL that the operator set. It checks no
// address, so never use it for a URL that a tenant sets. No error repeats the URL, which may be a
// secret.
func PostAsOperator(ctx context.Context, to string, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the URL cannot be used")
	}
	request.Header.Set("User-Agent", "Postrider")
	request.Header.Set("Content-Type", "application/json")
	response, err := OperatorClient().Do(request)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if err != nil {
		return 0, fmt.Errorf("post: %w", err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}
