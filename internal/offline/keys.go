package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that has the keys.
type Store interface {
	store.Access

	// Now is [store.Upkeep]'s.
	Now(ctx context.Context) (time.Time, error)
}

// NewKey describes an API key to make.
type NewKey struct {
	Name    string
	Scopes  []postrider.Scope
	Account string        // an id or a uid; empty: the key is for every account
	Expires time.Duration // from now; 0: the key never expires
}

// CreateKey makes an API key in the store, and also returns the key's text. The store has only a
// hash of the text, so the text cannot be read again.
func CreateKey(ctx context.Context, c config.StoreConfig, n NewKey) (key postrider.APIKey, text string, err error) {
	err = drivers.Use(ctx, c, func(s store.Store) error {
		if key, text, err = makeKey(ctx, s, n); err != nil {
			return err
		}
		return putKey(ctx, s, key)
	})
	return key, text, err
}

// Keys returns the API keys of the store that are bound to the account, newest first. account is an
// id or a uid. Empty: Keys returns all keys.
func Keys(ctx context.Context, c config.StoreConfig, account string) (keys []postrider.APIKey, err error) {
	err = drivers.Use(ctx, c, func(s store.Store) (err error) {
		var q store.KeyQuery
		if account != "" {
			if q.Account, err = findAccount(ctx, s, account); err != nil {
				return err
			}
		}
		keys, err = listKeys(ctx, s, q)
		return err
	})
	return keys, err
}

// RevokeKey revokes an API key in the store.
func RevokeKey(ctx context.Context, c config.StoreConfig, id postrider.KeyID) error {
	return drivers.Use(ctx, c, func(s store.Store) error { return s.RevokeKey(ctx, id) })
}

// listKeys reads all pages of the API keys that q selects.
func listKeys(ctx context.Context, from Store, q store.KeyQuery) ([]postrider.APIKey, error) {
	var keys []postrider.APIKey
	for cursor := ""; ; {
		q.Paging = store.Paging{Limit: store.MaxLimit, Cursor: cursor}
		page, err := from.Keys(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list API keys: %w", err)
		}
		keys = append(keys, page.Items...)
		if cursor = page.Next; cursor == "" {
			return keys, nil
		}
	}
}

// makeKey returns a new key and its text. It does not store the key; putKey does. The times of the
// key come from the store's clock, because that clock also decides when the key expires.
func makeKey(ctx context.Context, to Store, n NewKey) (postrider.APIKey, string, error) {
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

// putKey stores a key that makeKey returned.
func putKey(ctx context.Context, to Store, key postrider.APIKey) error {
	if err := to.PutKey(ctx, key); err != nil {
		return fmt.Errorf("make API key: %w", err)
	}
	return nil
}

// findAccount returns the id of the account with this id or uid. If the text is a valid id, it is
// looked up only as an id.
func findAccount(ctx context.Context, in Store, name string) (postrider.AccountID, error) {
	query := store.AccountQuery{UID: name}
	if id, err := postrider.ParseID[postrider.AccountID](name); err == nil && !id.IsZero() {
		query = store.AccountQuery{ID: id}
	}
	page, err := in.Accounts(ctx, query)
	switch {
	case err != nil:
		return postrider.AccountID{}, fmt.Errorf("find account: %w", err)
	case len(page.Items) == 0:
		return postrider.AccountID{}, fmt.Errorf("account %s: %w", name, postrider.ErrNotFound)
	}
	return page.Items[0].ID, nil
}

// FirstKey is the admin key that a server makes if its store has no key.
type FirstKey struct {
	Text string // empty: the store already had a key
	File string // path of the file with the text; empty: no file has the text
}

// MakeFirstKey makes an admin key if the store has no key. It writes the text into a file of the
// data folder that only its owner may read. A node on PostgreSQL needs no data folder. So if it
// cannot write the file, the result has the text and no file.
func MakeFirstKey(ctx context.Context, to Store, c config.StoreConfig) (FirstKey, error) {
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
	// Write the file before the store. If the process crashes between the two, the next start
	// replaces the file. In the other order, a crash could leave a key whose text nobody knows.
	first := FirstKey{Text: text, File: c.KeyFile()}
	if err := config.KeepFile(first.File, text); err != nil {
		dsn, dsnErr := c.DSN()
		if dsn == "" || dsnErr != nil {
			return FirstKey{}, errors.Join(err, dsnErr)
		}
		first.File = ""
	}
	return first, putKey(ctx, to, key)
}
