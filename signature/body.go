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

// bodyForm is how a scheme signs the body and nothing else.
type bodyForm struct {
	header, prefix string
	hash           crypto.Hash
	base64         bool // and not hexadecimal
	companions     []line
}

// Names on the wire are spelt as the senders that they come from spell them:
// there are receivers that compare them so.
var bodyForms = map[Scheme]bodyForm{
	GitHub:     {header: "X-Hub-Signature-256", prefix: prefixSHA256, hash: crypto.SHA256, companions: githubCompanions},
	GitHubSHA1: {header: "X-Hub-Signature", prefix: prefixSHA1, hash: crypto.SHA1, companions: githubCompanions},
	Shopify:    {header: "X-Shopify-Hmac-Sha256", hash: crypto.SHA256, base64: true, companions: shopifyCompanions},
	Plain:      {header: "X-Webhook-Signature", prefix: prefixSHA256, hash: crypto.SHA256, companions: plainCompanions},
}

var githubCompanions = []line{
	companion("X-GitHub-Event", eventType),
	companion("X-GitHub-Delivery", deliveryID),
}

var shopifyCompanions = []line{
	companion("X-Shopify-Topic", eventType),
	companion("X-Shopify-Webhook-Id", deliveryID),
	companion("X-Shopify-Event-Id", eventID),
	companion("X-Shopify-Triggered-At", triggeredAt),
}

// plainCompanions give the event id twice: receivers look for either name, and
// both must stay the same when the event is delivered again.
var plainCompanions = []line{
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

func (s *Signer) bodyLines(form bodyForm, key Key) []line {
	mac := s.mac(form.hash, []byte(key.Secret.Text()))
	encode := hex.AppendEncode
	if form.base64 {
		encode = base64.StdEncoding.AppendEncode
	}
	value := func(head []byte, at *desk) []byte {
		return encode(append(head, form.prefix...), at.sum(mac, at.room[:0], at.message.Body))
	}
	return append([]line{{name: form.header, items: []item{value}, use: signs}}, form.companions...)
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
