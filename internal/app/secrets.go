package app

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/secrets"
)

// keys returns the location of the encryption keys. Without a setting for it, that
// is a file in the data folder for SQLite, which the first start creates, and the
// database for PostgreSQL.
func (c StoreConfig) keys() secrets.Location {
	l := secrets.Location{
		Text: c.SecretsKey, Name: variable("secrets-key"), File: c.SecretsKeyFile,
		Shared: c.DatabaseURL != "" || c.DatabaseURLFile != "",
	}
	if l.File == "" && !l.Shared {
		l.File, l.Create = filepath.Join(c.DataDir, "secrets.key"), true
	}
	return l
}

// RotateKey rotates the encryption keys of the store; see [secrets.Rotation]. With
// r.Reencrypt, a running server encrypts the values, and the store is not opened
// here. It returns an error for a data folder without a store, and creates none
// there.
func RotateKey(ctx context.Context, c StoreConfig, r secrets.Rotation) (secrets.Rotated, error) {
	if r.Reencrypt != nil {
		return r.Run(ctx, c.keys(), nil)
	}
	if err := c.mustHaveStore(); err != nil {
		return secrets.Rotated{}, err
	}
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return secrets.Rotated{}, err
	}
	done, err := r.Run(ctx, c.keys(), opened)
	return done, errors.Join(err, opened.Close())
}

// ExportKeys writes the encryption keys of the store into a file that must not
// exist. It opens the store only if the database holds the keys, so that it works
// beside a running SQLite server.
func ExportKeys(ctx context.Context, c StoreConfig, path string) error {
	l := c.keys()
	if l.Text != "" || l.File != "" {
		return secrets.Export(ctx, l, nil, path)
	}
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return err
	}
	return errors.Join(secrets.Export(ctx, l, opened, path), opened.Close())
}

// reencrypter gives the API the re-encryption of [secrets.Secrets] with the API's
// type of the result.
type reencrypter struct{ *secrets.Secrets }

// Reencrypt implements [secrets.Reencrypter].
func (r reencrypter) Reencrypt(ctx context.Context) (apitypes.Reencrypted, error) {
	done, err := r.Secrets.Reencrypt(ctx)
	return apitypes.Reencrypted(done), err
}
