package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// KeyID names a key of a ring. It is no secret.
type KeyID [8]byte

// String returns the id as 16 hexadecimal digits.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Ring is one key or more, the newest first. The zero Ring has none and is of
// no use.
type Ring struct{ keys []ringKey }

type ringKey struct {
	id    KeyID
	bytes *[32]byte // a pointer, behind which %v of whatever holds a ring does not look
}

func (k ringKey) aead() cipher.AEAD {
	block, err := aes.NewCipher(k.bytes[:])
	if err != nil {
		panic("make cipher: " + err.Error()) // 32 bytes are a key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("make AEAD: " + err.Error()) // AES has the right block
	}
	return aead
}

// NewRing returns a ring of one key, drawn from random.
func NewRing(random io.Reader) (Ring, error) { return Ring{}.Grow(random) }

// Grow returns the ring with a new key, drawn from random, in front.
func (r Ring) Grow(random io.Reader) (Ring, error) {
	k := ringKey{bytes: new([32]byte)}
	for {
		if _, err := io.ReadFull(random, k.id[:]); err != nil {
			return Ring{}, fmt.Errorf("draw a sealing key: %w", err)
		}
		if !r.Has(k.id) {
			break
		}
	}
	if _, err := io.ReadFull(random, k.bytes[:]); err != nil {
		return Ring{}, fmt.Errorf("draw a sealing key: %w", err)
	}
	return Ring{append([]ringKey{k}, r.keys...)}, nil
}

// Newest returns the id of the key that seals.
func (r Ring) Newest() KeyID {
	if len(r.keys) == 0 {
		return KeyID{}
	}
	return r.keys[0].id
}

// IDs returns the ids of the keys, the newest first.
func (r Ring) IDs() []KeyID {
	var ids []KeyID
	for _, k := range r.keys {
		ids = append(ids, k.id)
	}
	return ids
}

// Has reports whether the ring has the key.
func (r Ring) Has(id KeyID) bool { return slices.Contains(r.IDs(), id) }

// Alone returns a ring of the newest key alone.
func (r Ring) Alone() Ring { return Ring{slices.Clone(r.keys[:min(1, len(r.keys))])} }

// Demoted returns a ring with the newest key as the last: servers that have it
// can open what those seal that were given the ring before them.
func (r Ring) Demoted() Ring {
	if len(r.keys) == 0 {
		return r
	}
	return Ring{append(slices.Clone(r.keys[1:]), r.keys[0])}
}

var errRing = errors.New("must be 16 hexadecimal digits, a colon and the base64 of 32 bytes")

// Parse reads the text of a ring: a key a line, its id in hexadecimal, a colon,
// and the base64 of its bytes. Commas may stand for line breaks.
func Parse(text []byte) (Ring, error) {
	var r Ring
	n := 0
	for line := range bytes.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == ',' }) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		n++
		k, err := parseKey(string(line))
		if err != nil {
			return Ring{}, fmt.Errorf("key %d of the ring: %w", n, err)
		}
		if r.Has(k.id) {
			return Ring{}, fmt.Errorf("key %d of the ring: %s is there twice", n, k.id)
		}
		r.keys = append(r.keys, k)
	}
	if len(r.keys) == 0 {
		return Ring{}, errors.New("the ring has no key")
	}
	return r, nil
}

func parseKey(line string) (ringKey, error) {
	k := ringKey{bytes: new([32]byte)}
	id, text, _ := strings.Cut(line, ":")
	if len(id) != 2*len(k.id) || len(text) != base64.StdEncoding.EncodedLen(len(k.bytes)) {
		return k, errRing
	}
	if _, err := hex.Decode(k.id[:], []byte(id)); err != nil {
		return k, errRing
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(decoded) != len(k.bytes) {
		return k, errRing
	}
	copy(k.bytes[:], decoded)
	return k, nil
}

// Format returns the text that [Parse] reads, a key a line. It holds the keys:
// this is the only way to them.
func (r Ring) Format() []byte {
	var text []byte
	for _, k := range r.keys {
		text = append(text, k.id.String()...)
		text = append(text, ':')
		text = base64.StdEncoding.AppendEncode(text, k.bytes[:])
		text = append(text, '\n')
	}
	return text
}

// String names the keys of the ring.
func (r Ring) String() string { return fmt.Sprint(r.IDs()) }

// GoString names the keys of the ring.
func (r Ring) GoString() string { return r.String() }

// LogValue names the keys of the ring.
func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }
