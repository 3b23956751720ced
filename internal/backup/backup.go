// Package backup makes backups of a SQLite store, restores stores from them, and knows when the
// last backup of a store was made. For PostgreSQL, use the tools of the database.
//
// It promises:
//
//   - A backup can be made while a server runs on the store. It is complete, or Make
//     returns an error.
//   - A store is restored only from a backup that has not changed since it was made, and
//     whose secrets can be decrypted with the keys of the data folder. The restored store
//     is held.
package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// Backup is a copy of a SQLite store, with the ids of the encryption keys that are needed to read
// its secrets. It does not have the keys themselves.
type Backup struct {
	sqlite.Backup

	Keys    []string // sorted; empty: nothing in the backup is encrypted
	SumWith string   // what a restore compared the checksum with; empty: nothing
}

// errNotSQLite is the error of Make and Restore for a PostgreSQL database.
var errNotSQLite = errors.New("the settings name a PostgreSQL database, which has its own tools for backups; see docs/operate/backup.md")

// Make copies the SQLite store of the data folder into a new file. A server may run on the store.
func Make(ctx context.Context, c config.StoreConfig, to string) (Backup, error) {
	if dsn, err := c.DSN(); err != nil || dsn != "" {
		return Backup{}, errors.Join(err, errNotSQLite)
	}
	if err := drivers.MustExist(c); err != nil {
		return Backup{}, err
	}
	var needed keyIDs
	made, err := sqlite.Copy(ctx, c.DataDir, to, needed.add)
	return Backup{Backup: made, Keys: needed.texts()}, err
}

// Restore makes a store from a backup, in a data folder that has nothing but its keys. It refuses a
// backup whose secrets cannot be decrypted with those keys. It also refuses a backup that has
// changed since it was made. sum is the SHA-256 of the backup; empty: Restore reads it from the
// file beside the backup. The restored store is held.
func Restore(ctx context.Context, c config.StoreConfig, from, sum string) (Backup, error) {
	if dsn, err := c.DSN(); err != nil || dsn != "" {
		return Backup{}, errors.Join(err, errNotSQLite)
	}
	var needed keyIDs
	verified, err := sqlite.Verify(ctx, from, needed.add)
	if err != nil {
		return Backup{}, fmt.Errorf("verify the backup: %w", err)
	}
	with, err := verified.CheckSum(sum)
	if err != nil {
		return Backup{}, fmt.Errorf("verify the backup: %w", err)
	}
	missing, err := c.Keys().Missing(ctx, needed)
	if err != nil {
		return Backup{}, err
	}
	if len(missing) > 0 {
		return Backup{}, fmt.Errorf("%w: the backup needs %s; copy the file of its keys to %s, or name it with --secrets-key-file",
			secrets.ErrMissing, strings.Join(keyIDs(missing).texts(), ", "), c.Keys().File)
	}
	restored, err := sqlite.Restore(ctx, verified, c.DataDir)
	return Backup{restored, needed.texts(), with}, err
}

// keyIDs is a set of ids of encryption keys.
type keyIDs []secrets.KeyID

// add adds the id of the key with which the value is encrypted.
func (k *keyIDs) add(encrypted []byte) error {
	id, err := secrets.KeyOf(encrypted)
	if err == nil && !slices.Contains(*k, id) {
		*k = append(*k, id)
	}
	return err
}

func (k keyIDs) texts() []string {
	texts := make([]string, 0, len(k))
	for _, id := range k {
		texts = append(texts, id.String())
	}
	slices.Sort(texts)
	return texts
}
