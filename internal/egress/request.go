package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

var jsonType = []string{"application/json"} // shared by all requests

// outgoing is a signed request that can be sent again.
type outgoing struct {
	template *http.Request // without a body
	body     []byte
}

// request builds and signs the request of an attempt that starts at now.
func (e *Egress) request(u *url.URL, c postrider.Claimed, to store.Routed, now time.Time) (*outgoing, error) {
	id, body := c.Event.ID.String(), c.Event.Data
	if to.Endpoint.Policy.Payload != postrider.PayloadRaw {
		body = envelope(id, c.Event)
	}
	h := make(http.Header, 12)
	h["Content-Type"] = jsonType
	h["User-Agent"] = e.agent
	h["Webhook-Id"] = []string{id}
	m := signature.Message{
		ID:        id,
		Delivery:  c.ID.String(),
		Type:      c.Event.Type,
		Timestamp: now,
		Body:      body,
	}
	if err := signature.Sign(h, m, keys(to.Secrets, now), schemes(to.Endpoint.Policy)...); err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return &outgoing{body: body, template: &http.Request{
		Method:        http.MethodPost,
		URL:           u,
		Host:          u.Host,
		Header:        h,
		ContentLength: int64(len(body)),
	}}, nil
}

// in returns the request for one use in ctx. It has no GetBody, so net/http
// never repeats it behind our back, not even one that carries an idempotency
// key.
func (o *outgoing) in(ctx context.Context) *http.Request {
	req := o.template.WithContext(ctx)
	// net/http knows this very type as one that is in memory, and sends head
	// and body with one write.
	req.Body = io.NopCloser(bytes.NewReader(o.body))
	return req
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

// envelope puts the event's bytes, as they are, into the frame that receivers
// expect. The bytes are JSON: they were when the event was accepted.
func envelope(id string, e *postrider.Event) []byte {
	b := make([]byte, 0, len(e.Data)+len(e.Type)+len(e.APIVersion)+160)
	b = append(b, `{"id":"`...)
	b = append(b, id...)
	b = append(b, `","type":`...)
	b = appendString(b, e.Type)
	if e.APIVersion != "" {
		b = append(b, `,"api_version":`...)
		b = appendString(b, e.APIVersion)
	}
	b = append(b, `,"timestamp":"`...)
	b = e.CreatedAt.UTC().AppendFormat(b, timeFormat)
	b = append(b, `","data":`...)
	b = append(b, e.Data...)
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	plain := !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
	if plain {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil { // never, for a string
		return append(b, `""`...)
	}
	return append(b, quoted...)
}

func keys(secrets []postrider.Secret, now time.Time) []signature.Key {
	list := make([]signature.Key, 0, len(secrets))
	for _, s := range secrets {
		if s.ActiveAt(now) {
			list = append(list, signature.Key{ID: s.ID.String(), Secret: s.Key})
		}
	}
	return list
}

func schemes(p postrider.Policy) []signature.Scheme {
	list := make([]signature.Scheme, len(p.Signatures))
	for i, s := range p.Signatures {
		list[i] = signature.Scheme(s)
	}
	return list
}

// head returns the head as it is sent, less what must not be kept: the
// signatures, and the query, which may hold a credential.
func (o *outgoing) head() []byte {
	req := o.template
	b := make([]byte, 0, 512)
	b = append(b, "POST "...)
	b = append(b, req.URL.EscapedPath()...)
	if req.URL.Path == "" {
		b = append(b, '/')
	}
	if req.URL.RawQuery != "" {
		b = append(b, "?..."...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, req.Host...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, req.ContentLength, 10)
	b = append(b, "\r\n"...)
	var room [12]string
	names := room[:0]
	for name := range req.Header {
		if !strings.HasSuffix(name, "-Signature") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, req.Header[name][0]...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
