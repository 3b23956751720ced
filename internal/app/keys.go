package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
)

// NewKey is an API key to make.
type NewKey struct {
	Name    string
	Scopes  []postrider.Scope
	Account string        // an id or a uid; empty: every account
	Expires time.Duration // 0: never
}

// KeyFile returns where the first admin key is kept.
func (c StoreConfig) KeyFile() string { return filepath.Join(c.DataDir, "admin.key") }

// serverFile is where a server that runs on the data folder says where it
// listens.
func (c StoreConfig) serverFile() string { return filepath.Join(c.DataDir, "server.url") }

// Running returns how to reach the server that runs on the data folder. It may
// be stale; only a call tells.
func (c StoreConfig) Running() (url string, err error) {
	address, err := os.ReadFile(c.serverFile())
	if err != nil {
		return "", fmt.Errorf("find the server: %w", err)
	}
	return strings.TrimSpace(string(address)), nil
}

// CreateKey makes an API key straight on the store. It returns the key's text
// too, which is kept nowhere.
func CreateKey(ctx context.Context, c StoreConfig, n NewKey) (postrider.APIKey, string, error) {
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return postrider.APIKey{}, "", err
	}
	key, text, err := makeKey(ctx, opened, n)
	if err == nil {
		err = putKey(ctx, opened, key)
	}
	return key, text, errors.Join(err, opened.Close())
}

// Keys returns every API key, newest first.
func Keys(ctx context.Context, c StoreConfig) ([]postrider.APIKey, error) {
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return nil, err
	}
	keys, err := listKeys(ctx, opened)
	return keys, errors.Join(err, opened.Close())
}

// RevokeKey ends an API key.
func RevokeKey(ctx context.Context, c StoreConfig, id postrider.KeyID) error {
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return err
	}
	err = opened.RevokeKey(ctx, id)
	return errors.Join(err, opened.Close())
}

func listKeys(ctx context.Context, access store.Access) ([]postrider.APIKey, error) {
	var keys []postrider.APIKey
	for cursor := ""; ; {
		page, err := access.Keys(ctx, store.KeyQuery{Paging: store.Paging{Limit: store.MaxLimit, Cursor: cursor}})
		if err != nil {
			return nil, fmt.Errorf("list API keys: %w", err)
		}
		keys = append(keys, page.Items...)
		if cursor = page.Next; cursor == "" {
			return keys, nil
		}
	}
}

// makeKey draws a key that is not stored yet.
func makeKey(ctx context.Context, to store.Store, n NewKey) (postrider.APIKey, string, error) {
	now, err := to.Now(ctx)
	if err != nil {
		return postrider.APIKey{}, "", fmt.Errorf("make API key: %w", err)
	}
	text, hash := api.MakeKey()
	key := postrider.APIKey{
		ID:        store.NewID[postrider.KeyID](store.NewIDs(func() time.Time { return now }, nil)),
		Name:      n.Name,
		Hash:      hash,
		Scopes:    slices.Compact(slices.Sorted(slices.Values(n.Scopes))),
		CreatedAt: now,
	}
	if n.Expires > 0 {
		key.ExpiresAt = now.Add(n.Expires)
	}
	if n.Account != "" {
		if key.Account, err = findAccount(ctx, to, n.Account); err != nil {
			return postrider.APIKey{}, "", err
		}
	}
	return key, text, nil
}

func putKey(ctx context.Context, access store.Access, key postrider.APIKey) error {
	if err := access.PutKey(ctx, key); err != nil {
		return fmt.Errorf("make API key: %w", err)
	}
	return nil
}

// findAccount returns the account with the id or the uid.
func findAccount(ctx context.Context, access store.Access, name string) (postrider.AccountID, error) {
	query := store.AccountQuery{UID: name}
	if id, err := postrider.ParseID[postrider.AccountID](name); err == nil && !id.IsZero() {
		query = store.AccountQuery{ID: id}
	}
	page, err := access.Accounts(ctx, query)
	switch {
	case err != nil:
		return postrider.AccountID{}, fmt.Errorf("find account: %w", err)
	case len(page.Items) == 0:
		return postrider.AccountID{}, fmt.Errorf("account %s: %w", name, postrider.ErrNotFound)
	}
	return page.Items[0].ID, nil
}

// FirstKey is the admin key that a server made because its store had no key.
type FirstKey struct {
	Text string // empty: the store had a key
	File string // where it is kept; empty: nowhere
}

// makeFirstKey makes an admin key where the store has no key at all, and keeps
// its text in the data folder, for its owner alone. On PostgreSQL a node needs no
// data folder; where it cannot be written, the key is kept nowhere.
func makeFirstKey(ctx context.Context, to store.Store, c StoreConfig) (FirstKey, error) {
	page, err := to.Keys(ctx, store.KeyQuery{Paging: store.Paging{Limit: 1}})
	if err != nil {
		return FirstKey{}, fmt.Errorf("look for API keys: %w", err)
	}
	if len(page.Items) > 0 {
		return FirstKey{}, nil
	}
	key, text, err := makeKey(ctx, to, NewKey{Name: "first admin", Scopes: []postrider.Scope{postrider.ScopeAdmin}})
	if err != nil {
		return FirstKey{}, err
	}
	// The file goes first: a crash between the two leaves a file that the next
	// start replaces, and never a key that nobody knows.
	first := FirstKey{Text: text, File: c.KeyFile()}
	if err := keepFile(first.File, text); err != nil {
		dsn, dsnErr := c.dsn()
		if dsn == "" || dsnErr != nil {
			return FirstKey{}, errors.Join(err, dsnErr)
		}
		first.File = ""
	}
	return first, putKey(ctx, to, key)
}

// keepFile writes a line into a file that its owner alone may read, through a
// new one: an old file keeps neither its bytes nor its permissions.
func keepFile(path, line string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*") // made with 0600
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	defer os.Remove(file.Name()) // it has another name by then, or is of no use
	_, err = file.WriteString(line + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	return nil
}
