package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/web"
)

// TestEveryPageOfAHeldServerSaysSo opens pages of each kind while the store is held after a
// restore, and one again when it is resumed.
func TestEveryPageOfAHeldServerSaysSo(t *testing.T) {
	t.Parallel()
	const operators, customers = "Held after a restore: nothing is sent", "Deliveries wait."
	w := newWorld(t, web.Options{})
	path := w.hostileEndpoint("/endpoints/{endpoint}")
	if _, err := w.store.PutHold(t.Context(), postrider.HoldRestored); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"", "/endpoints", path, "/deliveries", "/accounts", "/notices", "/tail", "/event-types"} {
		for _, person := range []string{"operator", "viewer"} {
			got := w.see(person, "/dashboard"+page)
			got.says(t, operators, "One pending delivery", "postrider resume --after-restore")
			got.lacks(t, customers)
			checkHTML(t, got)
		}
		if page == "/accounts" {
			continue
		}
		got := w.see("customer", "/portal"+page)
		got.says(t, customers, "You need not do anything.")
		got.lacks(t, operators, "resume --after-restore")
		checkHTML(t, got)
	}
	w.as("operator", "GET /dashboard/nothing", nil).says(t, operators)
	w.as("customer", "GET /portal", nil, german).says(t, "Zustellungen warten.")
	w.as("nobody", "GET /login", nil).lacks(t, operators)
	if got := w.see("operator", "/dashboard/endpoints"); strings.Contains(got.html, "/v1/webhooks/hold") {
		t.Error("the calls of the page have the one of its frame")
	}
	if _, err := w.store.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the pages say nothing more of it", func() bool { // an answer is used for a second
		operator, customer := w.see("operator", "/dashboard"), w.see("customer", "/portal")
		return !strings.Contains(operator.html, operators) && !strings.Contains(customer.html, customers)
	})
}

// TestAPageIsShownWithoutTheHoldIfTheAPIDoesNotSay answers nothing but errors about the hold.
func TestAPageIsShownWithoutTheHoldIfTheAPIDoesNotSay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.web.API = func(c postrider.Caller) http.RoundTripper { return away{w.api.As(c), "/hold"} }
	w.see("operator", "/dashboard").lacks(t, "Held after a restore")
}
