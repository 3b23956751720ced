package signature

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// listForm has the header names of a scheme that signs like Standard Webhooks: Standard itself, and
// Svix, from which Standard Webhooks comes.
type listForm struct{ id, timestamp, signature string }

var standardForm = listForm{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}

var listForms = map[Scheme]listForm{
	Standard: standardForm,
	Svix:     {"Svix-Id", "Svix-Timestamp", "Svix-Signature"},
}

// The versions of a signature in a list. The comma is a part of the version, so that v1 does not
// match v1a.
const (
	versionMAC     = "v1,"
	versionEd25519 = "v1a,"
)

// listFields signs with every key, newest first. It writes the list in the strictest form that a
// known verifier needs. Between two items is exactly one space and at the end none, for verifiers
// that split at single spaces. v1a comes before v1, for verifiers that know only v1 and read only
// the last item.
func (s *Signer) listFields(form listForm, keys []Key) []field {
	var asymmetric, macs []item
	for _, k := range keys {
		if k.Secret.is(private) {
			asymmetric = append(asymmetric, ed25519Item(k.Secret.open().key))
		} else {
			macs = append(macs, macItem(s.mac(crypto.SHA256, k.Secret.open().key)))
		}
	}
	use := signs
	if form == standardForm {
		use = shares
	}
	return []field{
		companion(form.id, eventID),
		companion(form.timestamp, sentAt),
		{name: form.signature, items: append(asymmetric, macs...), use: use},
	}
}

func macItem(mac int) item {
	return func(head []byte, w *workspace) []byte {
		head = append(head, versionMAC...)
		return base64.StdEncoding.AppendEncode(head, w.sum(mac, w.listPrefix(), w.message.Body))
	}
}

func ed25519Item(key ed25519.PrivateKey) item {
	return func(head []byte, w *workspace) []byte {
		w.buffer = append(w.listPrefix(), w.message.Body...)
		head = append(head, versionEd25519...)
		return base64.StdEncoding.AppendEncode(head, ed25519.Sign(key, w.buffer))
	}
}

func (w *workspace) listPrefix() []byte {
	prefix := append(w.buffer[:0], w.message.ID...)
	prefix = append(prefix, '.')
	prefix = append(prefix, w.timestamp...)
	return append(prefix, '.')
}

func (form listForm) read(h http.Header) (claim, error) {
	id, err := only(h, form.id)
	if err != nil {
		return claim{}, err
	}
	if !visible(id, '.') {
		return claim{}, ErrMalformed
	}
	c, err := readTimed(h, form.timestamp)
	if err != nil {
		return claim{}, err
	}
	lists := h[form.signature]
	if len(lists) == 0 {
		return claim{}, ErrNoSignature
	}
	c.prefix, c.decoded = id+"."+c.timestamp+".", true
	for _, list := range lists {
		for item := range strings.FieldsSeq(list) {
			c.addListed(item)
		}
	}
	return c, nil
}

// addListed adds an item of a list. It ignores an item of an unknown version.
func (c *claim) addListed(item string) {
	if text, ok := strings.CutPrefix(item, versionMAC); ok {
		c.addBase64(text, sha256.Size)
	}
	if text, ok := strings.CutPrefix(item, versionEd25519); ok {
		c.addBase64(text, ed25519.SignatureSize)
	}
}
