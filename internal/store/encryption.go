package store

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/postrider/postrider"
)

// Encryption lists the encrypted values of a store, so that they can be encrypted again with a
// newer key. It also keeps one keyring, for a database whose servers are given no keys. The store
// itself cannot decrypt anything.
type Encryption interface {
	// Keyring returns the stored keyring, or nil if none is stored.
	Keyring(ctx context.Context) ([]byte, error)

	// SwapKeyring replaces the stored keyring old (nil: none) by next, atomically. It returns the
	// keyring stored afterwards. If that is not next, another caller changed the keyring first; this
	// is not an error.
	SwapKeyring(ctx context.Context, old, next []byte) ([]byte, error)

	// EncryptedValues lists the encrypted secrets, credentials, archive keys and passwords of sources whose
	// id comes after the given one, ordered by id, at most limit. The list includes expired secrets and the secrets
	// of deleted endpoints.
	EncryptedValues(ctx context.Context, after EncryptedID, limit int) ([]EncryptedValue, error)

	// Reencrypt replaces each value that still equals Old by New, and returns the number of replaced
	// values. Both values encrypt the same text, so the revision of the endpoint stays as it is.
	Reencrypt(ctx context.Context, list []Reencryption) (int, error)
}

// EncryptedID names an encrypted value of one of four kinds:
//
//   - a secret of an endpoint: Endpoint and Secret are set
//   - the credentials of an endpoint: only Endpoint is set
//   - the archive key of an account: only Archive is set
//   - the password of a source: only Source is set
//
// Passwords sort first, then archive keys. The credentials of an endpoint sort before its secrets.
type EncryptedID struct {
	Endpoint postrider.EndpointID
	Secret   postrider.SecretID
	Archive  postrider.AccountID // zero unless the value is an archive key
	Source   postrider.SourceID  // zero unless the value is the password of a source
}

// Compare orders ids by endpoint, then by secret, then by account, then by source.
func (id EncryptedID) Compare(other EncryptedID) int {
	return cmp.Or(id.Endpoint.Compare(other.Endpoint), id.Secret.Compare(other.Secret), id.Archive.Compare(other.Archive),
		id.Source.Compare(other.Source))
}

// Before returns the id directly before id, so that a list that starts after the result begins
// with id. It subtracts one from the id, read as a number of 64 bytes.
func (id EncryptedID) Before() EncryptedID {
	for _, part := range [][]byte{id.Source[:], id.Archive[:], id.Secret[:], id.Endpoint[:]} {
		for i := range slices.Backward(part) {
			part[i]--
			if part[i] != 0xff { // no borrow from the next byte
				return id
			}
		}
	}
	return id
}

// EncryptedValue is a stored secret, the stored credentials of an endpoint, a stored archive key, or the
// stored password of a source.
type EncryptedValue struct {
	ID    EncryptedID
	Bytes []byte
}

// LogValue returns only the ids, because encrypted bytes do not belong in logs.
func (v EncryptedValue) LogValue() slog.Value {
	return slog.GroupValue(slog.String("endpoint", v.ID.Endpoint.String()), slog.String("secret", v.ID.Secret.String()),
		slog.String("archive", v.ID.Archive.String()), slog.String("outbox", v.ID.Source.String()))
}

// Reencryption replaces the value Old by New: the same text, encrypted with another key.
type Reencryption struct {
	ID       EncryptedID
	Old, New []byte
}
