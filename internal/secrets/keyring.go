package secrets

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

// KeyID names a key of a keyring. It is not secret: every encrypted value starts
// with the id of its key.
type KeyID [8]byte

// String returns the id as 16 hexadecimal digits.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Keyring holds the encryption keys of one store, newest first. The newest key encrypts, and every
// key decrypts. A Keyring never changes; its methods return new ones. The zero Keyring has no key
// and stands for a keyring that does not exist.
type Keyring struct{ keys []key }

// key is one AES-256 key with its random id. It never changes.
type key struct {
	id    KeyID
	bytes *[32]byte // fmt prints a nested pointer as an address, so it never prints the key
}

// aead returns the cipher of the key. The cipher draws a random 96-bit nonce for each value and
// puts the nonce before the ciphertext.
func (k key) aead() cipher.AEAD {
	block, err := aes.NewCipher(k.bytes[:])
	if err != nil {
		panic("make cipher: " + err.Error()) // cannot happen: 32 bytes are an AES-256 key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("make AEAD: " + err.Error()) // cannot happen: AES has the block size that GCM needs
	}
	return aead
}

// NewKeyring returns a keyring with one key, read from random.
func NewKeyring(random io.Reader) (Keyring, error) { return Keyring{}.Add(random) }

// Add returns the keyring with a new key at the front. The key and its id are read from random. Add
// reads the id again until it differs from all ids of the keyring.
func (r Keyring) Add(random io.Reader) (Keyring, error) {
	k := key{bytes: new([32]byte)}
	for {
		if _, err := io.ReadFull(random, k.id[:]); err != nil {
			return Keyring{}, fmt.Errorf("make an encryption key: %w", err)
		}
		if !r.Has(k.id) {
			break
		}
	}
	if _, err := io.ReadFull(random, k.bytes[:]); err != nil {
		return Keyring{}, fmt.Errorf("make an encryption key: %w", err)
	}
	return Keyring{append([]key{k}, r.keys...)}, nil
}

// Newest returns the id of the key that encrypts; zero for the zero Keyring.
func (r Keyring) Newest() KeyID {
	if len(r.keys) == 0 {
		return KeyID{}
	}
	return r.keys[0].id
}

// IDs returns the ids of the keys, newest first.
func (r Keyring) IDs() []KeyID {
	var ids []KeyID
	for _, k := range r.keys {
		ids = append(ids, k.id)
	}
	return ids
}

// Has reports whether the keyring has the key.
func (r Keyring) Has(id KeyID) bool { return slices.Contains(r.IDs(), id) }

// NewestOnly returns a keyring that has only the newest key.
func (r Keyring) NewestOnly() Keyring { return Keyring{slices.Clone(r.keys[:min(1, len(r.keys))])} }

// NewestLast returns the keyring with its newest key moved to the end, where that key decrypts but
// does not encrypt. When a key is rotated by hand, the servers get this keyring first. So all of
// them can decrypt with the new key before one of them encrypts with it.
func (r Keyring) NewestLast() Keyring {
	if len(r.keys) == 0 {
		return r
	}
	return Keyring{append(slices.Clone(r.keys[1:]), r.keys[0])}
}

// errKeyFormat names the format and never quotes the text, which may be a key.
var errKeyFormat = errors.New("must be 16 hexadecimal digits, a colon and the base64 of 32 bytes")

// Parse reads the text of a keyring. It has one key a line, newest first: the id in hexadecimal, a
// colon, and the base64 of the key. Commas may separate keys instead of line breaks. Errors never
// quote the text.
func Parse(text []byte) (Keyring, error) {
	var r Keyring
	n := 0
	for field := range bytes.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == ',' }) {
		field = bytes.TrimSpace(field)
		if len(field) == 0 {
			continue
		}
		n++
		k, err := parseKey(string(field))
		if err != nil {
			return Keyring{}, fmt.Errorf("key %d of the keyring: %w", n, err)
		}
		if r.Has(k.id) {
			return Keyring{}, fmt.Errorf("key %d of the keyring: id %s occurs twice", n, k.id)
		}
		r.keys = append(r.keys, k)
	}
	if len(r.keys) == 0 {
		return Keyring{}, errors.New("the keyring has no key")
	}
	return r, nil
}

// parseKey reads one key. It checks the lengths first. It refuses base64 with stray bits at its
// end, so that a keyring with a typing error does not become another key.
func parseKey(text string) (key, error) {
	k := key{bytes: new([32]byte)}
	id, encoded, _ := strings.Cut(text, ":")
	if len(id) != 2*len(k.id) || len(encoded) != base64.StdEncoding.EncodedLen(len(k.bytes)) {
		return k, errKeyFormat
	}
	if _, err := hex.Decode(k.id[:], []byte(id)); err != nil {
		return k, errKeyFormat
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(decoded) != len(k.bytes) {
		return k, errKeyFormat
	}
	copy(k.bytes[:], decoded)
	return k, nil
}

// Format returns the text that [Parse] reads; nil for the zero Keyring. The text contains the keys.
// Only this method and setting, which uses it, reveal them.
func (r Keyring) Format() []byte {
	var text []byte
	for _, k := range r.keys {
		text = append(text, k.id.String()...)
		text = append(text, ':')
		text = base64.StdEncoding.AppendEncode(text, k.bytes[:])
		text = append(text, '\n')
	}
	return text
}

// setting returns the text in one line, for the value of a setting.
func (r Keyring) setting() string {
	return strings.ReplaceAll(strings.TrimSpace(string(r.Format())), "\n", ",")
}

// String returns the ids of the keys, never the keys.
func (r Keyring) String() string { return fmt.Sprint(r.IDs()) }

// GoString returns the ids of the keys, never the keys.
func (r Keyring) GoString() string { return r.String() }

// LogValue returns the ids of the keys, never the keys.
func (r Keyring) LogValue() slog.Value { return slog.StringValue(r.String()) }
