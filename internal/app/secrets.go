package app

import (
	"context"
	"errors"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/secrets"
)

// RotateKey rotates the encryption keys of the store; see [secrets.Rotation]. With
// r.Reencrypt, a running server encrypts the values, and the store is not opened
// here. It returns an error for a data folder without a store, and creates none
// there.
func RotateKey(ctx context.Context, c config.StoreConfig, r secrets.Rotation) (secrets.Rotated, error) {
	if r.Reencrypt != nil {
		return r.Run(ctx, c.Keys(), nil)
	}
	if err := mustHaveStore(c); err != nil {
		return secrets.Rotated{}, err
	}
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return secrets.Rotated{}, err
	}
	done, err := r.Run(ctx, c.Keys(), opened)
	return done, errors.Join(err, opened.Close())
}

// ExportKeys writes the encryption keys of the store into a file that must not
// exist. It opens the store only if the database holds the keys, so that it works
// beside a running SQLite server.
func ExportKeys(ctx context.Context, c config.StoreConfig, path string) error {
	l := c.Keys()
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

// Reencrypt implements [api.Reencrypter].
func (r reencrypter) Reencrypt(ctx context.Context) (apitypes.Reencrypted, error) {
	done, err := r.Secrets.Reencrypt(ctx)
	return apitypes.Reencrypted(done), err
}
