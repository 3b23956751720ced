package access

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// listKeys shows the API keys, newest first.
func listKeys(v *page.Visit) error {
	f := v.AccountFilter()
	keys, err := page.KeysOf(v, client.KeyFilter{Account: v.Query("account"), Paging: v.Paging()})
	return page.ShowList(v, page.View{Name: "api_keys", Filters: f, Commands: []string{v.Command("keys list")}}, keys, err)
}

// keyForm is the form of a new API key, with the values that the person typed.
type keyForm struct {
	Name, Account, Expires string
	Scopes                 []string // that are chosen
	All                    []string
	Faults                 map[string]string
}

// keyPresets has the scopes that a link to the form preselects. Without a preset no scope is
// selected, so that a person never gives away a scope that they did not see.
var keyPresets = map[string][]string{
	"read":    {string(postrider.ScopeWebhooksRead)},
	"support": {string(postrider.ScopeWebhooksRead), string(postrider.ScopeWebhooksOperate)},
	"publish": {string(postrider.ScopeEventsWrite)},
}

// newKey shows the form of a new API key.
func newKey(v *page.Visit) error {
	return v.Show(page.View{Name: "api_keys-new", Data: keyForm{
		Account: v.Query("account"), Scopes: keyPresets[v.Query("preset")], All: page.Words(postrider.Scopes),
	}, Commands: []string{"keys create"}})
}

// createKey creates an API key, and shows its text once.
func createKey(v *page.Visit) error {
	form := keyForm{Name: v.Form("name"), Account: v.Form("account"), Expires: v.Form("expires_at"), All: page.Words(postrider.Scopes)}
	form.Scopes = v.Posted["scopes"]
	create := apitypes.KeyCreate{Name: form.Name, Account: form.Account, Scopes: []postrider.Scope{}}
	for _, scope := range form.Scopes {
		create.Scopes = append(create.Scopes, postrider.Scope(scope))
	}
	if form.Expires != "" {
		at, err := time.ParseInLocation(page.LocalTime, form.Expires, v.Zone)
		if err != nil {
			form.Faults = map[string]string{"expires_at": v.T("form.no_time")}
			return v.Show(page.View{Name: "api_keys-new", Data: form, Refused: true, Commands: []string{"keys create"}})
		}
		create.ExpiresAt = &apitypes.Time{Time: at}
	}
	made, err := v.API.CreateKey(v.Context, create)
	if form.Faults = v.Faulty(err); form.Faults != nil {
		return v.Show(page.View{Name: "api_keys-new", Data: form, Status: page.StatusOf(err), Commands: []string{"keys create"}})
	}
	if err != nil {
		return err
	}
	return v.Show(page.View{Name: "api_keys-made", Data: made, Commands: []string{"keys create"}})
}

// keyPage is the data of the page of one API key.
type keyPage struct {
	page.KeyRow

	Own bool // the session depends on this key, so revoking it ends the session
}

// showKey shows one API key.
func showKey(v *page.Visit, id postrider.KeyID) error {
	k, err := v.API.Key(v.Context, id)
	if err != nil {
		return err
	}
	return v.Show(page.View{Name: "api_keys-one", Title: k.Name, Data: keyPage{page.KeyOf(v, k), v.Caller.Key == k.ID}, Commands: []string{
		"keys list", "keys revoke " + k.ID.String(),
	}})
}

// revokeKey ends an API key.
func revokeKey(v *page.Visit, id postrider.KeyID) error {
	k, err := v.API.Key(v.Context, id)
	if err != nil {
		return err
	}
	if err := v.API.RevokeKey(v.Context, k.ID); err != nil {
		return err
	}
	return v.Done(v.Path("api-keys"), page.Flash{Text: v.T("api_key.done.revoke", "name", k.Name)})
}

// Chosen reports whether a scope is chosen.
func (f keyForm) Chosen(scope string) bool { return slices.Contains(f.Scopes, scope) }
