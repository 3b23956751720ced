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
	"github.com/postrider/postrider/internal/app"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Make an API key and print it; it is shown only this once."`
	List   keysListCmd   `cmd:"" help:"List API keys, newest first."`
	Get    keysGetCmd    `cmd:"" help:"Show one API key, without its text."`
	Revoke keysRevokeCmd `cmd:"" help:"End an API key."`
}

// onStore holds the flags of commands that open the store themselves. They work
// before a server or an API key exists. Only one process can open a SQLite store;
// while a server has it open, they call that server.
type onStore struct {
	app.StoreConfig `embed:""`
}

// Help returns the text above the flags in the help of the commands.
func (onStore) Help() string {
	return "Works straight on the store. Where a server runs on the same SQLite folder, " +
		"the command goes through that server, with the API key of POSTRIDER_KEY_FILE or POSTRIDER_API_KEY, " +
		"or else the admin.key in the folder."
}

// either calls straight, which opens the store. If another process has the SQLite
// store open, it calls through with a client of that server instead. It finds the
// server by a file of the data folder, and takes the key from the environment or
// from admin.key in that folder.
func (c onStore) either(straight func() error, through func(*client.Client) error) error {
	err := straight()
	if !app.InUse(err) {
		return err
	}
	// The store is in use, so a server runs on this folder. Its file names the URL.
	url, missing := c.Running()
	if missing != nil {
		return errors.Join(err, missing)
	}
	key, missing := findKey(os.Getenv("POSTRIDER_KEY_FILE"), c.KeyFile())
	if errors.Is(missing, errNoKey) {
		return misused("a server has this store open; asking it needs an admin key: "+
			"set POSTRIDER_API_KEY or put it into %s, or stop the server", c.KeyFile())
	}
	if missing != nil {
		return errors.Join(err, missing)
	}
	api := client.New(url, key, client.Options{UserAgent: "postrider-cli"})
	defer api.Close()
	return through(api)
}

type keysCreateCmd struct {
	onStore

	Name    string            `required:"" help:"What the key is for, as people will read it in lists."`
	Scope   []postrider.Scope `required:"" enum:"events:write,webhooks:read,webhooks:write,admin" help:"What the key may do: ${enum}. May be repeated."`
	Account string            `help:"Bind the key to one account, by id or uid. Default: every account."`
	Expires *time.Duration    `help:"How long the key is in force, as in 720h. Default: until it is revoked."`
	JSON    bool              `name:"json" help:"Print JSON."`
}

// madeKey is the output of keys create. No other output contains the text of a key.
type madeKey struct {
	ID  postrider.KeyID `json:"id"`
	Key string          `json:"key"`
}

// Run makes the key and prints its id and its text.
func (c *keysCreateCmd) Run(ctx context.Context, t terminal, sources *app.Sources) error {
	if err := errors.Join(sources.Check(c.Validate), c.check()); err != nil {
		return err
	}
	var made madeKey
	err := c.either(func() error {
		key, text, err := app.CreateKey(ctx, c.StoreConfig, app.NewKey{
			Name: c.Name, Scopes: c.Scope, Account: c.Account, Expires: optional(c.Expires),
		})
		made = madeKey{key.ID, text}
		return err
	}, func(api *client.Client) error {
		// The API takes a time and not a duration. This machine's clock decides it,
		// while the store's clock decides when the command works on the store.
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

// check returns the faults that the server would find, too: straight on the store
// there is no server to find them.
func (c *keysCreateCmd) check() error {
	switch {
	case c.Expires != nil && *c.Expires <= 0:
		return misused("--expires: must be more than 0s")
	// An admin key manages all accounts, so it cannot belong to one.
	case c.Account != "" && slices.Contains(c.Scope, postrider.ScopeAdmin):
		return misused("--scope: a key that is bound to an account cannot be admin")
	}
	return nil
}

type keysListCmd struct {
	onStore

	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the keys.
func (c *keysListCmd) Run(ctx context.Context, t terminal, sources *app.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	page, err := c.keys(ctx)
	if err != nil {
		return err
	}
	return printPage(t, c.JSON, page, keyTable)
}

// keys returns all keys, from the store or from the server.
func (c onStore) keys(ctx context.Context) (page apitypes.Page[apitypes.Key], err error) {
	err = c.either(func() error {
		keys, err := app.Keys(ctx, c.StoreConfig)
		for _, k := range keys {
			page.Data = append(page.Data, keyOf(k))
		}
		return err
	}, func(api *client.Client) (err error) {
		page, err = allKeys(ctx, api)
		return err
	})
	return page, err
}

type keysGetCmd struct {
	onStore

	ID   postrider.KeyID `arg:"" help:"The key's id, key_…"`
	JSON bool            `name:"json" help:"Print JSON."`
}

// Run prints one key. It searches the list of all keys.
func (c *keysGetCmd) Run(ctx context.Context, t terminal, sources *app.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	page, err := c.keys(ctx)
	if err != nil {
		return err
	}
	for _, k := range page.Data {
		if k.ID == c.ID {
			return printOne(t, c.JSON, k, keyTable)
		}
	}
	return fmt.Errorf("%s: %w", c.ID, postrider.ErrNotFound)
}

// allKeys reads all pages of the server's keys.
func allKeys(ctx context.Context, api *client.Client) (all apitypes.Page[apitypes.Key], err error) {
	for cursor := ""; ; {
		page, err := api.Keys(ctx, client.Paging{Limit: 250, Cursor: cursor})
		if err != nil {
			return all, err
		}
		all.Data = append(all.Data, page.Data...)
		if cursor = page.Next(); cursor == "" {
			return all, nil
		}
	}
}

// keyOf returns a key of the store in the type of the API, so that both ways print
// the same. A zero time becomes null.
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

// keyState returns the state of a key in a word or two. Revoked goes before
// expired.
func keyState(k apitypes.Key, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt == nil:
		return "in force"
	case now.Before(k.ExpiresAt.Time):
		return "until " + moment(k.ExpiresAt)
	}
	return "expired"
}

type keysRevokeCmd struct {
	onStore

	ID postrider.KeyID `arg:"" help:"The key's id, key_…"`
}

// Run revokes the key.
func (c *keysRevokeCmd) Run(ctx context.Context, t terminal, sources *app.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	err := c.either(
		func() error { return app.RevokeKey(ctx, c.StoreConfig, c.ID) },
		func(api *client.Client) error { return api.RevokeKey(ctx, c.ID) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%s is revoked\n", c.ID)
	return err
}
