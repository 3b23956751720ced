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
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/store"
)

// NewKey describes an API key to make.
type NewKey struct {
	Name    string
	Scopes  []postrider.Scope
	Account string        // an id or a uid; empty: the key is for every account
	Expires time.Duration // from now; 0: the key never expires
}

// KeyFile returns the path of the file with the first admin key. The file may not
// exist.
func (c StoreConfig) KeyFile() string { return filepath.Join(c.DataDir, "admin.key") }

// serverFile returns the path of the file that names the URL of the running server.
// The server writes it when its API serves and removes it at its end.
func (c StoreConfig) serverFile() string { return filepath.Join(c.DataDir, "server.url") }

// Running returns the URL of the server that runs on the data folder. A server that
// was killed leaves the file, so only a request shows whether the server runs.
func (c StoreConfig) Running() (url string, err error) {
	address, err := os.ReadFile(c.serverFile())
	if err != nil {
		return "", fmt.Errorf("find the server: %w", err)
	}
	return strings.TrimSpace(string(address)), nil
}

// CreateKey makes an API key in the store, without a server. It returns the key's
// text, too. The store has only a hash of the text, so it cannot be read again.
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

// Keys returns the API keys of the store that are bound to the account, by its id or uid,
// newest first, without a server. Empty: all keys.
func Keys(ctx context.Context, c StoreConfig, account string) ([]postrider.APIKey, error) {
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return nil, err
	}
	var q store.KeyQuery
	if account != "" {
		q.Account, err = findAccount(ctx, opened, account)
	}
	var keys []postrider.APIKey
	if err == nil {
		keys, err = listKeys(ctx, opened, q)
	}
	return keys, errors.Join(err, opened.Close())
}

// RevokeKey revokes an API key in the store, without a server.
func RevokeKey(ctx context.Context, c StoreConfig, id postrider.KeyID) error {
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return err
	}
	err = opened.RevokeKey(ctx, id)
	return errors.Join(err, opened.Close())
}

// listKeys reads all pages of the API keys that q selects.
func listKeys(ctx context.Context, access store.Access, q store.KeyQuery) ([]postrider.APIKey, error) {
	var keys []postrider.APIKey
	for cursor := ""; ; {
		q.Paging = store.Paging{Limit: store.MaxLimit, Cursor: cursor}
		page, err := access.Keys(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list API keys: %w", err)
		}
		keys = append(keys, page.Items...)
		if cursor = page.Next; cursor == "" {
			return keys, nil
		}
	}
}

// makeKey returns a new key and its text. The key is not stored yet: putKey does
// that. Its times are those of the store's clock, which also decides when it
// expires.
func makeKey(ctx context.Context, to store.Store, n NewKey) (postrider.APIKey, string, error) {
	now, err := to.Now(ctx)
	if err != nil {
		return postrider.APIKey{}, "", fmt.Errorf("make API key: %w", err)
	}
	text, hash := apikeys.Make()
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

// putKey stores a key that makeKey made.
func putKey(ctx context.Context, access store.Access, key postrider.APIKey) error {
	if err := access.PutKey(ctx, key); err != nil {
		return fmt.Errorf("make API key: %w", err)
	}
	return nil
}

// findAccount returns the id of the account with this id or uid. A text that parses
// as an id is looked up as an id only.
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
	Text string // empty: the store had a key already
	File string // path of the file that holds it; empty: no file holds it
}

// makeFirstKey makes an admin key if the store has no key at all. It writes the
// text into the data folder, readable by its owner alone. A node on PostgreSQL
// needs no data folder: if the file cannot be written there, the key is only
// printed.
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
	// Write the file before the store. A crash between the two then leaves a file
	// that the next start replaces. The other order could leave a key whose text
	// nobody knows.
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

// keepFile writes one line into a file that only its owner may read. It writes a
// new file and renames it, so that a reader sees the old line or the new one, and
// an old file with wider permissions is replaced and not reused.
func keepFile(path, line string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*") // CreateTemp makes files with 0600
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	defer os.Remove(file.Name()) // no effect after the rename
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
