package offline

import (
	"context"

	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

// RotateKey rotates the encryption keys of the store; see [secrets.Rotation]. If r.Reencrypt is
// set, a running server encrypts the values again, and RotateKey does not open the store. If the
// data folder has no store, it returns an error and creates no store.
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

// ExportKeys writes the encryption keys of the store into a new file; the file must not exist. It
// opens the store only if the database holds the keys. So it works while a SQLite server runs.
func ExportKeys(ctx context.Context, c config.StoreConfig, path string) error {
	l := c.Keys()
	if l.Text != "" || l.File != "" {
		return secrets.Export(ctx, l, nil, path)
	}
	return drivers.Use(ctx, c, func(s store.Store) error { return secrets.Export(ctx, l, s, path) })
}
