package web

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// keyRoutes lists the pages and forms of API keys.
func keyRoutes() []route {
	return []route{
		{"GET /api-keys", operators, listKeys},
		{"GET /api-keys/new", operators, newKey},
		{"POST /api-keys", operators, createKey},
		{"GET /api-keys/{key}", operators, showKey},
		{"POST /api-keys/{key}/revoke", operators, revokeKey},
	}
}

// keyRow is an API key with its state.
type keyRow struct {
	apitypes.Key

	State string // active, expired or revoked
}

// stateOf returns the state of an API key.
func (v *visit) stateOf(k apitypes.Key) keyRow {
	switch {
	case k.RevokedAt != nil:
		return keyRow{k, "revoked"}
	case k.ExpiresAt != nil && !v.now.Before(k.ExpiresAt.Time):
		return keyRow{k, "expired"}
	}
	return keyRow{k, "active"}
}

// listKeys shows the API keys, newest first.
func listKeys(v *visit) error {
	f := filters{v.accountFilter()}
	keys, err := v.keys(client.KeyFilter{Account: v.query("account"), Paging: v.paging()})
	return showList(v, page{Name: "api_keys", Commands: []string{v.command("keys list")}}, listed[keyRow]{keys, f, err})
}

// keys returns API keys with their states.
func (v *visit) keys(f client.KeyFilter) (apitypes.Page[keyRow], error) {
	keys, err := v.api.Keys(v.ctx, f)
	rows := apitypes.Page[keyRow]{NextCursor: keys.NextCursor}
	for _, k := range keys.Data {
		rows.Data = append(rows.Data, v.stateOf(k))
	}
	return rows, err
}

// keyForm is the form of a new API key. Its fields are what the person typed.
type keyForm struct {
	Name, Account, Expires string
	Scopes                 []string // that are chosen
	All                    []string
	Faults                 map[string]string
}

// keyPresets are scopes that a link of the form ticks. Without one nothing is ticked: a person
// who adds a scope must not give away one that they did not see.
var keyPresets = map[string][]string{
	"read":    {string(postrider.ScopeWebhooksRead)},
	"support": {string(postrider.ScopeWebhooksRead), string(postrider.ScopeWebhooksOperate)},
	"publish": {string(postrider.ScopeEventsWrite)},
}

// newKey shows the form of a new API key.
func newKey(v *visit) error {
	return v.show(page{Name: "api_keys-new", Data: keyForm{
		Account: v.query("account"), Scopes: keyPresets[v.query("preset")], All: words(postrider.Scopes),
	}, Commands: []string{"keys create"}})
}

// createKey creates an API key, and shows its text, once.
func createKey(v *visit) error {
	form := keyForm{Name: v.form("name"), Account: v.form("account"), Expires: v.form("expires_at"), All: words(postrider.Scopes)}
	form.Scopes = v.posted["scopes"]
	create := apitypes.KeyCreate{Name: form.Name, Account: form.Account, Scopes: []postrider.Scope{}}
	for _, scope := range form.Scopes {
		create.Scopes = append(create.Scopes, postrider.Scope(scope))
	}
	if form.Expires != "" {
		at, err := time.ParseInLocation(localTime, form.Expires, v.zone)
		if err != nil {
			form.Faults = map[string]string{"expires_at": v.t("form.no_time")}
			return v.show(page{Name: "api_keys-new", Data: form, Status: 422, Commands: []string{"keys create"}})
		}
		create.ExpiresAt = &apitypes.Time{Time: at}
	}
	made, err := v.api.CreateKey(v.ctx, create)
	var refused bool
	if form.Faults, refused = v.faulty(err); refused {
		return v.show(page{Name: "api_keys-new", Data: form, Status: statusOf(err), Commands: []string{"keys create"}})
	}
	if err != nil {
		return err
	}
	return v.show(page{Name: "api_keys-made", Data: made, Commands: []string{"keys create"}})
}

// key returns the API key in the path of the request.
func (v *visit) key() (apitypes.Key, error) {
	id, err := pathID(v, "key", postrider.ParseID[postrider.KeyID])
	if err != nil {
		return apitypes.Key{}, err
	}
	return v.api.Key(v.ctx, id)
}

// keyPage is the data of the page of one API key.
type keyPage struct {
	keyRow

	Own bool // the session depends on this key, so revoking it ends the session
}

// showKey shows one API key.
func showKey(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	return v.show(page{Name: "api_keys-one", Title: k.Name, Data: keyPage{v.stateOf(k), v.session.Caller.Key == k.ID}, Commands: []string{
		"keys list", "keys revoke " + k.ID.String(),
	}})
}

// revokeKey ends an API key.
func revokeKey(v *visit) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	if err := v.api.RevokeKey(v.ctx, k.ID); err != nil {
		return err
	}
	return v.done(v.path("api-keys"), flash{Text: v.t("api_key.done.revoke", "name", k.Name)})
}

// Chosen reports whether a scope is chosen.
func (f keyForm) Chosen(scope string) bool { return slices.Contains(f.Scopes, scope) }
