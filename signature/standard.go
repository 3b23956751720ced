package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// Canonical forms of the header names, so that the map can be used as it is.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

const standardVersion = "v1,"

// encodedSize is the length of a signature of the standard scheme.
const encodedSize = (sha256.Size + 2) / 3 * 4

// appendStandard signs with every key, newest first, one space between the
// items and none at the end: some verifiers split no more carefully than that.
func (with *macs) appendStandard(head []byte, m Message) []byte {
	for i, mac := range with.keys {
		if i > 0 {
			head = append(head, ' ')
		}
		prefix := append(with.room[:0], m.ID...)
		prefix = append(prefix, '.')
		prefix = append(prefix, with.timestamp...)
		prefix = append(prefix, '.')
		head = append(head, standardVersion...)
		head = base64.StdEncoding.AppendEncode(head, with.sum(mac, prefix, m.Body))
	}
	return head
}

func standardPrefix(id, timestamp string) []byte { return []byte(id + "." + timestamp + ".") }

func readStandard(h http.Header) (claim, error) {
	id, err := only(h, headerID)
	if err != nil {
		return claim{}, err
	}
	timestamp, err := only(h, headerTimestamp)
	if err != nil {
		return claim{}, err
	}
	if !visible(id, '.') {
		return claim{}, ErrMalformed
	}
	sentAt, err := readTimestamp(timestamp)
	if err != nil {
		return claim{}, err
	}
	lists := h[headerSignature]
	if len(lists) == 0 {
		return claim{}, ErrNoSignature
	}
	c := claim{prefix: standardPrefix(id, timestamp), sentAt: sentAt, timed: true}
	for _, list := range lists {
		for item := range strings.FieldsSeq(list) {
			c.addStandard(item)
		}
	}
	return c, nil
}

func (c *claim) addStandard(item string) {
	text, ok := strings.CutPrefix(item, standardVersion)
	if !ok || len(text) != encodedSize {
		return
	}
	var sum [sha256.Size + 1]byte // what DecodedLen asks for
	n, err := base64.StdEncoding.Strict().Decode(sum[:], []byte(text))
	if err == nil && n == sha256.Size {
		c.macs = append(c.macs, [sha256.Size]byte(sum[:sha256.Size]))
	}
}
