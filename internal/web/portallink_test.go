package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/web"
)

// An operator makes a link to a customer's portal from the page of the account. The session
// may do what the operator chose, at most what the operator may do, and both the making and
// the account are in the audit log.
func TestAnOperatorOpensThePortalOfAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, web.Options{}, api.Options{PublicURL: "https://hooks.example"})
	page := "/dashboard/accounts/" + w.account.ID.String()
	says(t, w.see("operator", page), "Open the customer&#39;s portal", `value="operate"`, `value="secrets"`,
		"postrider portal link "+w.account.ID.String(), "/v1/webhooks/portal-sessions")
	viewer := w.see("viewer", page)
	says(t, viewer, `action="`+page+`/portal-link"`)
	viewer.lacks(t, `value="operate"`, `value="edit"`, `value="secrets"`)

	for person, chosen := range map[string][]string{"operator": {"operate"}, "viewer": nil} {
		made := w.as(person, "POST "+page+"/portal-link", url.Values{"capability": chosen})
		says(t, made, "The link works once, for 60 seconds.", `rel="noopener noreferrer"`)
		if link := regexp.MustCompile(`href="https://hooks\.example/portal/enter/[\w-]{20,}"`); made.status != http.StatusOK ||
			!link.MatchString(made.html) {
			t.Errorf("the link of the %s = %d\n%s", person, made.status, made.html)
		}
		if at := strings.Join(made.header.Values("Set-Cookie"), ""); strings.Contains(at, "enter") ||
			made.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the link is kept: %q, %s", at, made.header.Get("Cache-Control"))
		}
		sessions, err := w.admin.Sessions(t.Context(), client.SessionFilter{Account: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		want := []postrider.Scope{postrider.ScopeWebhooksRead}
		if chosen != nil {
			want = append(want, postrider.ScopeWebhooksOperate)
		}
		if !slices.Equal(sessions.Data[0].Scopes, want) {
			t.Errorf("the session of the %s may %v, want %v", person, sessions.Data[0].Scopes, want)
		}
	}
	says(t, w.see("operator", "/dashboard/audit?action=create-portal-session&account=acme"), "Make a link to the portal", "Viktor", "Olga")
}

// Without the URL of the server there is no link, and the page says which setting is
// missing.
func TestALinkToThePortalNeedsThePublicURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	got := w.as("operator", "POST /dashboard/accounts/acme/portal-link", nil)
	if got.status != http.StatusUnprocessableEntity {
		t.Errorf("a link without a public URL = %d", got.status)
	}
	says(t, got, "Start the server with --public-url", `role="alert"`)
}

// Every action that an audit entry can have is named in each language.
func TestTextOfEveryAuditedAction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	actions := w.api.Actions()
	if !slices.Contains(actions, "update-endpoint") || !slices.Contains(actions, "reveal-secret") || !slices.Contains(actions, "login") ||
		slices.Contains(actions, "list-endpoints") {
		t.Errorf("the audited actions are %q", actions)
	}
	for language, keys := range w.web.Catalogues() {
		for _, action := range actions {
			if !slices.Contains(keys, "audit.do."+action) {
				t.Errorf("%s.json has no audit.do.%s", language, action)
			}
		}
		for _, key := range keys {
			if action, named := strings.CutPrefix(key, "audit.do."); named && !slices.Contains(actions, action) {
				t.Errorf("%s.json names %s, which is no audited action", language, action)
			}
		}
	}
	e := w.endpoint(apitypes.EndpointCreate{})
	w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/pause", nil)
	got := w.as("operator", "GET /dashboard/audit", nil, german)
	says(t, got, "Endpunkt pausieren", "<code>pause-endpoint</code>", `<option value="update-endpoint">Endpunkt ändern</option>`, ">Endpunkt<")
}

// The form for a new endpoint finds the account by its name, in any case, and says beside
// the field what is wrong with another text.
func TestANewEndpointFindsItsAccountByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for range 2 {
		if _, err := w.admin.CreateAccount(t.Context(), apitypes.AccountCreate{Name: "Twin"}); err != nil {
			t.Fatal(err)
		}
	}
	says(t, w.see("operator", "/dashboard/endpoints/new"), `list="accounts"`, `<option value="`+w.account.ID.String()+`">Acme</option>`)
	for _, named := range []string{"Acme", "acme", "ACME", w.account.ID.String()} {
		got := w.as("operator", "POST /dashboard/endpoints/new",
			url.Values{"account": {named}, "url": {"https://a.example"}, "was.event_types": {""}, "event_types": {"*"}})
		if got.status != http.StatusSeeOther {
			t.Errorf("an endpoint of %q = %d\n%s", named, got.status, got.html)
		}
	}
	for named, want := range map[string]string{
		"Acm": "There is no account with this name, id or own id (uid).", "Twin": "2 accounts have this name.", "": "Fill in this field",
		"acc_01h455vb4pex5vsknk084sn02q": "There is no account with this name",
	} {
		got := w.as("operator", "POST /dashboard/endpoints/new",
			url.Values{"account": {named}, "url": {"https://a.example"}, "was.event_types": {""}, "event_types": {"*"}})
		field := regexp.MustCompile(`<input id="account"[^>]*>`).FindString(got.html)
		if got.status != http.StatusUnprocessableEntity ||
			!strings.Contains(field, `aria-describedby="help-account fault-account" aria-invalid="true"`) ||
			!strings.Contains(field, `value="`+named+`"`) {
			t.Errorf("an endpoint of %q = %d with the field %s", named, got.status, field)
		}
		says(t, got, want, `id="fault-account"`)
	}
}
