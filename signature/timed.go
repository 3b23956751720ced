package signature

import (
	"crypto"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// The headers of the schemes that sign a timestamp and the body: Stripe, Slack, Timestamped. A
// recorded request of these schemes expires with its timestamp. They sign no id, so a receiver that
// must process each event once has to find an id in the body.
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

// stripeFields writes t=…,v1=…,v1=… with one v1 for every key. It writes nothing else, because some
// verifiers refuse unknown parts.
func (s *Signer) stripeFields(keys []Key) []field {
	macs := make([]int, 0, len(keys))
	for _, k := range keys {
		macs = append(macs, s.mac(crypto.SHA256, []byte(k.Secret.Text())))
	}
	return []field{{name: headerStripe, use: signs, items: []item{func(head []byte, w *workspace) []byte {
		head = append(head, "t="...)
		head = append(head, w.timestamp...)
		for _, mac := range macs {
			head = append(head, ","+prefixStripe...)
			head = hex.AppendEncode(head, w.sum(mac, w.timedPrefix(), w.message.Body))
		}
		return head
	}}}}
}

func (s *Signer) slackFields(key Key) []field {
	mac := s.mac(crypto.SHA256, []byte(key.Secret.Text()))
	return []field{
		companion(headerSlackTimestamp, sentAt),
		{name: headerSlack, use: signs, items: []item{func(head []byte, w *workspace) []byte {
			prefix := append(w.buffer[:0], "v0:"...)
			prefix = append(prefix, w.timestamp...)
			prefix = append(prefix, ':')
			head = append(head, prefixSlack...)
			return hex.AppendEncode(head, w.sum(mac, prefix, w.message.Body))
		}}},
	}
}

func (s *Signer) timestampedFields(key Key) []field {
	mac := s.mac(crypto.SHA256, []byte(key.Secret.Text()))
	named := ""
	if key.ID != "" && visible(key.ID, ',') {
		named = ",keyId=" + key.ID
	}
	return []field{
		companion(standardForm.id, eventID),
		companion(standardForm.timestamp, sentAt),
		{name: standardForm.signature, use: shares, items: []item{func(head []byte, w *workspace) []byte {
			head = append(head, prefixSHA256...)
			head = hex.AppendEncode(head, w.sum(mac, w.timedPrefix(), w.message.Body))
			return append(head, named...)
		}}},
	}
}

func (w *workspace) timedPrefix() []byte {
	return append(append(w.buffer[:0], w.timestamp...), '.')
}

// readStripe reads t=…,v1=…,v1=… and ignores unknown versions. The timestamp must occur exactly
// once, because it is part of the signed content.
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

// readTimestamped ignores the keyId in the header. It tries all keys of the receiver, so the
// request cannot choose a key.
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

// readTimed returns a claim with the timestamp from the header with the name.
func readTimed(h http.Header, name string) (claim, error) {
	text, err := only(h, name)
	if err != nil {
		return claim{}, err
	}
	var c claim
	err = c.readTimestamp(text)
	return c, err
}

// readTimestamp reads unix seconds. It accepts only digits; strconv would also accept a sign. The
// text itself is signed, so it is kept unchanged.
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
