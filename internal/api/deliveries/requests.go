package deliveries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// maxShownBody is the size of the largest body that a response shows, in bytes.
const maxShownBody = 16 << 10

// getAttemptRequest describes the request of an attempt. If the request header was recorded, the
// response has the recorded header. The rest is built again from the event and the endpoint.
func (s *Routes) getAttemptRequest(ctx context.Context, in *struct {
	DeliveryPath
	Attempt string `path:"attempt" doc:"Number of the attempt, from 1."`
},
) (*rest.Reply[apitypes.AttemptRequest], error) {
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	a, err := s.findAttempt(ctx, d, in.Attempt)
	if err != nil {
		return nil, err
	}
	if a.Outcome == postrider.OutcomeNone {
		return nil, rest.Conflict("attempt_without_request", "the attempt made no request")
	}
	e, err := store.First(s.Store.Endpoints(ctx, store.EndpointQuery{Account: d.Account, ID: d.Endpoint}))
	if err != nil {
		return nil, err
	}
	event, err := store.First(s.Store.Events(ctx, store.EventQuery{Account: d.Account, ID: d.Event}))
	if errors.Is(err, postrider.ErrNotFound) { // the event's record is deleted, too
		event, err = rest.GoneEvent(d), nil
	}
	if err != nil {
		return nil, err
	}
	claimed := postrider.Claimed{ID: d.ID, Endpoint: d.Endpoint, Event: &event, Attempt: a.Number, ReplayedFrom: d.ReplayedFrom}
	request, err := s.Describer.Describe(ctx, &claimed, e, a.StartedAt)
	if failure, ok := errors.AsType[*postrider.FailureError](err); ok {
		return nil, rest.Conflict("request_unknown", "the request cannot be described: "+string(failure.Failure))
	}
	if err != nil {
		return nil, err
	}
	return rest.Respond(viewRequest(a, request, e.UpdatedAt)), nil
}

// findAttempt returns the attempt of the delivery whose number is the text from the path.
func (s *Routes) findAttempt(ctx context.Context, d postrider.Delivery, text string) (postrider.Attempt, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 {
		return postrider.Attempt{}, postrider.ErrNotFound
	}
	page, err := s.Store.Attempts(ctx, store.AttemptQuery{
		Account: d.Account, Delivery: d.ID, Paging: store.Paging{Limit: 1, Cursor: store.AttemptCursor(d.ID, int(number)-1)},
	})
	a, err := store.First(page, err)
	if err == nil && a.Number != int(number) {
		err = postrider.ErrNotFound
	}
	return a, err
}

// viewRequest returns the request of an attempt in the form of a response. changed is the time when
// the endpoint was last changed.
func viewRequest(a postrider.Attempt, r postrider.Request, changed time.Time) apitypes.AttemptRequest {
	if len(a.RequestHead) > 0 {
		r.Header = recordedFields(string(a.RequestHead))
	}
	view := apitypes.AttemptRequest{
		Delivery: a.Delivery, Attempt: a.Number, Method: r.Method, URL: r.URL, Headers: render.Header(r.Header),
		Recorded: len(a.RequestHead) > 0, EndpointChanged: changed.After(a.StartedAt), Signatures: []apitypes.SignedContent{}, Curl: r.Curl(),
	}
	if r.Body != nil {
		size, sum := len(r.Body), digest(r.Body)
		view.BodyBytes, view.BodySHA256 = &size, &sum
		if size <= maxShownBody && utf8.Valid(r.Body) {
			text := string(r.Body)
			view.Body = &text
		}
	}
	for _, c := range r.Signed {
		signed := apitypes.SignedContent{Scheme: c.Scheme, Header: c.Header, Prefix: c.Prefix}
		if r.Body != nil {
			content := append([]byte(c.Prefix), r.Body...)
			size, sum := len(content), digest(content)
			signed.Bytes, signed.SHA256 = &size, &sum
		}
		view.Signatures = append(view.Signatures, signed)
	}
	return view
}

// recordedFields returns the fields of a recorded request header.
func recordedFields(head string) (fields []postrider.HeaderField) {
	_, head, _ = strings.Cut(head, "\r\n") // the request line
	for line := range strings.SplitSeq(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			fields = append(fields, postrider.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// digest returns the SHA-256 of b as hexadecimal text.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
