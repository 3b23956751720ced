package signature

import (
	"encoding/hex"
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

// appendPlain gives the event id twice: receivers look for either name, and
// both must stay the same when the event is delivered again.
func (with *macs) appendPlain(head []byte, m Message) []byte {
	head = appendLine(head, headerPlainID, m.Delivery)
	head = appendLine(head, headerPlainEvent, m.Type)
	head = appendLine(head, headerPlainTimestamp, with.timestamp)
	head = appendLine(head, headerPlainIdempotency, m.ID)
	head = appendLine(head, headerPlainEventID, m.ID)
	head = append(head, headerPlainSignature+": "+hexPrefix...)
	head = hex.AppendEncode(head, with.sum(with.text, with.room[:0], m.Body))
	return append(head, "\r\n"...)
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
