// Package drivers opens the store and the archive that the settings name. No other package knows
// which kinds of stores and archives exist.
//
// It promises:
//
//   - Errors and log lines show the database URL without its password.
//   - After an error nothing is open.
package drivers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// Options has the options of [Open]. Log and OnFatal are required.
type Options struct {
	Log     *slog.Logger
	OnFatal func(error) // called once, when the store can no longer write
	// OnLost is called with the number of attempts of a dead process that SQLite recorded as lost.
	// Nil: nothing is called.
	OnLost func(int)
	Calls  store.Calls // called for each call of a verb; nil: nothing is called
}

// Use opens the store for one operation of a command and closes it afterwards. It needs no log,
// because do returns the error of a failed write.
func Use(ctx context.Context, c config.StoreConfig, do func(store.Store) error) error {
	opened, err := Open(ctx, c, Options{Log: slog.New(slog.DiscardHandler), OnFatal: func(error) {}})
	if err != nil {
		return err
	}
	return errors.Join(do(opened), opened.Close())
}

// Open opens the store that the settings name. It creates or upgrades the tables.
func Open(ctx context.Context, c config.StoreConfig, o Options) (store.Store, error) {
	dsn, err := c.DSN()
	if err != nil {
		return nil, err
	}
	if dsn != "" {
		opened, err := postgres.Open(ctx, dsn, postgres.Options{Calls: o.Calls, Log: o.Log})
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", Unreached(err), config.MaskURL(dsn), err)
		}
		o.Log.InfoContext(ctx, "store is open", "kind", "postgres", "url", config.MaskURL(dsn))
		return opened, nil
	}
	opened, err := sqlite.Open(ctx, c.DataDir, sqlite.Options{Calls: o.Calls, Log: o.Log, OnFatal: o.OnFatal, OnLost: o.OnLost})
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the folder
	}
	o.Log.InfoContext(ctx, "store is open", "kind", "sqlite", "dir", c.DataDir)
	return opened, nil
}

// Temporary reports whether an error of Open is temporary, so that a server should try again. Each
// store classifies its own errors, because the same system error concerns the network with
// PostgreSQL, and the data folder with SQLite. An error of reading the database URL is not
// temporary.
func Temporary(c config.StoreConfig, err error) bool {
	dsn, dsnErr := c.DSN()
	switch {
	case dsnErr != nil:
		return false
	case dsn != "":
		return postgres.Temporary(err)
	}
	return sqlite.Temporary(err)
}

// MustExist returns an error if the data folder has no store, because Open would create an empty
// store there. With PostgreSQL it always returns nil.
func MustExist(c config.StoreConfig) error {
	if c.SQLiteDir() == "" {
		return nil
	}
	_, err := os.Stat(filepath.Join(c.DataDir, "postrider.db"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no store in %s", c.DataDir)
	}
	if err != nil {
		return fmt.Errorf("look for the store: %w", err)
	}
	return nil
}

// Unreached returns a prefix for the text of err if the connection to the database failed. If the
// database itself returned err, it returns "".
func Unreached(err error) string {
	_, network := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	if network || name || errors.Is(err, context.DeadlineExceeded) {
		return "the database cannot be reached: "
	}
	return ""
}

// InUse reports whether err means that another process has the SQLite store open.
func InUse(err error) bool { return errors.Is(err, sqlite.ErrInUse) }
