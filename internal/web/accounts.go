package web

import (
	"cmp"
	"context"
	"net/http"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// accountRoutes lists the pages and forms of accounts.
func accountRoutes() []route {
	return []route{
		{"GET /accounts", operators, listAccounts},
		{"GET /accounts/new", operators, newAccount},
		{"POST /accounts", operators, createAccount},
		{"GET /accounts/{account}", operators, showAccount},
		{"POST /accounts/{account}", operators, changeAccount},
		{"POST /accounts/{account}/portal-link", operators, makePortalLink},
		{"GET /accounts/{account}/portal-link", operators, showAccount}, // a link that was shown is loaded again
		{"POST /accounts/{account}/quotas", operators, changeQuotas},
		{"POST /accounts/{account}/retention", operators, changeRetention},
		{"GET /accounts/{account}/delete", operators, confirmDeleteAccount},
		{"POST /accounts/{account}/delete", operators, deleteAccount},
	}
}

// listAccounts shows the accounts, newest first.
func listAccounts(v *visit) error {
	found, err := v.api.Accounts(v.ctx, v.paging())
	return showList(v, page{Name: "accounts", Commands: []string{"accounts list"}}, listed[apitypes.Account]{items: found, err: err})
}

// accountForm is the form of an account. Its fields are what the person typed.
type accountForm struct {
	Name, UID string
	Limits    map[string]string // of the form of quotas; nil: it was not sent
	Days      map[string]string // of the form of retention; nil: it was not sent
	Faults    map[string]string
}

// accountPage is the data of the page of one account.
type accountPage struct {
	Account   apitypes.Account
	Traffic   *traffic            // nil: the page shows a form that was sent
	Endpoints []apitypes.Endpoint // the newest
	More      bool                // there are more endpoints
	Dead      []deadLetterGroup   // the first groups
	Keys      []keyRow            // the newest that are bound to it; none for those who may not manage keys
	MoreKeys  bool                // there are more keys
	Form      accountForm
	Link      portalLink
	Quotas    []quotaRow
	Retention []retentionRow
}

// newAccount shows the form of a new account.
func newAccount(v *visit) error {
	return v.show(page{Name: "accounts-new", Data: accountForm{}, Commands: []string{"accounts create"}})
}

// createAccount creates an account.
func createAccount(v *visit) error {
	form := accountForm{Name: v.form("name"), UID: v.form("uid")}
	a, err := v.api.CreateAccount(v.ctx, apitypes.AccountCreate{Name: form.Name, UID: form.UID})
	var refused bool
	if form.Faults, refused = v.faulty(err); refused {
		return v.show(page{Name: "accounts-new", Data: form, Status: statusOf(err), Commands: []string{"accounts create"}})
	}
	if err != nil {
		return err
	}
	return v.done(v.path("accounts", a.ID), flash{Text: v.t("account.done.create")})
}

// showAccount shows one account, by its id or uid, with its numbers, its newest endpoints and
// what died.
func showAccount(v *visit) error {
	a, err := v.api.Account(v.ctx, v.r.PathValue("account"))
	if err != nil {
		return err
	}
	return v.showAccountWith(a, formOf(a), v.portalLink(a))
}

// formOf returns the form of an account as it is stored.
func formOf(a apitypes.Account) accountForm {
	form := accountForm{Name: a.Name}
	if a.UID != nil {
		form.UID = *a.UID
	}
	return form
}

func (v *visit) showAccountWith(a apitypes.Account, form accountForm, link portalLink) error {
	p := accountPage{Account: a, Form: form, Link: link, Retention: retention(a, form)}
	endpoints, err := v.api.Endpoints(v.ctx, client.EndpointFilter{Account: a.ID.String(), Paging: client.Paging{Limit: 10}})
	if err != nil {
		return err
	}
	if v.r.Method == http.MethodGet {
		p.Traffic, err = v.traffic("?account="+a.ID.String(), func(ctx context.Context, q client.StatsQuery) (apitypes.Stats, error) {
			return v.api.AccountStats(ctx, a.ID.String(), q)
		})
		if err != nil {
			return err
		}
	}
	if p.Quotas, err = v.quotas(a, form.Limits, form.Faults); err != nil {
		return err
	}
	p.Endpoints, p.More = endpoints.Data, endpoints.NextCursor != nil
	groups, err := v.api.DeadLetterGroups(v.ctx, client.DeadLetterGroupFilter{Account: a.ID.String(), Paging: client.Paging{Limit: 5}})
	if err != nil {
		return err
	}
	dead, err := v.nameGroups(groups)
	if err != nil {
		return err
	}
	p.Dead = dead.Data
	if v.can(postrider.ScopeAdmin) {
		keys, err := v.keys(client.KeyFilter{Account: a.ID.String(), Paging: client.Paging{Limit: 5}})
		if err != nil {
			return err
		}
		p.Keys, p.MoreKeys = keys.Data, keys.NextCursor != nil
	}
	shown := page{Name: "accounts-one", Title: cmp.Or(a.Name, form.UID), Data: p, Commands: []string{"accounts get " + a.ID.String(), "stats --account " + a.ID.String(), "portal link " + a.ID.String()}}
	if len(form.Faults) > 0 || link.Fault != "" {
		shown.Status = 422
	}
	return v.show(shown)
}

// changeAccount changes the name and the uid of an account.
func changeAccount(v *visit) error {
	a, err := v.api.Account(v.ctx, v.r.PathValue("account"))
	if err != nil {
		return err
	}
	form := accountForm{Name: v.form("name"), UID: v.form("uid")}
	change := apitypes.AccountUpdate{Name: apitypes.Of(form.Name), UID: apitypes.Of(form.UID)}
	if form.UID == "" {
		change.UID = apitypes.Null[string]()
	}
	_, err = v.api.ChangeAccount(v.ctx, a.ID.String(), change)
	var refused bool
	if form.Faults, refused = v.faulty(err); refused {
		return v.showAccountWith(a, form, v.portalLink(a))
	}
	if err != nil {
		return err
	}
	return v.done(v.path("accounts", a.ID), flash{Text: v.t("account.done.change")})
}

// confirmDeleteAccount asks whether the account shall be deleted, and says what that does.
func confirmDeleteAccount(v *visit) error {
	a, err := v.api.Account(v.ctx, v.r.PathValue("account"))
	if err != nil {
		return err
	}
	return v.show(page{Name: "accounts-delete", Data: a, Commands: []string{"accounts delete " + a.ID.String()}})
}

// deleteAccount deletes an account.
func deleteAccount(v *visit) error {
	id, err := pathID(v, "account", postrider.ParseID[postrider.AccountID])
	if err != nil {
		return err
	}
	if err := v.api.DeleteAccount(v.ctx, id.String()); err != nil {
		return err
	}
	return v.done(v.path("accounts"), flash{Text: v.t("account.done.delete")})
}
