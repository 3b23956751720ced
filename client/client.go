// Package client calls the REST API of a Postrider server.
//
//	c := client.New("https://hooks.example", key, client.Options{})
//	receipt, err := c.Publish(ctx, apitypes.EventCreate{
//		Account: "acme", Type: "order.created", Data: json.RawMessage(`{"order_id":42}`),
//		IdempotencyKey: "order-42",
//	})
//
// Its promises:
//
//   - A publish without an error is on the server's disk, with its deliveries.
//   - What is safe to repeat is repeated, a few times, when the server is busy
//     (429, 502, 503, 504) or does not answer: whatever reads, changes or deletes,
//     and every publish. Pauses grow, are random, and are as long as the server
//     asks for. [Options].Attempts of 1 ends that.
//   - A publish is safe because it has an idempotency key. One that has none of
//     its own gets one for its tries; give your own where your program
//     may publish the same thing again after it was restarted.
//   - Everything else is one request: a replay, a test, a new endpoint. After an
//     error that is no [*Error] it is open whether it happened.
//   - An answer that is no 2xx is an [*Error], which says what the server said
//     and matches the errors of package postrider with [errors.Is].
//   - The data of an event is sent to the byte as it was given.
//   - The key is sent to the server of the base URL alone, and is in no error.
//   - A [Client] may be used from any goroutine.
//
// It knows nothing of receiving: see package receiver and package signature.
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
	Timeout   time.Duration     // of one try, from connecting to the last byte; default 30 s
	Attempts  int               // how often what is safe to repeat is tried; default 5, 1: once
	MaxWait   time.Duration     // the longest pause between two tries that is worth it; default 30 s
	Transport http.RoundTripper // default: one of the client's own, like http.DefaultTransport
	UserAgent string            // default "postrider-client"
}

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
	http *http.Client
}

// New returns a client of the server at baseURL, as in http://127.0.0.1:8080,
// that identifies itself with the API key.
func New(baseURL, key string, opts Options) *Client {
	opts = opts.withDefaults()
	return &Client{
		base: strings.TrimRight(baseURL, "/"),
		key:  key,
		opts: opts,
		http: &http.Client{
			Transport: opts.Transport,
			Timeout:   opts.Timeout,
			// A redirect would carry the key to where nobody meant it to go.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close lets go of idle connections. The client may be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// maxAnswer bounds what is read of an answer: a page of 250 attempts with
// bodies of 16 KiB stays well below.
const maxAnswer = 64 << 20

// request is a call of the API; in is its body, unless it is nil.
type request struct {
	method, path string
	in           any
	keyed        bool // an idempotency key makes it safe to repeat
	hops         int  // for Webhook-Hops
}

// call sends a request, more than once if that is safe and may help, and reads
// the answer into out, unless that is nil.
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

// try sends a request once.
func (c *Client) try(ctx context.Context, r request, body []byte, out any) error {
	answer, err := c.send(ctx, r, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	defer answer.Body.Close()

	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", r.method, r.path, err)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return problem(answer, text)
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &finalError{fmt.Errorf("%s %s: understand answer: %w", r.method, r.path, err)}
	}
	return nil
}

// finalError is one that another try does not change.
type finalError struct{ error }

// Unwrap returns what went wrong.
func (e *finalError) Unwrap() error { return e.error }

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
	if r.hops > 0 {
		request.Header.Set("Webhook-Hops", strconv.Itoa(r.hops))
	}
	answer, err := c.http.Do(request)
	if err != nil {
		// The method and path are said once, by call.
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, err
	}
	return answer, nil
}

// wellKnown begins the paths that are not below the API's own.
const wellKnown = "/.well-known/"

func (c *Client) url(path string) string {
	if strings.HasPrefix(path, wellKnown) {
		return c.base + path
	}
	return c.base + "/v1/webhooks" + path
}

// encode returns the JSON of a request's body. The data of an event is put in
// as it is: encoding/json would compact it, and the receiver's bytes are to be
// the producer's.
func encode(in any) ([]byte, error) {
	switch in := in.(type) {
	case apitypes.EventCreate:
		return appendEvent(nil, in)
	case []apitypes.EventCreate:
		return encodeBatch(in)
	}
	return json.Marshal(in)
}

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

func appendEvent(body []byte, e apitypes.EventCreate) ([]byte, error) {
	if !json.Valid(e.Data) {
		return nil, &postrider.InvalidError{Field: "data", Reason: "must be JSON"}
	}
	rest, err := json.Marshal(struct {
		apitypes.EventCreate

		Data *struct{} `json:"data,omitempty"` // hides the event's own
	}{EventCreate: e})
	if err != nil {
		return nil, err
	}
	body = append(body, `{"data":`...)
	body = append(body, e.Data...)
	body = append(body, ',')
	return append(body, rest[1:]...), nil
}

// Error is an answer that is no 2xx: an RFC 9457 problem.
type Error struct {
	Status     int              // the HTTP status
	Code       string           // stable, for programs; empty when the answer was no problem of ours
	Detail     string           // for people
	Fields     []apitypes.Fault // what is wrong with the request, field by field
	Index      *int             // of the event in its batch, with the code idempotency_conflict; else nil
	Replay     string           // the delivery that is under way, with the code replay_pending
	RequestID  string           // names the request in the server's log
	RetryAfter time.Duration    // how long the server asked to be left alone; 0: it did not
}

// Error returns what the server said, in one line.
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

// Unwrap returns the error of package postrider that the status stands for,
// or nil when there is none.
func (e *Error) Unwrap() error {
	switch e.Status {
	case http.StatusNotFound:
		return postrider.ErrNotFound
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusLoopDetected:
		return postrider.ErrInvalid
	case http.StatusConflict:
		return postrider.ErrConflict
	case http.StatusGone:
		return postrider.ErrGone
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return postrider.ErrBusy
	}
	return nil
}

// problem reads an answer that is no 2xx.
func problem(answer *http.Response, text []byte) error {
	e := &Error{Status: answer.StatusCode, RetryAfter: retryAfter(answer.Header.Get("Retry-After"), time.Now())}
	var document apitypes.Problem
	if json.Unmarshal(text, &document) != nil {
		return e // a proxy's page, for instance
	}
	e.Code, e.Detail = document.Code, cmp.Or(document.Detail, document.Title)
	e.Fields, e.Index, e.Replay, e.RequestID = document.Errors, document.Index, document.Replay, document.RequestID
	return e
}
