package signature

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// listForm is where a scheme that signs like Standard Webhooks has its headers.
type listForm struct{ id, timestamp, signature string }

var standardForm = listForm{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}

var listForms = map[Scheme]listForm{
	Standard: standardForm,
	Svix:     {"Svix-Id", "Svix-Timestamp", "Svix-Signature"},
}

// The versions of a signature in a list.
const (
	versionMAC     = "v1,"
	versionEd25519 = "v1a,"
)

// listLines signs with every key, newest first, one space between the items and
// none at the end: some verifiers split no more carefully than that. Others
// look at the last item alone and know only v1, so those of v1a come before.
func (s *Signer) listLines(form listForm, keys []Key) []line {
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
	return []line{
		companion(form.id, eventID),
		companion(form.timestamp, sentAt),
		{name: form.signature, items: append(asymmetric, macs...), use: use},
	}
}

func macItem(mac int) item {
	return func(head []byte, at *desk) []byte {
		head = append(head, versionMAC...)
		return base64.StdEncoding.AppendEncode(head, at.sum(mac, at.listPrefix(), at.message.Body))
	}
}

func ed25519Item(key ed25519.PrivateKey) item {
	return func(head []byte, at *desk) []byte {
		at.room = append(at.listPrefix(), at.message.Body...)
		head = append(head, versionEd25519...)
		return base64.StdEncoding.AppendEncode(head, ed25519.Sign(key, at.room))
	}
}

func (at *desk) listPrefix() []byte {
	prefix := append(at.room[:0], at.message.ID...)
	prefix = append(prefix, '.')
	prefix = append(prefix, at.timestamp...)
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

// addListed takes the item of a list, unless its version is unknown.
func (c *claim) addListed(item string) {
	if text, ok := strings.CutPrefix(item, versionMAC); ok {
		c.addBase64(text, sha256.Size)
	}
	if text, ok := strings.CutPrefix(item, versionEd25519); ok {
		c.addBase64(text, ed25519.SignatureSize)
	}
}
