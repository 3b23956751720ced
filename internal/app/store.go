package app

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

// openOptions say how a store is opened. The log and onFatal are required.
type openOptions struct {
	log     *slog.Logger
	onFatal func(error) // called once, when the store can no longer write
	onLost  func(int)   // called with how many attempts of a dead process SQLite recorded as lost; nil: nobody wants to know
	calls   store.Calls // hears of each call of a verb; nil: nobody does
}

// commandOptions returns the options for a command that opens the store for one
// operation: it has no log, and its operation returns the error of a failed write.
func commandOptions() openOptions {
	return openOptions{log: slog.New(slog.DiscardHandler), onFatal: func(error) {}}
}

// openStore opens the store that the settings name, and creates or upgrades its
// tables. Errors and log lines show the database URL without its password.
func openStore(ctx context.Context, c config.StoreConfig, o openOptions) (store.Store, error) {
	dsn, err := c.DSN()
	if err != nil {
		return nil, err
	}
	if dsn != "" {
		opened, err := postgres.Open(ctx, dsn, postgres.Options{Calls: o.calls, Log: o.log})
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", unreached(err), config.MaskURL(dsn), err)
		}
		o.log.InfoContext(ctx, "store is open", "kind", "postgres", "url", config.MaskURL(dsn))
		return opened, nil
	}
	opened, err := sqlite.Open(ctx, c.DataDir, sqlite.Options{Calls: o.calls, Log: o.log, OnFatal: o.onFatal, OnLost: o.onLost})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the folder
	}
	o.log.InfoContext(ctx, "store is open", "kind", "sqlite", "dir", c.DataDir)
	return opened, nil
}

// mayPass reports whether an error of opening the store is temporary, so that a
// server waits for it. Each store classifies its own errors: the same system error
// means the network with PostgreSQL and the data folder with SQLite. A database URL
// that cannot be read is not temporary.
func mayPass(c config.StoreConfig, err error) bool {
	dsn, dsnErr := c.DSN()
	switch {
	case dsnErr != nil:
		return false
	case dsn != "":
		return postgres.Temporary(err)
	}
	return sqlite.Temporary(err)
}

// mustHaveStore returns an error for a data folder without a store. Opening such a
// folder would create an empty store in it. A database always counts as a store.
func mustHaveStore(c config.StoreConfig) error {
	if c.DatabaseURL != "" || c.DatabaseURLFile != "" {
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

// unreached returns a prefix for errors of the connection to the database, and
// nothing for errors that the database returned.
func unreached(err error) string {
	_, network := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	if network || name || errors.Is(err, context.DeadlineExceeded) {
		return "the database cannot be reached: "
	}
	return ""
}

// InUse reports whether err says that another process has the SQLite store open.
func InUse(err error) bool { return errors.Is(err, sqlite.ErrInUse) }
