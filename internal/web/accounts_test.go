package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

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
