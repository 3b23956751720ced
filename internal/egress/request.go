package egress

import (
	"bytes"
	"encoding/json"
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
	to      *store.Routed
	at      time.Time
}

// build signs and returns the request, and its head once more in memory of
// head: the head outlives the request, which is released once it is written.
func (d draft) build(r *route, head []byte) (request, []byte, error) {
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
	if r.plain {
		m.Delivery, m.Type = d.claimed.ID.String(), e.Type
	}
	head, err := r.appendHead(head, m, e.Sequence)
	if err != nil {
		q.release()
		return q, nil, &stageError{classUnsigned, err}
	}
	start := len(out)
	out = append(out, head...)
	out = append(out, body...)
	*room, q.bytes = out, out[start:]
	return q, head, nil
}

// appendHead appends the head of a request with that message.
func (r *route) appendHead(head []byte, m signature.Message, sequence int64) ([]byte, error) {
	head = append(head, r.start...)
	head = strconv.AppendInt(head, int64(len(m.Body)), 10)
	head = append(head, "\r\n"...)
	if r.bare {
		head = append(head, "Webhook-Id: "...)
		head = append(head, m.ID...)
		head = append(head, "\r\n"...)
	}
	if sequence > 0 {
		head = append(head, "Webhook-Sequence: "...)
		head = strconv.AppendInt(head, sequence, 10)
		head = append(head, "\r\n"...)
	}
	head, err := r.signer.AppendHeader(head, m)
	return append(head, "\r\n"...), err
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

// redact returns the head as it was sent, less what must not be kept: the
// signatures, and the query, which may hold a credential.
func redact(head []byte) []byte {
	b := make([]byte, 0, len(head))
	for line := range bytes.Lines(head) {
		name, _, _ := bytes.Cut(line, []byte(": "))
		switch query := bytes.IndexByte(line, '?'); {
		case bytes.HasSuffix(name, []byte("-Signature")):
		case len(b) == 0 && query >= 0:
			b = append(b, line[:query]...)
			b = append(b, "?... HTTP/1.1\r\n"...)
		default:
			b = append(b, line...)
		}
	}
	return b
}
