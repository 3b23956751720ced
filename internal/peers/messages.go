package peers

import (
	"bufio"
	"crypto/tls"
	"encoding/gob"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/schedule"
)

// protocol names the form of the messages. A change of a field that they contain needs a new name, so
// that nodes of two versions hand nothing to each other and lose no field of an event.
const protocol = "postrider-handover-4"

// greeting is the first message of the node that takes. It follows the check of the other node's key:
// in TLS 1.3, the handshake of a client ends before that.
type greeting struct{ Session schedule.Session }

// handover has deliveries that were committed, by their events. Their own Event is nil. An empty one
// only shows that the node lives.
type handover struct {
	Events     []*postrider.Event
	Deliveries [][]schedule.Handed // those of each event
}

// acknowledgement says that this many deliveries of the session were taken or given back.
type acknowledgement struct {
	Deliveries int
	Refused    []postrider.EndpointID // see [schedule.Core.TakeHanded]
}

// handoverOf groups deliveries by their events, until there are messageBytes. It returns the deliveries
// that are left for the next message. Deliveries of one event follow each other.
func handoverOf(deliveries []schedule.Handed) (h handover, left []schedule.Handed) {
	var last *postrider.Event
	bytes := 0
	for i, d := range deliveries {
		if d.Event != last {
			if bytes >= messageBytes {
				return h, deliveries[i:]
			}
			last = d.Event
			bytes += last.Size()
			h.Events, h.Deliveries = append(h.Events, last), append(h.Deliveries, nil)
		}
		d.Event = nil
		at := len(h.Deliveries) - 1
		h.Deliveries[at] = append(h.Deliveries[at], d)
	}
	return h, nil
}

// deliveries returns the deliveries with their events.
func (h handover) deliveries() (all []schedule.Handed, err error) {
	if len(h.Events) != len(h.Deliveries) {
		return nil, fmt.Errorf("%d events and deliveries of %d", len(h.Events), len(h.Deliveries))
	}
	for i, of := range h.Deliveries {
		for _, d := range of {
			d.Event = h.Events[i]
			all = append(all, d)
		}
	}
	return all, nil
}

// stream sends and receives the messages of one connection.
type stream struct {
	conn    *tls.Conn
	out     *bufio.Writer
	encoder *gob.Encoder
	decoder *gob.Decoder
}

func newStream(conn *tls.Conn) *stream {
	out := bufio.NewWriter(conn)
	return &stream{conn, out, gob.NewEncoder(out), gob.NewDecoder(conn)}
}

// send sends a message within some seconds.
func (s *stream) send(message any) error {
	_ = s.conn.SetWriteDeadline(time.Now().Add(ioTimeout))
	if err := s.encoder.Encode(message); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// receive waits for a message, but not longer than a node may be silent. The message must be a new zero
// value, because gob does not send fields that are zero.
func (s *stream) receive(message any) error {
	_ = s.conn.SetReadDeadline(time.Now().Add(silence))
	if err := s.decoder.Decode(message); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}
