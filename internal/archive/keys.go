package archive

import (
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// keys opens the keys of accounts. It caches none: it asks the store for each segment, so that a
// destroyed key is gone on every node at once.
type keys struct {
	store store.ArchiveKeys
	vault Vault
}

// ofWriter returns the key of an account, and makes a key if the account has none.
func (k keys) ofWriter(ctx context.Context, account postrider.AccountID) ([32]byte, error) {
	key, err := k.open(ctx, account)
	if !errors.Is(err, postrider.ErrNotFound) {
		return key, err
	}
	_, encrypted, err := k.vault.NewArchiveKey(ctx, account)
	if err != nil {
		return key, err
	}
	stored, err := k.store.PutArchiveKey(ctx, account, encrypted)
	if err != nil {
		return key, err
	}
	return k.vault.DecryptArchiveKey(ctx, account, stored)
}

// open returns the key of an account. If the key was destroyed, the error is
// postrider.ErrNotFound.
func (k keys) open(ctx context.Context, account postrider.AccountID) ([32]byte, error) {
	stored, err := k.store.ArchiveKey(ctx, account)
	if err != nil {
		return [32]byte{}, err
	}
	return k.vault.DecryptArchiveKey(ctx, account, stored)
}
