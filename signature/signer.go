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

// Signer signs many messages with the same keys in the same formats. It keeps the state that HMAC
// derives from each key, so that signing costs little more than hashing the body. It may be used
// from any goroutine.
//
// NewSigner does all the work that does not depend on the message: it checks the formats, chooses
// the keys of each scheme, and compiles both into a list of header fields. AppendHeader only
// computes the values of the fields.
type Signer struct {
	fields []field
	keys   []macKey
	// spare is the workspace that the last signature used. A goroutine takes the workspace while it
	// signs and puts it back afterwards. If there is none, the goroutine makes a new one. One spare
	// is enough, because a Signer belongs to one endpoint and usually one goroutine signs at a
	// time.
	spare atomic.Pointer[workspace]
}

// field is a header field that the signer writes. Its value is the text that the
// items append, separated by one space. A field with an empty value is not written.
type field struct {
	name  string
	items []item
	use   use
}

// use says what happens if two formats write a field of the same name. For example, Standard and
// Timestamped both write Webhook-Id, which accompanies, and Webhook-Signature, whose values they
// share as a list. Two formats that sign in the same custom header exclude each other.
type use int

const (
	accompanies use = iota // the field is written once, because both values are the same
	signs                  // the two formats exclude each other
	shares                 // the two values become one list
)

// item appends one element of a signature header. It reads the message from w.
type item func(head []byte, w *workspace) []byte

// macKey is a key and the hash function that HMAC uses with it. Schemes that use the
// same key and hash share one HMAC state.
type macKey struct {
	hash crypto.Hash
	key  []byte
}

// NewSigner returns a signer for the given formats, at least one. keys are the active keys, newest
// first.
//
// Every format must have a key that its scheme can use; otherwise the error is [ErrNoKey]. A
// private key signs only [Standard] and [Svix]. Two formats must not use the same header. The
// exception is Standard together with [Timestamped]: their value is a list that the receivers of
// both understand.
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

// checkFormats returns the formats with their schemes. It moves Timestamped to the front, because
// its receivers read only the beginning of the value that it shares with Standard. Receivers of
// Standard ignore that item because its version is unknown to them:
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

// compile returns the fields of a format. If the value of the scheme can list several signatures,
// all keys that the scheme can use sign. Otherwise only the newest of these keys signs, so during a
// rotation the receivers of such schemes must know the new key before it is used.
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

// add adds the fields of a format, and merges fields that other formats have added.
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

// AppendHeader appends the header fields of every format to head, each ended by CRLF, and returns
// the longer head. No name appears twice. After an error it returns head unchanged.
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

// mac returns the index in the workspace of the HMAC with the key. It adds the key if no scheme has
// used it yet.
func (s *Signer) mac(hash crypto.Hash, key []byte) int {
	same := func(other macKey) bool { return other.hash == hash && bytes.Equal(other.key, key) }
	if i := slices.IndexFunc(s.keys, same); i >= 0 {
		return i
	}
	s.keys = append(s.keys, macKey{hash, key})
	return len(s.keys) - 1
}

// workspace is the memory that one goroutine needs to sign one message.
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

// sum returns the MAC of prefix and body. The result is in the workspace's buffer and is valid
// until the next call. The prefix may be in the same buffer: it is hashed before the result
// overwrites it. So signing allocates no memory.
func (w *workspace) sum(mac int, prefix, body []byte) []byte {
	h := w.macs[mac]
	h.Reset()
	h.Write(prefix)
	h.Write(body)
	w.buffer = h.Sum(prefix[:0])
	return w.buffer
}

// reset forgets the message. It also drops the buffer if a large body made it grow, which happens
// because ed25519 needs prefix and body in one piece.
func (w *workspace) reset() {
	w.message = Message{}
	if cap(w.buffer) > 16<<10 {
		w.buffer = nil
	}
}
