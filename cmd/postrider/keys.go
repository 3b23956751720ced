package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/offline"
)

// keysCmd is the group of commands for API keys. They need no server and no API key, because they
// open the store itself: access to the store is the permission.
type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Make an API key and print it. It cannot be shown again."`
	List   keysListCmd   `cmd:"" help:"List API keys, newest first."`
	Get    keysGetCmd    `cmd:"" help:"Show one API key, without its text."`
	Revoke keysRevokeCmd `cmd:"" help:"Make an API key invalid."`
}

// onStore has the flags of commands that open the store themselves. These commands must work before
// any API key exists, because they make the first one. Only one process can open a SQLite store;
// while a server has it open, they call that server.
type onStore struct {
	config.StoreConfig `embed:""`
}

// Help returns the text above the flags in the help of the commands.
func (onStore) Help() string {
	return "Opens the store itself and needs no running server. If a server has the SQLite database open, " +
		"the command calls that server with the API key from POSTRIDER_KEY_FILE or POSTRIDER_API_KEY, " +
		"or else from admin.key in the data folder."
}

// storeOrServer checks the settings and calls onStore, which opens the store. If another process
// has the SQLite store open, it calls onServer with a client of that server instead.
//
// It tries the store first, because only the lock of the store shows for sure that a server runs.
// The file with a server's URL can outlive the server. storeOrServer reads the URL from that file
// in the data folder. The key comes from the environment, or from admin.key in that folder.
func (c onStore) storeOrServer(sources *config.Sources, onStore func() error, onServer func(*client.Client) error) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	err := onStore()
	if !drivers.InUse(err) {
		return err
	}
	url, missing := c.Running()
	if missing != nil {
		return errors.Join(err, missing)
	}
	key, missing := findKey(os.Getenv("POSTRIDER_KEY_FILE"), c.KeyFile())
	if errors.Is(missing, errNoKey) {
		return misused("a server has this store open, and calling it needs an admin key: "+
			"set POSTRIDER_API_KEY, write the key into %s, or stop the server", c.KeyFile())
	}
	if missing != nil {
		return errors.Join(err, missing)
	}
	api := client.New(url, key, client.Options{UserAgent: "postrider-cli"})
	defer api.Close()
	return onServer(api)
}

type keysCreateCmd struct {
	onStore

	Name    string            `required:"" help:"A name that tells people what the key is for."`
	Scope   []postrider.Scope `required:"" enum:"events:write,webhooks:read,webhooks:operate,endpoints:write,secrets:read,webhooks:write,admin" help:"What the key may do: ${enum}. Can be repeated."`
	Account string            `help:"Restrict the key to one account, by id or uid. Default: all accounts."`
	Expires *time.Duration    `help:"How long the key is valid, for example 30d. Default: until it is revoked."`
	JSON    bool              `name:"json" help:"Print the result as JSON."`
}

// madeKey is the output of keys create. No other output contains the text of a key, since the store
// has only its hash. The output is the same whether the store or a server made the key, so a script
// need not know.
type madeKey struct {
	ID  postrider.KeyID `json:"id"`
	Key string          `json:"key"`
}

// Run makes the key and prints its id and its text. The text is on a line of its own, so that a
// script can read it with tail -n 1. If the command ends after the key was stored and before it was
// printed, nobody has the text. Such a key can be revoked.
func (c *keysCreateCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := errors.Join(sources.Check(c.Validate), c.check()); err != nil {
		return err
	}
	var made madeKey
	err := c.storeOrServer(sources, func() error {
		key, text, err := offline.CreateKey(ctx, c.StoreConfig, offline.NewKey{
			Name: c.Name, Scopes: c.Scope, Account: c.Account, Expires: optional(c.Expires),
		})
		made = madeKey{key.ID, text}
		return err
	}, func(api *client.Client) error {
		// The API accepts a time and not a duration, so this machine's clock sets the expiry. If
		// the command works on the store, the store's clock does.
		wanted := apitypes.KeyCreate{Name: c.Name, Scopes: c.Scope, Account: c.Account}
		if c.Expires != nil {
			wanted.ExpiresAt = &apitypes.Time{Time: time.Now().Add(*c.Expires)}
		}
		key, err := api.CreateKey(ctx, wanted)
		made = madeKey{key.ID, key.Key}
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(t.out, made)
	}
	_, err = fmt.Fprintf(t.out, "%s\n%s\n", made.ID, made.Key)
	return err
}

// check returns the faults that the server would find too. If the command works on the store
// itself, no server checks them. kong checks the name and the scopes; the account is checked when
// it is looked up.
func (c *keysCreateCmd) check() error {
	switch {
	case c.Expires != nil && *c.Expires <= 0:
		return misused("--expires: must be more than 0s")
	// An admin key manages all accounts, so it cannot be bound to one.
	case c.Account != "" && slices.Contains(c.Scope, postrider.ScopeAdmin):
		return misused("--scope: a key that is bound to an account cannot be admin")
	}
	return nil
}

type keysListCmd struct {
	onStore

	Account string `help:"Only the keys that are bound to this account, by id or uid. Default: all keys."`
	JSON    bool   `name:"json" help:"Print the result as JSON."`
}

// Run lists the keys.
func (c *keysListCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	page, err := c.keys(ctx, sources, c.Account)
	if err != nil {
		return err
	}
	return keyTable.page(t, c.JSON, page)
}

// keys returns the keys that are bound to the account, from the store or from the server. Without
// an account it returns all keys.
func (c onStore) keys(ctx context.Context, sources *config.Sources, account string) (page apitypes.Page[apitypes.Key], err error) {
	err = c.storeOrServer(sources, func() error {
		keys, err := offline.Keys(ctx, c.StoreConfig, account)
		for _, k := range keys {
			page.Data = append(page.Data, keyOf(k))
		}
		return err
	}, func(api *client.Client) (err error) {
		page, err = allKeys(ctx, api, account)
		return err
	})
	return page, err
}

type keysGetCmd struct {
	onStore

	ID   postrider.KeyID `arg:"" help:"The key's id, key_…"`
	JSON bool            `name:"json" help:"Print the result as JSON."`
}

// Run prints one key. It searches the list of all keys, which is short: it has one key for each
// program that calls the API.
func (c *keysGetCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	page, err := c.keys(ctx, sources, "")
	if err != nil {
		return err
	}
	for _, k := range page.Data {
		if k.ID == c.ID {
			return keyTable.one(t, c.JSON, k)
		}
	}
	return fmt.Errorf("%s: %w", c.ID, postrider.ErrNotFound)
}

// allKeys reads all pages of the keys that are bound to the account; without an account, of all
// keys. The commands for keys have no paging flags, because the store can list all keys at once.
func allKeys(ctx context.Context, api *client.Client, account string) (all apitypes.Page[apitypes.Key], err error) {
	for cursor := ""; ; {
		page, err := api.Keys(ctx, client.KeyFilter{Account: account, Paging: client.Paging{Limit: 250, Cursor: cursor}})
		if err != nil {
			return all, err
		}
		all.Data = append(all.Data, page.Data...)
		if cursor = page.Next(); cursor == "" {
			return all, nil
		}
	}
}

// keyOf converts a key of the store to the type of the API. So a command prints the same whether it
// worked on the store or called a server. A zero time becomes null.
func keyOf(k postrider.APIKey) apitypes.Key {
	instant := func(at time.Time) *apitypes.Time {
		if at.IsZero() {
			return nil
		}
		return &apitypes.Time{Time: at}
	}
	shown := apitypes.Key{
		ID: k.ID, Name: k.Name, Scopes: k.Scopes, CreatedAt: apitypes.Time{Time: k.CreatedAt},
		ExpiresAt: instant(k.ExpiresAt), RevokedAt: instant(k.RevokedAt), LastUsedAt: instant(k.LastUsedAt),
	}
	if !k.Account.IsZero() {
		shown.Account = &k.Account
	}
	return shown
}

// keyTable shows API keys without their texts.
var keyTable = tableOf[apitypes.Key]{
	[]string{"ID", "NAME", "SCOPES", "ACCOUNT", "STATE", "LAST USED"},
	func(k apitypes.Key) []string {
		var scopes []string
		for _, s := range k.Scopes {
			scopes = append(scopes, string(s))
		}
		account := ""
		if k.Account != nil {
			account = k.Account.String()
		}
		return []string{
			k.ID.String(), k.Name, strings.Join(scopes, ","), account,
			keyState(k, time.Now()), moment(k.LastUsedAt),
		}
	},
}

// keyState returns the state of a key in a word or two. Revoked comes before expired, because a
// person revoked the key. keyState uses this machine's clock; the server uses the store's clock.
func keyState(k apitypes.Key, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt == nil:
		return "valid"
	case now.Before(k.ExpiresAt.Time):
		return "until " + moment(k.ExpiresAt)
	}
	return "expired"
}

type keysRevokeCmd struct {
	onStore

	ID postrider.KeyID `arg:"" help:"The key's id, key_…"`
}

// Run revokes the key. A server that does it refuses the key at once. Every other node refuses it
// within five seconds; so do all nodes if the command changes the store directly.
func (c *keysRevokeCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	err := c.storeOrServer(sources,
		func() error { return offline.RevokeKey(ctx, c.StoreConfig, c.ID) },
		func(api *client.Client) error { return api.RevokeKey(ctx, c.ID) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%s is revoked\n", c.ID)
	return err
}
