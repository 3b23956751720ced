package apikeys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// prefix distinguishes API keys from other secrets.
const prefix = "pr_"

// Make returns a new API key and its hash.
func Make() (key string, hash [32]byte) { return MakeSecret(prefix) }

// MakeSecret returns a new secret and its hash. The secret is the prefix, followed by the base64 of
// 256 random bits and a checksum. The store keeps only the hash. With that many random bits, a fast
// hash without salt is enough: guessing cannot reverse it.
//
// Because of the checksum, a text that was never issued costs no query. The checksum does not stop
// somebody who computes it; see [Lookups].
func MakeSecret(prefix string) (text string, hash [32]byte) {
	var random [36]byte
	rand.Read(random[:32]) // never fails, by its documentation
	binary.BigEndian.PutUint32(random[32:], checksum(prefix, random[:32]))
	text = prefix + base64.RawURLEncoding.EncodeToString(random[:])
	return text, sha256.Sum256([]byte(text))
}

// checksum returns the CRC-32 of a secret's prefix and random bits.
func checksum(prefix string, random []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(prefix)), crc32.IEEETable, random)
}

// Issuable reports whether MakeSecret could have made the text.
func Issuable(prefix, text string) bool {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(encoded) != base64.RawURLEncoding.EncodedLen(36) {
		return false
	}
	random, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return err == nil && len(random) == 36 && binary.BigEndian.Uint32(random[32:]) == checksum(prefix, random[:32])
}
