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

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// openOptions say how a store is opened.
type openOptions struct {
	log     *slog.Logger
	onFatal func(error) // hears why the store writes no more
}

// commandOptions returns the options of a store that one command opens.
func commandOptions() openOptions {
	return openOptions{log: slog.New(slog.DiscardHandler), onFatal: func(error) {}}
}

// openStore opens the store that the settings name and brings its tables up to
// this version.
func openStore(ctx context.Context, c StoreConfig, o openOptions) (store.Store, error) {
	dsn, err := c.dsn()
	if err != nil {
		return nil, err
	}
	if dsn != "" {
		opened, err := postgres.Open(ctx, dsn, postgres.Options{Log: o.log})
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", unreached(err), maskURL(dsn), err)
		}
		o.log.InfoContext(ctx, "store is open", "kind", "postgres", "url", maskURL(dsn))
		return opened, nil
	}
	opened, err := sqlite.Open(ctx, c.DataDir, sqlite.Options{Log: o.log, OnFatal: o.onFatal})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the folder
	}
	o.log.InfoContext(ctx, "store is open", "kind", "sqlite", "dir", c.DataDir)
	return opened, nil
}

// mayPass reports whether an error of opening the store may pass by itself, so
// that a server waits for it. Each store knows its own errors: an error of the
// system is one of the network on PostgreSQL, and one of the data folder on SQLite.
func (c StoreConfig) mayPass(err error) bool {
	dsn, dsnErr := c.dsn()
	switch {
	case dsnErr != nil:
		return false
	case dsn != "":
		return postgres.Temporary(err)
	}
	return sqlite.Temporary(err)
}

// mustHaveStore refuses a data folder without a store, which opening it would
// make.
func (c StoreConfig) mustHaveStore() error {
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

// unreached says so when err is of the way to a database, and not of what it
// answered.
func unreached(err error) string {
	_, network := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	if network || name || errors.Is(err, context.DeadlineExceeded) {
		return "the database cannot be reached: "
	}
	return ""
}

// InUse reports whether err says that a server runs on the SQLite store.
func InUse(err error) bool { return errors.Is(err, sqlite.ErrInUse) }
