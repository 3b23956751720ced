package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// Backup is a copy of a SQLite store, with the ids of the encryption keys that are needed
// to read its secrets. The keys are not in it.
type Backup struct {
	sqlite.Backup

	Keys    []string // sorted; empty: nothing in it is encrypted
	SumWith string   // what the checksum was compared with at a restore; empty: nothing
}

// errNotSQLite refuses the two commands for a PostgreSQL database.
var errNotSQLite = errors.New("the settings name a PostgreSQL database, which has its own tools for backups; see docs/operate/backup.md")

// BackUp copies the SQLite store of the data folder into a new file, also while a server
// runs on it.
func BackUp(ctx context.Context, c config.StoreConfig, to string) (Backup, error) {
	if dsn, err := c.DSN(); err != nil || dsn != "" {
		return Backup{}, errors.Join(err, errNotSQLite)
	}
	if err := mustHaveStore(c); err != nil {
		return Backup{}, err
	}
	var needed keyIDs
	made, err := sqlite.Copy(ctx, c.DataDir, to, needed.add)
	return Backup{Backup: made, Keys: needed.texts()}, err
}

// Restore makes a store of a backup, in a data folder that has nothing but its keys. It
// refuses a backup whose secrets those keys do not decrypt, and one that has changed since it was
// made: sum is its SHA-256; empty: the file beside it has it. The store starts held.
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

// Hold holds the store: a PostgreSQL database that an operator has restored, before the
// first server starts on it. It returns what may be sent twice when it is resumed.
func Hold(ctx context.Context, c config.StoreConfig) (apitypes.Hold, error) {
	if err := mustHaveStore(c); err != nil {
		return apitypes.Hold{}, err
	}
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return apitypes.Hold{}, err
	}
	var work store.HeldWork
	hold, err := opened.PutHold(ctx, postrider.HoldRestored)
	if err == nil {
		work, err = opened.HeldWork(ctx)
	}
	return apitypes.Hold{
		Held: hold.Held(), Since: &apitypes.Time{Time: hold.Since}, Reason: &hold.Reason, Deliveries: &work.Deliveries, FanOuts: &work.FanOuts,
	}, errors.Join(err, opened.Close())
}

// keyIDs are the ids of encryption keys, each once.
type keyIDs []secrets.KeyID

// add adds the id of the key of an encrypted value.
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
