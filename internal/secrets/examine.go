package secrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/store"
)

// Reader has the methods of [store.Encryption] that write nothing.
type Reader interface {
	// Keyring returns the stored keyring; nil: none is stored.
	Keyring(ctx context.Context) ([]byte, error)

	// EncryptedValues lists encrypted values in the order of their ids.
	EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) ([]store.EncryptedValue, error)
}

// Examine describes the keys at the location, for postrider doctor. It creates no keys. It decrypts
// the values that the check in [Open] would decrypt. A nil reader stands for a store without
// tables.
func Examine(ctx context.Context, l Location, values Reader) doctor.Keyring {
	if values == nil {
		values = empty{}
	}
	from := l.source(readOnly{values})
	_, inDatabase := from.(databaseSource)
	found := doctor.Keyring{Where: from.String(), InDatabase: inDatabase}
	keyring, err := from.read(ctx)
	none := errors.Is(err, errNone) && l.managed()
	if err != nil && !none {
		found.Err, found.Exposed = err, errors.Is(err, errExposed)
		return found
	}
	found.Keys = len(keyring.keys)
	s := &Secrets{Vault: New(keyring), values: readOnly{values}, source: from}
	found.Unchecked = s.batches(ctx, func(list []store.EncryptedValue) (more bool, err error) {
		for _, value := range list {
			_, err := s.Vault.Reencrypt(ctx, value)
			if unknown, ok := errors.AsType[*UnknownKeyError](err); ok {
				found.Err = fmt.Errorf("the keys of %s do not decrypt the stored values: %w", from, unknown)
				return false, nil // reported as Err
			}
			if err != nil {
				found.Unreadable++
			}
		}
		found.Values += len(list)
		return found.Values < checkedValues, nil
	})
	return found
}

// ForReading returns a vault that decrypts the values of a store, for postrider doctor. It creates no keys.
func ForReading(ctx context.Context, l Location, values Reader) (*Vault, error) {
	keyring, err := l.source(readOnly{values}).read(ctx)
	if err != nil {
		return nil, err
	}
	return New(keyring), nil
}

// readOnly is a store whose writes fail with errReadOnly.
type readOnly struct{ Reader }

var errReadOnly = errors.New("the store is only read")

// SwapKeyring implements [store.Encryption].
func (readOnly) SwapKeyring(context.Context, []byte, []byte) ([]byte, error) { return nil, errReadOnly }

// Reencrypt implements [store.Encryption].
func (readOnly) Reencrypt(context.Context, []store.Reencryption) (int, error) { return 0, errReadOnly }

// empty is a store without tables.
type empty struct{}

// Keyring implements [Reader].
func (empty) Keyring(context.Context) ([]byte, error) { return nil, nil }

// EncryptedValues implements [Reader].
func (empty) EncryptedValues(context.Context, store.EncryptedID, int) ([]store.EncryptedValue, error) {
	return nil, nil
}
