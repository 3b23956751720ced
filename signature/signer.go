package signature

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Signer signs many messages with the same keys in the same formats. It keeps the
// state that HMAC derives from each key, so that signing costs little more than
// hashing the body. It may be used from any goroutine.
//
// NewSigner does all work that does not depend on the message: it checks the
// formats, chooses the keys of each scheme, and compiles both into a list of header
// fields. AppendHeader only fills in their values.
type Signer struct {
	fields []field
	keys   []macKey
	// The workspace that the last signature used. A goroutine takes it out while it
	// signs and puts it back; a goroutine that finds none makes its own. One is kept,
	// because a Signer belongs to one endpoint and mostly one goroutine signs.
	spare atomic.Pointer[workspace]
}

// field is a header field that the signer writes. Its value is the text that the
// items append, separated by one space. A field with an empty value is not written.
type field struct {
	name  string
	items []item
	use   use
}

// use says what happens if two formats write a field of the same name. For example,
// Standard and Timestamped both write Webhook-Id, which accompanies, and
// Webhook-Signature, which they share as a list. Two formats that sign with the same
// custom header exclude each other.
type use int

const (
	accompanies use = iota // one is enough: both have the same value
	signs                  // they exclude each other
	shares                 // their values become one list
)

// item appends one element of a signature header. It reads the message from w.
type item func(head []byte, w *workspace) []byte

// macKey is a key and the hash function that HMAC uses with it. Schemes that use the
// same key and hash share one HMAC state.
type macKey struct {
	hash crypto.Hash
	key  []byte
}

// NewSigner returns a signer for the given formats, at least one. Keys are the active
// keys, newest first.
//
// Every format must have a key that its scheme can use, otherwise the error is
// [ErrNoKey]: a private key signs only [Standard] and [Svix]. No two formats may use
// the same header. The exception is Standard with [Timestamped]: their value is then
// a list that the receivers of both understand.
func NewSigner(keys []Key, formats ...Format) (*Signer, error) {
	if err := checkKeys(keys); err != nil {
		return nil, err
	}
	checked, err := checkFormats(formats)
	if err != nil {
		return nil, err
	}
	s := new(Signer)
	for _, f := range checked {
		fields, err := s.compile(f, keys)
		if err != nil {
			return nil, err
		}
		if err := s.add(fields); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// checkFormats returns the formats with their schemes. It moves Timestamped to the
// front, because its receivers read only the beginning of the value that it shares
// with Standard. Receivers of Standard ignore it as an item of an unknown version:
//
//	Webhook-Signature: sha256=…,keyId=sec_1 v1,…
func checkFormats(formats []Format) ([]Format, error) {
	if len(formats) == 0 {
		return nil, fmt.Errorf("%w: none is named", ErrScheme)
	}
	checked := make([]Format, 0, len(formats))
	for _, f := range formats {
		f, err := f.check()
		if err != nil {
			return nil, err
		}
		if slices.Contains(checked, f) {
			return nil, fmt.Errorf("%w: scheme %s twice", ErrFormat, f.Scheme)
		}
		checked = append(checked, f)
	}
	if i := slices.Index(checked, Format{Scheme: Timestamped}); i > 0 {
		checked[0], checked[i] = checked[i], checked[0]
	}
	return checked, nil
}

// compile returns the fields of a format, with the newest key that its scheme can
// use, or with all of them if its value can list several signatures. During a
// rotation, receivers of the other schemes so have to know the new key first.
func (s *Signer) compile(f Format, keys []Key) ([]field, error) {
	var of []Key // the keys that the scheme can use
	for _, k := range keys {
		switch {
		case k.Secret.is(public):
			return nil, fmt.Errorf("%w: a public key does not sign", ErrNoKey)
		case k.Secret.is(symmetric) || f.Scheme == Standard || f.Scheme == Svix:
			of = append(of, k)
		}
	}
	if len(of) == 0 {
		return nil, fmt.Errorf("%w: scheme %s needs a symmetric secret", ErrNoKey, f.Scheme)
	}
	switch f.Scheme {
	case Standard, Svix:
		return s.listFields(listForms[f.Scheme], of), nil
	case Timestamped:
		return s.timestampedFields(of[0]), nil
	case Stripe:
		return s.stripeFields(of), nil
	case Slack:
		return s.slackFields(of[0]), nil
	default:
		return s.bodyFields(bodyFormOf(f), of[0]), nil
	}
}

// add adds the fields of another format, and merges those that exist.
func (s *Signer) add(fields []field) error {
	for _, f := range fields {
		i := slices.IndexFunc(s.fields, func(other field) bool { return strings.EqualFold(other.name, f.name) })
		switch {
		case i < 0:
			s.fields = append(s.fields, f)
		case f.use != s.fields[i].use || f.use == signs:
			return fmt.Errorf("%w: two formats use the header %s", ErrFormat, f.name)
		case f.use == shares:
			s.fields[i].items = append(s.fields[i].items, f.items...)
		}
	}
	return nil
}

// AppendHeader appends to head the header fields of every format, each ended by
// CRLF, and returns the longer head. No name appears twice. With an error it returns
// head unchanged.
func (s *Signer) AppendHeader(head []byte, m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return head, err
	}
	w := s.spare.Swap(nil)
	if w == nil {
		w = newWorkspace(s.keys)
	}
	w.message = m
	w.timestamp = strconv.AppendInt(w.timestamp[:0], m.Timestamp.Unix(), 10)
	for _, f := range s.fields {
		head = f.append(head, w)
	}
	w.reset()
	s.spare.Store(w)
	return head, nil
}

func (f field) append(head []byte, w *workspace) []byte {
	before := len(head)
	head = append(head, f.name...)
	head = append(head, ": "...)
	empty := len(head)
	for i, item := range f.items {
		if i > 0 {
			head = append(head, ' ')
		}
		head = item(head, w)
	}
	if len(head) == empty {
		return head[:before]
	}
	return append(head, "\r\n"...)
}

// The values of fields that accompany a signature.
var (
	eventID     item = func(head []byte, w *workspace) []byte { return append(head, w.message.ID...) }
	deliveryID  item = func(head []byte, w *workspace) []byte { return append(head, w.message.Delivery...) }
	eventType   item = func(head []byte, w *workspace) []byte { return append(head, w.message.Type...) }
	sentAt      item = func(head []byte, w *workspace) []byte { return append(head, w.timestamp...) }
	triggeredAt item = func(head []byte, w *workspace) []byte {
		if w.message.Occurred.IsZero() {
			return head
		}
		return w.message.Occurred.UTC().AppendFormat(head, time.RFC3339Nano)
	}
)

func companion(name string, value item) field { return field{name: name, items: []item{value}} }

// mac returns the index of the HMAC with the key in the workspace. It adds the key if
// no scheme has used it yet.
func (s *Signer) mac(hash crypto.Hash, key []byte) int {
	same := func(other macKey) bool { return other.hash == hash && bytes.Equal(other.key, key) }
	if i := slices.IndexFunc(s.keys, same); i >= 0 {
		return i
	}
	s.keys = append(s.keys, macKey{hash, key})
	return len(s.keys) - 1
}

// workspace is the memory with which one goroutine signs one message.
type workspace struct {
	macs      []hash.Hash
	message   Message
	timestamp []byte
	buffer    []byte
}

func newWorkspace(keys []macKey) *workspace {
	w := new(workspace)
	for _, k := range keys {
		w.macs = append(w.macs, hmac.New(k.hash.New, k.key))
	}
	return w
}

// sum returns the MAC of prefix and body. The result lies in the buffer of the
// workspace and is valid until the next sum. The prefix lies there, too: it is hashed
// before the result overwrites it, so a signature allocates nothing.
func (w *workspace) sum(mac int, prefix, body []byte) []byte {
	h := w.macs[mac]
	h.Reset()
	h.Write(prefix)
	h.Write(body)
	w.buffer = h.Sum(prefix[:0])
	return w.buffer
}

// reset drops the message, and the buffer if a large body made it grow: ed25519
// needs prefix and body in one piece.
func (w *workspace) reset() {
	w.message = Message{}
	if cap(w.buffer) > 16<<10 {
		w.buffer = nil
	}
}
