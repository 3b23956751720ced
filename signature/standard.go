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

// signStandard signs with every key, newest first, one space between the
// items and none at the end: some verifiers split no more carefully than that.
func signStandard(h http.Header, m Message, timestamp string, keys []Key) {
	prefix := standardPrefix(m.ID, timestamp)
	var room [4 * (len(standardVersion) + encodedSize + 1)]byte
	list := room[:0]
	for i, k := range keys {
		if i > 0 {
			list = append(list, ' ')
		}
		sum := mac(k.Secret, prefix, m.Body)
		list = append(list, standardVersion...)
		list = base64.StdEncoding.AppendEncode(list, sum[:])
	}
	value := string(list)
	if before := h[headerSignature]; len(before) == 1 {
		// Timestamped takes its signature from the front of the value. Here its
		// item is one of a version that is not known, which is passed over.
		value = before[0] + " " + value
	}
	setWebhook(h, m.ID, timestamp, value)
}

func standardPrefix(id, timestamp string) []byte { return []byte(id + "." + timestamp + ".") }

// setWebhook sets the three headers with one allocation for their values.
func setWebhook(h http.Header, id, timestamp, signature string) {
	values := []string{id, timestamp, signature}
	h[headerID] = values[0:1:1]
	h[headerTimestamp] = values[1:2:2]
	h[headerSignature] = values[2:3:3]
}

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
