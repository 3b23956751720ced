package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

const hexPrefix = "sha256="

// signTimestamped puts its signature at the front of the value, where its
// receivers look for it.
func signTimestamped(h http.Header, m Message, timestamp string, newest Key) {
	var room [128]byte
	value := appendHex(room[:0], mac(newest.text(), []byte(timestamp+"."), m.Body))
	if newest.ID != "" && visible(newest.ID, ',') {
		value = append(value, ",keyId="...)
		value = append(value, newest.ID...)
	}
	if before := h[headerSignature]; len(before) == 1 {
		value = append(value, ' ')
		value = append(value, before[0]...)
	}
	setWebhook(h, m.ID, timestamp, string(value))
}

func appendHex(value []byte, sum [sha256.Size]byte) []byte {
	return hex.AppendEncode(append(value, hexPrefix...), sum[:])
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
