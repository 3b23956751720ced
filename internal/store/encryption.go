package store

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/postrider/postrider"
)

// Encryption lists the encrypted values of a store, so that they can be
// encrypted again with a newer key, and keeps one keyring for a database whose
// servers are given no keys. The store itself cannot decrypt anything.
type Encryption interface {
	// Keyring returns the stored keyring; nil: none is stored.
	Keyring(ctx context.Context) ([]byte, error)

	// SwapKeyring replaces the stored keyring old (nil: none) by next,
	// atomically. It returns the keyring stored afterwards. If that is not next,
	// somebody else changed it first; this is not an error.
	SwapKeyring(ctx context.Context, old, next []byte) ([]byte, error)

	// EncryptedValues lists the encrypted secrets, credentials and archive keys whose id
	// comes after the given one, ordered by id, at most limit. Expired secrets and
	// those of deleted endpoints are listed too.
	EncryptedValues(ctx context.Context, after EncryptedID, limit int) ([]EncryptedValue, error)

	// Reencrypt replaces each value that still equals Old by New, and returns the
	// number of replaced values. New encrypts the same text, so this is no change
	// of an endpoint: its revision stays.
	Reencrypt(ctx context.Context, list []Reencryption) (int, error)
}

// EncryptedID names an encrypted value: a secret, or, if Secret is zero, the
// credentials of the endpoint. If Endpoint is zero too, it is the archive key of the
// account Archive. Archive keys sort first; the credentials of an endpoint sort before its secrets.
type EncryptedID struct {
	Endpoint postrider.EndpointID
	Secret   postrider.SecretID
	Archive  postrider.AccountID // zero: it is no archive key
}

// Compare orders ids by endpoint, then by secret, then by account.
func (id EncryptedID) Compare(other EncryptedID) int {
	return cmp.Or(id.Endpoint.Compare(other.Endpoint), id.Secret.Compare(other.Secret), id.Archive.Compare(other.Archive))
}

// Before returns the id that sorts directly before id, so that a list after it begins with
// id: the one that is less by one, read as a number of 48 bytes.
func (id EncryptedID) Before() EncryptedID {
	for _, part := range [][]byte{id.Archive[:], id.Secret[:], id.Endpoint[:]} {
		for i := range slices.Backward(part) {
			part[i]--
			if part[i] != 0xff { // nothing is borrowed
				return id
			}
		}
	}
	return id
}

// EncryptedValue is a secret, the credentials of an endpoint or an archive key as stored.
type EncryptedValue struct {
	ID    EncryptedID
	Bytes []byte
}

// LogValue returns only the ids: encrypted bytes do not belong in logs.
func (v EncryptedValue) LogValue() slog.Value {
	return slog.GroupValue(slog.String("endpoint", v.ID.Endpoint.String()), slog.String("secret", v.ID.Secret.String()),
		slog.String("archive", v.ID.Archive.String()))
}

// Reencryption replaces the value Old by New, the same text under another key.
type Reencryption struct {
	ID       EncryptedID
	Old, New []byte
}
