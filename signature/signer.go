package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"slices"
	"strconv"
	"sync/atomic"
)

// Signer signs many messages with the same keys and schemes. It keeps what
// HMAC makes of the keys, so that signing costs little more than hashing the
// body. It may be used from any goroutine.
type Signer struct {
	keys    []Key // newest first
	schemes []Scheme
	spare   atomic.Pointer[macs] // nil while a goroutine signs with it
}

// NewSigner returns a signer for every scheme named. Keys are the active ones,
// newest first; they are not to be changed afterwards.
func NewSigner(keys []Key, schemes ...Scheme) (*Signer, error) {
	if err := checkKeys(keys); err != nil {
		return nil, err
	}
	for _, s := range schemes {
		if s != Standard && s != Timestamped && s != Plain {
			return nil, ErrScheme
		}
	}
	return &Signer{keys: slices.Clone(keys), schemes: slices.Clone(schemes)}, nil
}

// AppendHeader appends to head the header lines of every scheme, each ended by
// CRLF, and returns the longer head. No name is there twice. With an error it
// returns head as it was.
//
// Schemes do not disturb each other: where two of them use the same header,
// its value is a list that the receivers of both understand.
func (s *Signer) AppendHeader(head []byte, m Message) ([]byte, error) {
	if err := m.check(); err != nil {
		return head, err
	}
	with := s.spare.Swap(nil)
	if with == nil {
		with = s.newMACs()
	}
	defer s.spare.Store(with)
	with.timestamp = strconv.AppendInt(with.timestamp[:0], m.Timestamp.Unix(), 10)
	standard, timestamped := s.uses(Standard), s.uses(Timestamped)
	if standard || timestamped {
		head = appendLine(head, headerID, m.ID)
		head = appendLine(head, headerTimestamp, with.timestamp)
		head = append(head, headerSignature+": "...)
		if timestamped {
			// At the front of the value, where its receivers look for it. To
			// those of Standard it is an item of a version that they do not
			// know, which is passed over.
			head = with.appendTimestamped(head, m, s.keys[0])
		}
		if standard && timestamped {
			head = append(head, ' ')
		}
		if standard {
			head = with.appendStandard(head, m)
		}
		head = append(head, "\r\n"...)
	}
	if s.uses(Plain) {
		head = with.appendPlain(head, m)
	}
	return head, nil
}

func (s *Signer) uses(scheme Scheme) bool { return slices.Contains(s.schemes, scheme) }

func appendLine[T []byte | string](head []byte, name string, value T) []byte {
	head = append(head, name...)
	head = append(head, ": "...)
	head = append(head, value...)
	return append(head, "\r\n"...)
}

// macs is what one goroutine signs with.
type macs struct {
	keys      []hash.Hash // for Standard, as the keys are
	text      hash.Hash   // for the others: of the newest key's text
	timestamp []byte
	room      []byte
}

func (s *Signer) newMACs() *macs {
	with := new(macs)
	if s.uses(Standard) {
		for _, k := range s.keys {
			with.keys = append(with.keys, hmac.New(sha256.New, k.Secret))
		}
	}
	if s.uses(Timestamped) || s.uses(Plain) {
		with.text = hmac.New(sha256.New, s.keys[0].text())
	}
	return with
}

// sum returns the MAC of prefix and body, in room that is used again.
func (with *macs) sum(mac hash.Hash, prefix, body []byte) []byte {
	mac.Reset()
	mac.Write(prefix)
	mac.Write(body)
	with.room = mac.Sum(prefix[:0])
	return with.room
}
