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

// Signer signs many messages with the same keys in the same formats. It keeps
// what HMAC makes of the keys, so that signing costs little more than hashing
// the body. It may be used from any goroutine.
type Signer struct {
	lines []line
	keys  []macKey
	spare atomic.Pointer[desk] // nil while a goroutine signs at it
}

// line is a header that the signer writes. Its value is what the items append,
// with one space between.
type line struct {
	name  string
	items []item
	use   use
}

// use is what becomes of a line when there is another of its name.
type use int

const (
	accompanies use = iota // one is enough: both have the same value
	signs                  // they exclude each other
	shares                 // their values become one list
)

// item appends a part of a value. What it needs is on the desk.
type item func(head []byte, at *desk) []byte

// macKey is a key with the hash that it is for.
type macKey struct {
	hash crypto.Hash
	key  []byte
}

// NewSigner returns a signer for every format named, at least one. Keys are the active ones,
// newest first.
//
// Every format must have a key that its scheme can use, else the error is an
// [ErrNoKey]: a private key alone signs nothing but [Standard] and [Svix]. No
// two formats may use the same header, but for Standard and [Timestamped],
// whose value then is a list that the receivers of both understand.
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
		lines, err := s.compile(f, keys)
		if err != nil {
			return nil, err
		}
		if err := s.add(lines); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// checkFormats returns the formats with their schemes. Timestamped is the
// first: its receivers look at the front of the value that it shares with
// Standard. To those of Standard it is an item of a version that they do not
// know, which is passed over.
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

// compile returns the lines of a format.
func (s *Signer) compile(f Format, keys []Key) ([]line, error) {
	var of []Key // the scheme's
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
		return s.listLines(listForms[f.Scheme], of), nil
	case Timestamped:
		return s.timestampedLines(of[0]), nil
	case Stripe:
		return s.stripeLines(of), nil
	case Slack:
		return s.slackLines(of[0]), nil
	default:
		return s.bodyLines(bodyFormOf(f), of[0]), nil
	}
}

// add takes the lines of another format.
func (s *Signer) add(lines []line) error {
	for _, l := range lines {
		i := slices.IndexFunc(s.lines, func(other line) bool { return strings.EqualFold(other.name, l.name) })
		switch {
		case i < 0:
			s.lines = append(s.lines, l)
		case l.use != s.lines[i].use || l.use == signs:
			return fmt.Errorf("%w: two formats use the header %s", ErrFormat, l.name)
		case l.use == shares:
			s.lines[i].items = append(s.lines[i].items, l.items...)
		}
	}
	return nil
}

// AppendHeader appends to head the header lines of every format, each ended by
// CRLF, and returns the longer head. No name is there twice. With an error it
// returns head as it was.
func (s *Signer) AppendHeader(head []byte, m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return head, err
	}
	at := s.spare.Swap(nil)
	if at == nil {
		at = newDesk(s.keys)
	}
	at.message = m
	at.timestamp = strconv.AppendInt(at.timestamp[:0], m.Timestamp.Unix(), 10)
	for _, l := range s.lines {
		head = l.append(head, at)
	}
	at.tidy()
	s.spare.Store(at)
	return head, nil
}

func (l line) append(head []byte, at *desk) []byte {
	before := len(head)
	head = append(head, l.name...)
	head = append(head, ": "...)
	empty := len(head)
	for i, item := range l.items {
		if i > 0 {
			head = append(head, ' ')
		}
		head = item(head, at)
	}
	if len(head) == empty {
		return head[:before]
	}
	return append(head, "\r\n"...)
}

// Values of companions.
var (
	eventID     item = func(head []byte, at *desk) []byte { return append(head, at.message.ID...) }
	deliveryID  item = func(head []byte, at *desk) []byte { return append(head, at.message.Delivery...) }
	eventType   item = func(head []byte, at *desk) []byte { return append(head, at.message.Type...) }
	sentAt      item = func(head []byte, at *desk) []byte { return append(head, at.timestamp...) }
	triggeredAt item = func(head []byte, at *desk) []byte {
		if at.message.Occurred.IsZero() {
			return head
		}
		return at.message.Occurred.UTC().AppendFormat(head, time.RFC3339Nano)
	}
)

func companion(name string, value item) line { return line{name: name, items: []item{value}} }

// mac returns the place on the desk of the MAC with the key.
func (s *Signer) mac(hash crypto.Hash, key []byte) int {
	same := func(other macKey) bool { return other.hash == hash && bytes.Equal(other.key, key) }
	if i := slices.IndexFunc(s.keys, same); i >= 0 {
		return i
	}
	s.keys = append(s.keys, macKey{hash, key})
	return len(s.keys) - 1
}

// desk is what one goroutine signs at.
type desk struct {
	macs      []hash.Hash
	message   Message
	timestamp []byte
	room      []byte
}

func newDesk(keys []macKey) *desk {
	at := new(desk)
	for _, k := range keys {
		at.macs = append(at.macs, hmac.New(k.hash.New, k.key))
	}
	return at
}

// sum returns the MAC of prefix and body, in room that is used again. The
// prefix is in that room too.
func (at *desk) sum(mac int, prefix, body []byte) []byte {
	h := at.macs[mac]
	h.Reset()
	h.Write(prefix)
	h.Write(body)
	at.room = h.Sum(prefix[:0])
	return at.room
}

// tidy lets go of the message, and of the room that a large body took.
func (at *desk) tidy() {
	at.message = Message{}
	if cap(at.room) > 16<<10 {
		at.room = nil
	}
}
