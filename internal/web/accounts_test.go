package web_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// TestMetadataIsReadAndChangedInForms changes the metadata of an account and of an endpoint.
func TestMetadataIsReadAndChangedInForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	path := "/dashboard/accounts/" + w.account.ID.String()
	form := url.Values{"name": {"Acme"}, "uid": {"acme"}, "metadata": {"plan = gold\r\n\r\nnote=a=b"}}
	says(t, w.submit("operator", path, form), "The account is changed.", "note=a=b\nplan=gold</textarea>")
	a, err := w.admin.Account(t.Context(), "acme")
	if want := (apitypes.Metadata{"plan": "gold", "note": "a=b"}); err != nil || !maps.Equal(a.Metadata, want) {
		t.Errorf("the metadata is %v, %v, want %v", a.Metadata, err, want)
	}
	for typed, reason := range map[string]string{
		"plan": "Write each key once", "a=1\na=2": "Write each key once", "=gold": "Keys have 1 to 128 bytes",
		"a=" + strings.Repeat("x", 2048): "at most 2,048 bytes together",
	} {
		for _, form := range []string{path, "/dashboard/accounts"} {
			got := w.as("operator", "POST "+form, url.Values{"name": {"Acme"}, "uid": {"other"}, "metadata": {typed}})
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, reason) {
				t.Errorf("%.20s at %s = %d, and does not say %q", typed, form, got.status, reason)
			}
		}
	}
	form.Set("metadata", "")
	w.submit("operator", path, form)
	if a, err := w.admin.Account(t.Context(), "acme"); err != nil || a.Metadata != nil {
		t.Errorf("the metadata is %v, %v, want none", a.Metadata, err)
	}

	id := w.endpoint(apitypes.EndpointCreate{}).ID
	options := "/dashboard/endpoints/" + id.String() + "/options"
	w.submit("operator", options, url.Values{"was.metadata": {""}, "metadata": {"plan=gold"}, "save": {"1"}})
	e, err := w.admin.Endpoint(t.Context(), id)
	if want := (apitypes.Metadata{"plan": "gold"}); err != nil || !maps.Equal(e.Metadata, want) {
		t.Errorf("the metadata of the endpoint is %v, %v, want %v", e.Metadata, err, want)
	}
	w.see("operator", options).says(t, ">plan=gold</textarea>")
}

// TestTheAccountPageHasItsOwnNumbers publishes for two accounts: the page of each counts its
// own deliveries alone, in figures and charts, and its links are of the account.
func TestTheAccountPageHasItsOwnNumbers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	path := "/dashboard/accounts/" + w.account.ID.String()
	other, err := w.admin.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "globex"})
	if err != nil {
		t.Fatal(err)
	}
	w.dead()
	if _, err := w.store.FoldRollups(t.Context(), store.Fold{Deltas: 100}); err != nil {
		t.Fatal(err)
	}
	letters := `href="/dashboard/dead-letters?account=` + w.account.ID.String() + `">1</a>`
	w.see("operator", path).says(t, "traffic-section", letters, "Deliveries delivered: 0. Failed attempts: 1. Dead letters: 1.",
		path+"?range=7d")
	w.see("operator", "/dashboard/accounts/globex").says(t, "traffic-section", "Nothing happened in this range.")
	if err := w.admin.DeleteAccount(t.Context(), other.ID.String()); err != nil {
		t.Fatal(err)
	}
	w.see("operator", "/dashboard/accounts/"+other.ID.String()).says(t, "traffic-section")
	// A form that is refused is shown without them: its ranges would lead to no page.
	if got := w.as("operator", "POST "+path, url.Values{"name": {strings.Repeat("x", 300)}, "uid": {"acme"}}); got.status != 422 {
		t.Errorf("a refused form = %d, want 422", got.status)
	} else {
		got.lacks(t, "traffic-section")
	}
}
