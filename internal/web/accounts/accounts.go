// Package accounts has the pages of accounts, with their quotas, their retention, and links to their portal.
package accounts

import (
	"cmp"
	"context"
	"embed"
	"net/http"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/traffic"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of accounts.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Operators: page.Routes{
			"GET /accounts":                        listAccounts,
			"GET /accounts/new":                    newAccount,
			"POST /accounts":                       createAccount,
			"GET /accounts/{account}":              ofAccount(showAccount),
			"POST /accounts/{account}":             ofAccount(changeAccount),
			"POST /accounts/{account}/portal-link": ofAccount(makePortalLink),
			"GET /accounts/{account}/portal-link":  ofAccount(showAccount), // for people who reload the page of a new link
			"POST /accounts/{account}/quotas":      ofAccount(changeQuotas),
			"POST /accounts/{account}/retention":   ofAccount(changeRetention),
			"GET /accounts/{account}/delete":       ofAccount(confirmDeleteAccount),
			"POST /accounts/{account}/delete":      page.OfID("account", deleteAccount),
		},
	}
}

// listAccounts shows the accounts, newest first.
func listAccounts(v *page.Visit) error {
	found, err := v.API.Accounts(v.Context, client.AccountFilter{Paging: v.Paging()})
	return page.ShowList(v, page.View{Name: "accounts", Commands: []string{"accounts list"}}, found, err)
}

// accountForm is the form of an account, with the values that the person typed.
type accountForm struct {
	Name, UID string
	Metadata  string            // a line for each key
	Limits    map[string]string // of the form of quotas; nil: it was not sent
	Days      map[string]string // of the form of retention; nil: it was not sent
	Faults    map[string]string
	link      portalLink
}

// accountPage is the data of the page of one account.
type accountPage struct {
	Account   apitypes.Account
	Traffic   *traffic.Traffic       // nil: the page shows a form that was sent
	Endpoints []apitypes.Endpoint    // the newest
	More      bool                   // there are more endpoints
	Dead      []page.DeadLetterGroup // the first groups
	Keys      []page.KeyRow          // the newest that are bound to it; none for those who may not manage keys
	MoreKeys  bool                   // there are more keys
	Form      accountForm
	Link      portalLink
	Quotas    []quotaRow
	Retention []retentionRow
}

// newAccount shows the form of a new account.
func newAccount(v *page.Visit) error {
	return v.Show(page.View{Name: "accounts-new", Data: accountForm{}, Commands: []string{"accounts create"}})
}

// createAccount creates an account.
func createAccount(v *page.Visit) error {
	form := accountForm{Name: v.Form("name"), UID: v.Form("uid"), Metadata: v.Form("metadata")}
	metadata, unread := page.ParseMetadata(form.Metadata)
	if unread != nil {
		form.Faults = map[string]string{"metadata": v.T(unread.Error())}
		return v.Show(page.View{Name: "accounts-new", Data: form, Refused: true, Commands: []string{"accounts create"}})
	}
	a, err := v.API.CreateAccount(v.Context, apitypes.AccountCreate{Name: form.Name, UID: form.UID, Metadata: metadata})
	if form.Faults = v.Faulty(err); form.Faults != nil {
		return v.Show(page.View{Name: "accounts-new", Data: form, Status: page.StatusOf(err), Commands: []string{"accounts create"}})
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("accounts", a.ID), page.Flash{Text: v.T("account.done.create")})
}

// showAccount shows one account, found by its id or uid, with its numbers, its newest endpoints
// and its dead letters.
func showAccount(v *page.Visit, a apitypes.Account) error {
	return formOf(v, a).show(v, a)
}

// ofAccount returns the handler of a page about the account in the path, found by its id or uid.
func ofAccount(handle func(*page.Visit, apitypes.Account) error) func(*page.Visit) error {
	return func(v *page.Visit) error {
		a, err := v.API.Account(v.Context, v.Request.PathValue("account"))
		if err != nil {
			return err
		}
		return handle(v, a)
	}
}

// formOf returns the form of an account as it is stored.
func formOf(v *page.Visit, a apitypes.Account) accountForm {
	form := accountForm{Name: a.Name, Metadata: page.MetadataText(a.Metadata), link: portalLinkOf(v, a)}
	if a.UID != nil {
		form.UID = *a.UID
	}
	return form
}

// show shows the page of an account with the form.
func (form accountForm) show(v *page.Visit, a apitypes.Account) error {
	p := accountPage{Account: a, Form: form, Link: form.link, Retention: retention(a, form)}
	endpoints, err := v.API.Endpoints(v.Context, client.EndpointFilter{Account: a.ID.String(), Paging: client.Paging{Limit: 10}})
	if err != nil {
		return err
	}
	if v.Request.Method == http.MethodGet {
		p.Traffic, err = traffic.Read(v, "?account="+a.ID.String(), func(ctx context.Context, q client.StatsQuery) (apitypes.Stats, error) {
			return v.API.AccountStats(ctx, a.ID.String(), q)
		})
		if err != nil {
			return err
		}
	}
	if p.Quotas, err = quotas(v, a, form.Limits, form.Faults); err != nil {
		return err
	}
	p.Endpoints, p.More = endpoints.Data, endpoints.NextCursor != nil
	groups, err := v.API.DeadLetterGroups(v.Context, client.DeadLetterGroupFilter{Account: a.ID.String(), Paging: client.Paging{Limit: 5}})
	if err != nil {
		return err
	}
	dead, err := page.GroupsOf(v, groups)
	if err != nil {
		return err
	}
	p.Dead = dead.Data
	if v.Can(postrider.ScopeAdmin) {
		keys, err := page.KeysOf(v, client.KeyFilter{Account: a.ID.String(), Paging: client.Paging{Limit: 5}})
		if err != nil {
			return err
		}
		p.Keys, p.MoreKeys = keys.Data, keys.NextCursor != nil
	}
	shown := page.View{
		Name: "accounts-one", Title: cmp.Or(a.Name, form.UID), Data: p,
		Commands: []string{"accounts get " + a.ID.String(), "stats --account " + a.ID.String(), "portal link " + a.ID.String()},
	}
	shown.Refused = len(form.Faults) > 0 || form.link.Fault != ""
	return v.Show(shown)
}

// changeAccount changes the name, the uid and the metadata of an account.
func changeAccount(v *page.Visit, a apitypes.Account) error {
	form := formOf(v, a)
	form.Name, form.UID, form.Metadata = v.Form("name"), v.Form("uid"), v.Form("metadata")
	metadata, unread := page.ParseMetadata(form.Metadata)
	if unread != nil {
		form.Faults = map[string]string{"metadata": v.T(unread.Error())}
		return form.show(v, a)
	}
	change := apitypes.AccountUpdate{
		Name: apitypes.Of(form.Name), UID: apitypes.Of(form.UID), Metadata: apitypes.NullUnless(len(metadata) > 0, metadata),
	}
	if form.UID == "" {
		change.UID = apitypes.Null[string]()
	}
	_, err := v.API.ChangeAccount(v.Context, a.ID.String(), change)
	if form.Faults = v.Faulty(err); form.Faults != nil {
		return form.show(v, a)
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("accounts", a.ID), page.Flash{Text: v.T("account.done.change")})
}

// confirmDeleteAccount asks whether to delete the account, and says what follows.
func confirmDeleteAccount(v *page.Visit, a apitypes.Account) error {
	return v.Show(page.View{Name: "accounts-delete", Data: a, Commands: []string{"accounts delete " + a.ID.String()}})
}

// deleteAccount deletes an account.
func deleteAccount(v *page.Visit, id postrider.AccountID) error {
	if err := v.API.DeleteAccount(v.Context, id.String()); err != nil {
		return err
	}
	return v.Done(v.Path("accounts"), page.Flash{Text: v.T("account.done.delete")})
}
