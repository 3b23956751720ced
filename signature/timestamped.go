package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

const hexPrefix = "sha256="

func (with *macs) appendTimestamped(head []byte, m Message, newest Key) []byte {
	prefix := append(with.room[:0], with.timestamp...)
	prefix = append(prefix, '.')
	head = append(head, hexPrefix...)
	head = hex.AppendEncode(head, with.sum(with.text, prefix, m.Body))
	if newest.ID != "" && visible(newest.ID, ',') {
		head = append(head, ",keyId="...)
		head = append(head, newest.ID...)
	}
	return head
}

// readTimestamped does not look for the key that the header names: all of the
// receiver's keys are tried, and none is chosen by the request.
func readTimestamped(h http.Header) (claim, error) {
	timestamp, err := only(h, headerTimestamp)
	if err != nil {
		return claim{}, err
	}
	sentAt, err := readTimestamp(timestamp)
	if err != nil {
		return claim{}, err
	}
	lists := h[headerSignature]
	if len(lists) == 0 {
		return claim{}, ErrNoSignature
	}
	c := claim{prefix: []byte(timestamp + "."), sentAt: sentAt, timed: true, textKey: true}
	for _, list := range lists {
		for item := range strings.FieldsSeq(list) {
			text, _, _ := strings.Cut(item, ",")
			c.addHex(text)
		}
	}
	return c, nil
}

func (c *claim) addHex(item string) {
	text, ok := strings.CutPrefix(item, hexPrefix)
	if !ok || len(text) != 2*sha256.Size {
		return
	}
	var sum [sha256.Size]byte
	if _, err := hex.Decode(sum[:], []byte(text)); err == nil {
		c.macs = append(c.macs, sum)
	}
}
