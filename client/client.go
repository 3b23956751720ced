// Package client calls the REST API of a Postrider server.
//
//	c := client.New("https://hooks.example", key, client.Options{})
//	receipt, err := c.Publish(ctx, apitypes.EventCreate{
//		Account: "acme", Type: "order.created", Data: json.RawMessage(`{"order_id":42}`),
//		IdempotencyKey: "order-42",
//	})
//
// A program requires this module by its path. If the module is in a folder, also name the folder,
// and let go mod tidy complete go.mod (go get would ask for a published version):
//
//	go mod edit -require=github.com/postrider/postrider@v0.0.0
//	go mod edit -replace=github.com/postrider/postrider=FOLDER
//	go mod tidy
//
// Its promises:
//
//   - After a publish without an error, the event and its deliveries are on the
//     server's disk.
//   - Requests that are safe to repeat are repeated a few times if the server
//     is busy (429, 502, 503, 504) or does not respond. These are reads,
//     changes, deletions and publishes. The pauses grow, are random, and are at
//     least as long as the server asks for. [Options].Attempts of 1 turns this
//     off.
//   - A publish is safe to repeat because of its idempotency key. A publish
//     without a key gets one for its tries. Set your own key if your program
//     may publish the same event again after a restart.
//   - Every other request is sent once: a replay, a test, a new endpoint. After
//     an error that is not an [*Error], it is unknown whether the server
//     executed the request.
//   - A response other than 2xx is an [*Error]. It has the server's message and
//     matches the errors of package postrider with [errors.Is].
//   - The data of an event is sent byte for byte as given.
//   - The API key is sent only to the server of the base URL, and appears in no
//     error.
//   - A [Client] is safe for concurrent use.
//
// To receive webhooks, use package receiver and package signature.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Options tunes a [Client]. The zero value is ready to use.
type Options struct {
	// Timeout is the limit for one try, from connecting to the last byte of the
	// response. Default 30 s.
	Timeout time.Duration
	// Attempts is the largest number of tries of a request that is safe to
	// repeat. Default 5; 1: no repetition.
	Attempts int
	// MaxWait is the longest pause between two tries. If the server asks for a
	// longer one, the error is returned instead. Default 30 s.
	MaxWait time.Duration
	// Transport sends the requests. Default: a transport of the client's own,
	// with proxies from the environment and HTTP/2.
	Transport http.RoundTripper
	// UserAgent is the User-Agent header. Default "postrider-client".
	UserAgent string
	// OnNotEffective is called for a response that says that a change is stored but not yet in
	// effect on all servers. The call that made the change returns no error. Default: no function
	// is called.
	OnNotEffective func(apitypes.NotEffective)
}

// withDefaults replaces the zero fields by their defaults.
func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Attempts = cmp.Or(o.Attempts, 5)
	o.MaxWait = cmp.Or(o.MaxWait, 30*time.Second)
	o.UserAgent = cmp.Or(o.UserAgent, "postrider-client")
	if o.Transport == nil {
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	}
	return o
}

// Client calls one server with one key.
type Client struct {
	base string
	key  string
	opts Options
	// The If-Match of changes; empty: none.
	ifMatch string
	http    *http.Client
}

// New returns a client for the server at baseURL, such as
// http://127.0.0.1:8080. The API key authenticates its requests. New does not
// connect.
func New(baseURL, key string, opts Options) *Client {
	opts = opts.withDefaults()
	return &Client{
		base: strings.TrimRight(baseURL, "/"),
		key:  key,
		opts: opts,
		http: &http.Client{
			Transport: opts.Transport,
			Timeout:   opts.Timeout,
			// A redirect could send the key to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close closes idle connections. The client can be used again afterwards.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// maxResponse is how many bytes of a response are read at most. A page of 250 attempts with bodies
// of 16 KiB is well below it.
const maxResponse = 64 << 20

// request is one call of the API.
type request struct {
	// path is relative to /v1/webhooks, or absolute if it begins with wellKnown.
	method, path string
	// in is the request body before encoding; nil: there is none.
	in any
	// keyed is true if idempotency keys make the POST safe to repeat.
	keyed bool
	// hops is the value of Webhook-Hops; 0: the header is omitted.
	hops int
	// trace and traceState are the values of traceparent and tracestate; empty: the header is omitted.
	trace, traceState string
}

// call sends a request. It repeats the request if that is safe and may help. It decodes the
// response into out, unless out is nil. The body is encoded once, so all tries send the same
// idempotency keys.
func (c *Client) call(ctx context.Context, r request, out any) error {
	var body []byte
	if r.in != nil {
		var err error
		if body, err = encode(r.in); err != nil {
			return fmt.Errorf("%s %s: encode request: %w", r.method, r.path, err)
		}
	}
	return c.repeat(ctx, r, func() error { return c.try(ctx, r, body, out) })
}

// try sends a request once and decodes the response.
func (c *Client) try(ctx context.Context, r request, body []byte, out any) error {
	response, err := c.send(ctx, r, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("%s %s: read response: %w", r.method, r.path, err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return problem(response, text)
	}
	if n, ok := apitypes.ParseNotEffective(response.Header.Get("Not-Yet-Effective")); ok && c.opts.OnNotEffective != nil {
		c.opts.OnNotEffective(n)
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &finalError{fmt.Errorf("%s %s: decode response: %w", r.method, r.path, err)}
	}
	return nil
}

// finalError is an error that another try would not change.
type finalError struct{ error }

// Unwrap returns the underlying error.
func (e *finalError) Unwrap() error { return e.error }

// send sends a request once and returns the response with any status.
func (c *Client) send(ctx context.Context, r request, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, r.method, c.url(r.path), bytes.NewReader(body))
	if err != nil {
		return nil, &finalError{err}
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	request.Header.Set("User-Agent", c.opts.UserAgent)
	request.Header.Set("Accept", "application/json")
	if r.in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.ifMatch != "" && (r.method == http.MethodPut || r.method == http.MethodPatch) {
		request.Header.Set("If-Match", c.ifMatch)
	}
	if r.hops > 0 {
		request.Header.Set("Webhook-Hops", strconv.Itoa(r.hops))
	}
	if r.trace != "" {
		request.Header.Set(postrider.TraceParentHeader, r.trace)
	}
	if r.traceState != "" {
		request.Header.Set(postrider.TraceStateHeader, r.traceState)
	}
	response, err := c.http.Do(request)
	if err != nil {
		// call adds the method and the path to the error, so they are removed here.
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, err
	}
	return response, nil
}

// wellKnown is the prefix of the paths outside of /v1/webhooks.
const wellKnown = "/.well-known/"

// url returns the absolute URL of a path.
func (c *Client) url(path string) string {
	if strings.HasPrefix(path, wellKnown) {
		return c.base + path
	}
	return c.base + "/v1/webhooks" + path
}

// encode returns the JSON of a request body. It copies the data of an event verbatim, and previous.
// encoding/json would compact them, and the receiver must get the producer's bytes.
func encode(in any) ([]byte, error) {
	switch in := in.(type) {
	case apitypes.EventCreate:
		return appendEvent(nil, in)
	case []apitypes.EventCreate:
		return encodeBatch(in)
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // people read filters, which have < and >, as the server has stored them
	err := e.Encode(in)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}

// encodeBatch returns the JSON of a batch.
func encodeBatch(events []apitypes.EventCreate) ([]byte, error) {
	body := []byte(`{"events":[`)
	for i, e := range events {
		if i > 0 {
			body = append(body, ',')
		}
		var err error
		if body, err = appendEvent(body, e); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
	}
	return append(body, "]}"...), nil
}

// appendEvent appends the JSON of an event with its data and previous verbatim. It refuses what is not
// JSON, because that would make the whole body invalid.
func appendEvent(body []byte, e apitypes.EventCreate) ([]byte, error) {
	if !json.Valid(e.Data) {
		return nil, &postrider.InvalidError{Field: "data", Reason: "must be JSON"}
	}
	if e.Previous != nil && !json.Valid(e.Previous) {
		return nil, &postrider.InvalidError{Field: "previous", Reason: "must be JSON"}
	}
	rest, err := json.Marshal(struct {
		apitypes.EventCreate

		Data     *struct{} `json:"data,omitempty"` // these shadow the event's own fields
		Previous *struct{} `json:"previous,omitempty"`
	}{EventCreate: e})
	if err != nil {
		return nil, err
	}
	body = append(body, `{"data":`...)
	body = append(body, e.Data...)
	if e.Previous != nil {
		body = append(append(body, `,"previous":`...), e.Previous...)
	}
	body = append(body, ',')
	return append(body, rest[1:]...), nil
}

// Error is a response other than 2xx: an RFC 9457 problem.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is a stable code for programs. Empty: the response is not a problem document of
	// Postrider, but for instance the page of a proxy.
	Code string
	// Detail is a message for people.
	Detail string
	// Fields are the faults of the request, one for each field.
	Fields []apitypes.Fault
	// Index is the position of the event in its batch, with the code
	// idempotency_conflict. Otherwise nil.
	Index *int
	// Replay is the id of the pending replay, with the code replay_pending.
	Replay string
	// Quota is the limit that refused the request, with the codes event_quota_used,
	// byte_quota_used, filter_quota_used and endpoint_quota_used. Otherwise nil.
	Quota *apitypes.QuotaProblem
	// RequestID identifies the request in the server's log.
	RequestID string
	// RetryAfter is the wait that the server asked for. 0: it asked for none.
	RetryAfter time.Duration
}

// Error returns the server's message and the faults in one line.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(cmp.Or(e.Detail, http.StatusText(e.Status), "no success"))
	fmt.Fprintf(&text, " (%d", e.Status)
	if e.Code != "" {
		text.WriteString(", " + e.Code)
	}
	if e.Status >= 500 && e.RequestID != "" {
		text.WriteString(", request " + e.RequestID)
	}
	text.WriteString(")")
	for _, f := range e.Fields {
		text.WriteString("; " + strings.TrimSpace(f.Field+" "+f.Reason))
	}
	return text.String()
}

// Unwrap returns the error of package postrider for the status, or nil if there
// is none.
func (e *Error) Unwrap() error {
	switch e.Status {
	case http.StatusNotFound:
		return postrider.ErrNotFound
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusLoopDetected:
		return postrider.ErrInvalid
	case http.StatusConflict, http.StatusPreconditionFailed:
		return postrider.ErrConflict
	case http.StatusGone:
		return postrider.ErrGone
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return postrider.ErrBusy
	}
	return nil
}

// problem returns the error for a response other than 2xx.
func problem(response *http.Response, text []byte) error {
	e := &Error{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now())}
	var document apitypes.Problem
	if json.Unmarshal(text, &document) != nil {
		return e // the body is not JSON, for instance the page of a proxy
	}
	e.Code, e.Detail = document.Code, cmp.Or(document.Detail, document.Title)
	e.Fields, e.Index, e.Replay, e.RequestID = document.Errors, document.Index, document.Replay, document.RequestID
	e.Quota = document.Quota
	return e
}
