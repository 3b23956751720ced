package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// draft has everything from which a request is built.
type draft struct {
	claimed *postrider.Claimed
	to      *store.EndpointSnapshot
	at      time.Time // time of the attempt, which is signed
	token   string    // token from the target's tokens; "": none

	// The endpoint may refuse a cached token, and another attempt follows; true for the first
	// attempt under a lease.
	mayRefuse bool
}

// build signs the request, puts it into q, and appends its header to header. The copy of the header
// is recorded with the attempt, because the request is freed as soon as it is written.
//
// The order is fixed: envelope, signature, compression. The signature is of the uncompressed body.
// So a receiver whose web server unpacks requests can verify the unpacked body, and the signature
// is the same with and without compression.
//
// The header comes before the body, but contains the body's length and signature. So the body is
// built first and then copied behind the header. With the payload raw there is no envelope, and the
// body is the event's data itself:
//
//	buffer:  [ envelope | compressed envelope | header | body ]
//	                                           start: the request
func (d *draft) build(t *target, q *egress.Request, header []byte) ([]byte, error) {
	m, buffer := d.message(t, q.Buffer())
	body := m.Body
	if t.gzip {
		plain, err := len(buffer), error(nil)
		if buffer, err = appendGzip(buffer, body); err != nil {
			q.Free()
			return header, fmt.Errorf("compress: %w", err)
		}
		body = buffer[plain:]
	}
	header, err := d.appendHeader(t, header, m, len(body))
	if err != nil {
		q.Free()
		return header, failure(postrider.FailureUnsigned, err)
	}
	start := len(buffer)
	buffer = append(buffer, header...)
	q.Set(append(buffer, body...), start)
	return header, nil
}

// message returns the message to sign. Its body is the event's data, or the envelope, which is
// built in the buffer.
func (d *draft) message(t *target, buffer []byte) (m signature.Message, _ []byte) {
	e := d.claimed.Event
	// The signed time has whole seconds, because receivers get only whole seconds.
	m = signature.Message{ID: e.ID.String(), Timestamp: time.Unix(d.at.Unix(), 0), Body: e.Data}
	if d.to.Endpoint.Policy.Payload != postrider.PayloadRaw {
		var previous []byte
		if d.to.Endpoint.Policy.IncludePrevious {
			previous = e.About.Previous
		}
		// The buffer gets the data twice, see build, and nearly always less than 2 KiB besides it.
		buffer = appendEnvelope(slices.Grow(buffer, 2*(len(e.Data)+len(previous))+2<<10), m.ID, e, previous)
		m.Body = buffer
	}
	if t.namesType {
		m.Delivery, m.Type, m.Occurred = d.claimed.ID.String(), e.Type, e.Happened()
	}
	return m, buffer
}

// appendHeader appends the header of a request with the message and a body of size bytes: the fixed
// part of the target, the fields of this event, the signatures, then the endpoint's own headers and
// its credentials. No name appears twice, because [target.addOwnLines] has checked that.
func (d *draft) appendHeader(t *target, header []byte, m signature.Message, size int) (_ []byte, err error) {
	header = append(header, t.prefix...)
	header = append(header, d.contentType()...)
	header = append(header, "\r\nContent-Length: "...)
	header = strconv.AppendInt(header, int64(size), 10)
	if t.writesID {
		header = append(header, "\r\nWebhook-Id: "...)
		header = append(header, m.ID...)
	}
	// Only events with an ordering key have a sequence.
	if sequence := d.claimed.Event.Sequence; sequence > 0 {
		header = append(header, "\r\nWebhook-Sequence: "...)
		header = strconv.AppendInt(header, sequence, 10)
	}
	// A receiver that publishes because of this request copies the field. So the number grows in a
	// loop, and the API refuses an event with too many hops.
	header = append(header, "\r\nWebhook-Hops: "...)
	header = strconv.AppendInt(header, int64(d.claimed.Event.Hops)+1, 10)
	header = append(header, "\r\n"...)
	if t.sampled != nil {
		header = d.appendTrace(t, header)
	}
	if t.signer != nil {
		if header, err = t.signer.AppendHeader(header, m); err != nil {
			return header, err
		}
	}
	return append(t.appendOwnLines(header, d.token), "\r\n"...), nil
}

// contentType returns the media type of the body.
func (d *draft) contentType() string {
	if d.to.Endpoint.Policy.Payload == postrider.PayloadRaw {
		return cmp.Or(d.claimed.Event.About.ContentType, "application/json")
	}
	return "application/json"
}

// appendTrace appends a traceparent that makes the receiver's spans children of this attempt's
// span, and the tracestate of the publish. It does not name the producer's span.
func (d *draft) appendTrace(t *target, header []byte) []byte {
	e := d.claimed.Event
	header = append(header, postrider.TraceParentHeader+": "...)
	header = postrider.AppendTraceParent(header, e.Trace(), postrider.AttemptSpan(d.claimed.ID, d.claimed.Attempt), t.sampled(e.ID))
	if e.TraceState != "" {
		header = append(header, "\r\n"+postrider.TraceStateHeader+": "...)
		header = append(header, e.TraceState...)
	}
	return append(header, "\r\n"...)
}

// appendOwnLines appends the header lines of the endpoint, and an Authorization line if there is a
// token.
func (t *target) appendOwnLines(header []byte, token string) []byte {
	header = append(header, t.ownLines...)
	if t.tokens != nil && token != "" {
		header = append(header, "Authorization: Bearer "...)
		header = append(header, token...)
		header = append(header, "\r\n"...)
	}
	return header
}

// appendEnvelope appends the JSON that receivers expect, which contains the event's bytes
// unchanged, and those of previous, unless it is empty. These bytes are JSON, because the API has
// checked them. Data that is not JSON becomes a string; see [postrider.Event.JSONData].
func appendEnvelope(b []byte, id string, e *postrider.Event, previous []byte) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, id...)
	b = append(b, `","type":`...)
	b = appendString(b, e.Type)
	if e.APIVersion != "" {
		b = append(b, `,"api_version":`...)
		b = appendString(b, e.APIVersion)
	}
	b = append(b, `,"timestamp":"`...)
	b = append(appendTime(b, e.Happened()), '"')
	data, encoding := e.JSONData()
	if e.About.ContentType != "" {
		b = append(b, `,"content_type":`...)
		b = appendString(b, e.About.ContentType)
	}
	if encoding != "" {
		b = append(b, `,"data_encoding":`...)
		b = appendString(b, encoding)
	}
	b = append(b, `,"data":`...)
	b = append(b, data...)
	if len(previous) > 0 {
		b = append(b, `,"previous":`...)
		b = append(b, previous...)
	}
	return append(b, '}')
}

// appendTime appends the time in RFC 3339, in UTC, with microseconds. It is three times as fast as
// AppendFormat with a layout that has microseconds.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.' // instead of the Z
	micros := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		b = append(b, '0'+byte(micros/unit%10))
	}
	return append(b, 'Z')
}

// appendString appends a JSON string. Almost no text needs escapes.
func appendString(b []byte, s string) []byte {
	plain := !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
	if plain {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil { // cannot happen for a string
		return append(b, `""`...)
	}
	return append(b, quoted...)
}
