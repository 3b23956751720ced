package signature

import (
	"crypto/sha256"
	"net/http"
)

// Canonical forms of the header names of the plain scheme.
const (
	headerPlainID          = "X-Webhook-Id"
	headerPlainEvent       = "X-Webhook-Event"
	headerPlainTimestamp   = "X-Webhook-Timestamp"
	headerPlainIdempotency = "X-Idempotency-Key"
	headerPlainEventID     = "X-Event-Id"
	headerPlainSignature   = "X-Webhook-Signature"
)

// signPlain gives the event id twice: receivers look for either name, and both
// must stay the same when the event is delivered again.
func signPlain(h http.Header, m Message, timestamp string, newest Key) {
	var room [len(hexPrefix) + 2*sha256.Size]byte
	values := []string{
		m.Delivery, m.Type, timestamp, m.ID, m.ID,
		string(appendHex(room[:0], mac(newest.text(), nil, m.Body))),
	}
	h[headerPlainID] = values[0:1:1]
	h[headerPlainEvent] = values[1:2:2]
	h[headerPlainTimestamp] = values[2:3:3]
	h[headerPlainIdempotency] = values[3:4:4]
	h[headerPlainEventID] = values[4:5:5]
	h[headerPlainSignature] = values[5:6:6]
}

func readPlain(h http.Header) (claim, error) {
	lists := h[headerPlainSignature]
	if len(lists) == 0 {
		return claim{}, ErrNoSignature
	}
	c := claim{textKey: true}
	for _, item := range lists {
		c.addHex(item)
	}
	return c, nil
}
