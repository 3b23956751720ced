package store

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/postrider/postrider"
)

// Seals keeps the sealing keys, where they are kept in the store, and gives
// what is sealed to be sealed anew.
type Seals interface {
	// KeepRing stores what the sealing keys of this store are kept as, in place
	// of the ring was, where nil is none. It returns what is stored then: another
	// than ring, without an error, where it was not was.
	KeepRing(ctx context.Context, was, ring []byte) ([]byte, error)

	// Sealed lists what is sealed, secrets of endpoints and their credentials,
	// in the order of its ids: at most limit of what comes after the id. Secrets
	// that have expired are among it, and what deleted endpoints left.
	Sealed(ctx context.Context, after SealedID, limit int) ([]Sealed, error)

	// Reseal replaces each Was that is still there by its Now, which says the
	// same, and returns how many were. It is no change of an endpoint.
	Reseal(ctx context.Context, list []Reseal) (int, error)
}

// SealedID names something sealed: a secret, or with Secret zero the
// credentials of an endpoint. The credentials of an endpoint come before its
// secrets, and those by their ids.
type SealedID struct {
	Endpoint postrider.EndpointID
	Secret   postrider.SecretID
}

// Compare orders ids as [Seals] lists them.
func (id SealedID) Compare(other SealedID) int {
	return cmp.Or(id.Endpoint.Compare(other.Endpoint), id.Secret.Compare(other.Secret))
}

// Sealed is something sealed as it is stored.
type Sealed struct {
	ID    SealedID
	Bytes []byte
}

// LogValue keeps the bytes out of every log.
func (s Sealed) LogValue() slog.Value {
	return slog.GroupValue(slog.String("endpoint", s.ID.Endpoint.String()), slog.String("secret", s.ID.Secret.String()))
}

// Reseal replaces something sealed by the same under another key.
type Reseal struct {
	ID       SealedID
	Was, Now []byte
}
