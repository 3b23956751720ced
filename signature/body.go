package signature

import (
	"crypto"
	_ "crypto/sha1" // for receivers that know no other
	_ "crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// bodyForm describes a scheme that signs only the body: the header of the signature, its prefix and
// encoding, the hash, and the companions. Companions are other header fields that the scheme sends.
// They are not signed, so a receiver must not trust them.
type bodyForm struct {
	header, prefix string
	hash           crypto.Hash
	base64         bool // true: base64; false: hexadecimal
	companions     []field
}

// bodyForms has the header names exactly as the original senders write them, because some receivers
// compare names case-sensitively.
var bodyForms = map[Scheme]bodyForm{
	GitHub:     {header: "X-Hub-Signature-256", prefix: prefixSHA256, hash: crypto.SHA256, companions: githubCompanions},
	GitHubSHA1: {header: "X-Hub-Signature", prefix: prefixSHA1, hash: crypto.SHA1, companions: githubCompanions},
	Shopify:    {header: "X-Shopify-Hmac-Sha256", hash: crypto.SHA256, base64: true, companions: shopifyCompanions},
	Plain:      {header: "X-Webhook-Signature", prefix: prefixSHA256, hash: crypto.SHA256, companions: plainCompanions},
}

var githubCompanions = []field{
	companion("X-GitHub-Event", eventType),
	companion("X-GitHub-Delivery", deliveryID),
}

var shopifyCompanions = []field{
	companion("X-Shopify-Topic", eventType),
	companion("X-Shopify-Webhook-Id", deliveryID),
	companion("X-Shopify-Event-Id", eventID),
	companion("X-Shopify-Triggered-At", triggeredAt),
}

// plainCompanions have the event's id under two names, because receivers look for either. Both stay
// the same when the event is sent again.
var plainCompanions = []field{
	companion("X-Webhook-ID", deliveryID),
	companion("X-Webhook-Event", eventType),
	companion("X-Webhook-Timestamp", sentAt),
	companion("X-Idempotency-Key", eventID),
	companion("X-Event-ID", eventID),
}

func bodyFormOf(f Format) bodyForm {
	form := bodyForms[f.Scheme]
	if f.Header != "" {
		form.header, form.prefix = f.Header, f.Prefix
	}
	return form
}

func (s *Signer) bodyFields(form bodyForm, key Key) []field {
	mac := s.mac(form.hash, []byte(key.Secret.Text()))
	encode := hex.AppendEncode
	if form.base64 {
		encode = base64.StdEncoding.AppendEncode
	}
	value := func(head []byte, w *workspace) []byte {
		return encode(append(head, form.prefix...), w.sum(mac, w.buffer[:0], w.message.Body))
	}
	return append([]field{{name: form.header, items: []item{value}, use: signs}}, form.companions...)
}

func (form bodyForm) read(h http.Header) (claim, error) {
	values := h[http.CanonicalHeaderKey(form.header)]
	if len(values) == 0 {
		return claim{}, ErrNoSignature
	}
	c := claim{hash: form.hash}
	for _, value := range values {
		if !form.base64 {
			c.addHex(value, form.prefix, form.hash)
		} else if text, ok := strings.CutPrefix(value, form.prefix); ok {
			c.addBase64(text, form.hash.Size())
		}
	}
	return c, nil
}
