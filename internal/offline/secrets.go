package offline

import (
	"context"

	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

// RotateKey rotates the encryption keys of the store; see [secrets.Rotation]. With
// r.Reencrypt, a running server encrypts the values, and the store is not opened
// here. It returns an error for a data folder without a store, and creates none
// there.
func RotateKey(ctx context.Context, c config.StoreConfig, r secrets.Rotation) (done secrets.Rotated, err error) {
	if r.Reencrypt != nil {
		return r.Run(ctx, c.Keys(), nil)
	}
	if err := drivers.MustExist(c); err != nil {
		return done, err
	}
	err = drivers.Use(ctx, c, func(s store.Store) error {
		done, err = r.Run(ctx, c.Keys(), s)
		return err
	})
	return done, err
}

// ExportKeys writes the encryption keys of the store into a file that must not
// exist. It opens the store only if the database holds the keys, so that it works
// beside a running SQLite server.
func ExportKeys(ctx context.Context, c config.StoreConfig, path string) error {
	l := c.Keys()
	if l.Text != "" || l.File != "" {
		return secrets.Export(ctx, l, nil, path)
	}
	return drivers.Use(ctx, c, func(s store.Store) error { return secrets.Export(ctx, l, s, path) })
}
