package egress

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// request is what an attempt sends, in memory that is used again.
type request struct {
	bytes []byte // head and body, to be written at once
	room  *[]byte
}

// maxRoom is the largest piece of memory that is kept for other requests.
const maxRoom = 64 << 10

var requestRooms = sync.Pool{New: func() any { return new([]byte) }}

// release gives the memory back. The request is empty then.
func (q *request) release() {
	if q.room != nil && cap(*q.room) <= maxRoom {
		requestRooms.Put(q.room)
	}
	*q = request{}
}

// draft is what a request is made of.
type draft struct {
	claimed *postrider.Claimed
	to      *store.EndpointSnapshot
	at      time.Time
	token   string // that the endpoint's grant gave; may be empty
}

// build signs and returns the request, and its head once more in memory of
// head: the head outlives the request, which is released once it is written.
// What is signed is the body before it is compressed.
func (d *draft) build(r *route, head []byte) (request, []byte, error) {
	room, ok := requestRooms.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	q := request{room: room}
	e := d.claimed.Event
	id := e.ID.String()
	out, body := (*room)[:0], e.Data
	if d.to.Endpoint.Policy.Payload != postrider.PayloadRaw {
		out = appendEnvelope(out, id, e)
		body = out
	}
	m := signature.Message{ID: id, Timestamp: time.Unix(d.at.Unix(), 0), Body: body}
	if r.names {
		m.Delivery, m.Type, m.Occurred = d.claimed.ID.String(), e.Type, e.CreatedAt
	}
	if r.gzip {
		plain, err := len(out), error(nil)
		if out, err = appendGzip(out, body); err != nil {
			q.release()
			return q, head, fmt.Errorf("compress: %w", err)
		}
		body = out[plain:]
	}
	head, err := d.appendHead(r, head, m, len(body))
	if err != nil {
		q.release()
		return q, head, &stageError{postrider.FailureUnsigned, err}
	}
	start := len(out)
	out = append(out, head...)
	out = append(out, body...)
	*room, q.bytes = out, out[start:]
	return q, head, nil
}

// appendHead appends the head of the request with that message and so many
// bytes of body. On a hop to another host nothing signs it.
func (d *draft) appendHead(r *route, head []byte, m signature.Message, size int) (_ []byte, err error) {
	head = append(head, r.start...)
	head = strconv.AppendInt(head, int64(size), 10)
	if r.bare {
		head = append(head, "\r\nWebhook-Id: "...)
		head = append(head, m.ID...)
	}
	if sequence := d.claimed.Event.Sequence; sequence > 0 {
		head = append(head, "\r\nWebhook-Sequence: "...)
		head = strconv.AppendInt(head, sequence, 10)
	}
	head = append(head, "\r\nWebhook-Hops: "...)
	head = strconv.AppendInt(head, int64(d.claimed.Event.Hops)+1, 10)
	head = append(head, "\r\n"...)
	if r.signer != nil {
		if head, err = r.signer.AppendHeader(head, m); err != nil {
			return head, err
		}
	}
	return append(r.appendOwn(head, d.token), "\r\n"...), nil
}

// appendOwn appends the lines of the endpoint's own.
func (r *route) appendOwn(head []byte, token string) []byte {
	head = append(head, r.own...)
	if r.grant != nil && token != "" {
		head = append(head, "Authorization: Bearer "...)
		head = append(head, token...)
		head = append(head, "\r\n"...)
	}
	return head
}

// appendEnvelope puts the event's bytes, as they are, into the frame that
// receivers expect. The bytes are JSON: they were when the event was accepted.
func appendEnvelope(b []byte, id string, e *postrider.Event) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, id...)
	b = append(b, `","type":`...)
	b = appendString(b, e.Type)
	if e.APIVersion != "" {
		b = append(b, `,"api_version":`...)
		b = appendString(b, e.APIVersion)
	}
	b = append(b, `,"timestamp":"`...)
	b = appendTime(b, e.CreatedAt)
	b = append(b, `","data":`...)
	b = append(b, e.Data...)
	return append(b, '}')
}

// appendTime appends RFC 3339 in UTC with six digits of a second, which takes a
// third of the time that a layout with digits does.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.' // instead of the Z
	micros := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		b = append(b, '0'+byte(micros/unit%10))
	}
	return append(b, 'Z')
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
