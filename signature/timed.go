package signature

import (
	"crypto"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// The schemes that sign a timestamp and the body: Stripe, Slack, Timestamped.
const (
	headerStripe         = "Stripe-Signature"
	headerSlack          = "X-Slack-Signature"
	headerSlackTimestamp = "X-Slack-Request-Timestamp"
)

const (
	prefixSHA256 = "sha256="
	prefixSHA1   = "sha1="
	prefixSlack  = "v0="
	prefixStripe = "v1="
)

// stripeLines puts nothing into the header but the timestamp and a v1 for every
// key: some verifiers refuse what else there might be.
func (s *Signer) stripeLines(keys []Key) []line {
	macs := make([]int, 0, len(keys))
	for _, k := range keys {
		macs = append(macs, s.mac(crypto.SHA256, []byte(k.Secret.Text())))
	}
	return []line{{name: headerStripe, use: signs, items: []item{func(head []byte, at *desk) []byte {
		head = append(head, "t="...)
		head = append(head, at.timestamp...)
		for _, mac := range macs {
			head = append(head, ","+prefixStripe...)
			head = hex.AppendEncode(head, at.sum(mac, at.timedPrefix(), at.message.Body))
		}
		return head
	}}}}
}

func (s *Signer) slackLines(key Key) []line {
	mac := s.mac(crypto.SHA256, []byte(key.Secret.Text()))
	return []line{
		companion(headerSlackTimestamp, sentAt),
		{name: headerSlack, use: signs, items: []item{func(head []byte, at *desk) []byte {
			prefix := append(at.room[:0], "v0:"...)
			prefix = append(prefix, at.timestamp...)
			prefix = append(prefix, ':')
			head = append(head, prefixSlack...)
			return hex.AppendEncode(head, at.sum(mac, prefix, at.message.Body))
		}}},
	}
}

func (s *Signer) timestampedLines(key Key) []line {
	mac := s.mac(crypto.SHA256, []byte(key.Secret.Text()))
	named := ""
	if key.ID != "" && visible(key.ID, ',') {
		named = ",keyId=" + key.ID
	}
	return []line{
		companion(standardForm.id, eventID),
		companion(standardForm.timestamp, sentAt),
		{name: standardForm.signature, use: shares, items: []item{func(head []byte, at *desk) []byte {
			head = append(head, prefixSHA256...)
			head = hex.AppendEncode(head, at.sum(mac, at.timedPrefix(), at.message.Body))
			return append(head, named...)
		}}},
	}
}

func (at *desk) timedPrefix() []byte {
	return append(append(at.room[:0], at.timestamp...), '.')
}

// readStripe passes over versions that it does not know.
func readStripe(h http.Header) (claim, error) {
	list, err := only(h, headerStripe)
	if err != nil {
		return claim{}, err
	}
	var c claim
	for item := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(item, "=")
		switch {
		case name == "t" && c.timed:
			return claim{}, ErrMalformed
		case name == "t":
			if err := c.readTimestamp(value); err != nil {
				return claim{}, err
			}
		default:
			c.addHex(item, prefixStripe, crypto.SHA256)
		}
	}
	if !c.timed {
		return claim{}, ErrMalformed
	}
	c.prefix = c.timestamp + "."
	return c, nil
}

func readSlack(h http.Header) (claim, error) {
	c, err := readTimed(h, headerSlackTimestamp)
	if err != nil {
		return claim{}, err
	}
	list, err := only(h, headerSlack)
	if err != nil {
		return claim{}, err
	}
	c.prefix = "v0:" + c.timestamp + ":"
	c.addHex(list, prefixSlack, crypto.SHA256)
	return c, nil
}

// readTimestamped does not look for the key that the header names: all of the
// receiver's keys are tried, and none is chosen by the request.
func readTimestamped(h http.Header) (claim, error) {
	c, err := readTimed(h, standardForm.timestamp)
	if err != nil {
		return claim{}, err
	}
	lists := h[standardForm.signature]
	if len(lists) == 0 {
		return claim{}, ErrNoSignature
	}
	c.prefix = c.timestamp + "."
	for _, list := range lists {
		for item := range strings.FieldsSeq(list) {
			text, _, _ := strings.Cut(item, ",")
			c.addHex(text, prefixSHA256, crypto.SHA256)
		}
	}
	return c, nil
}

// readTimed returns a claim with the timestamp that a header of its own has.
func readTimed(h http.Header, name string) (claim, error) {
	text, err := only(h, name)
	if err != nil {
		return claim{}, err
	}
	var c claim
	err = c.readTimestamp(text)
	return c, err
}

// readTimestamp reads unix seconds: digits alone, since strconv would also take
// a sign, and the text is signed as it is.
func (c *claim) readTimestamp(text string) error {
	if text == "" || len(text) > 12 {
		return ErrMalformed
	}
	var seconds int64
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return ErrMalformed
		}
		seconds = seconds*10 + int64(digit)
	}
	c.timed, c.timestamp, c.sentAt = true, text, time.Unix(seconds, 0)
	return nil
}
