package web_test

import (
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// The pages keep the answers about numbers for a second, and no others.
func TestAnAccountWithTheNameOfNumbersIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	if _, err := w.admin.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "stats", Name: "Before"}); err != nil {
		t.Fatal(err)
	}
	w.see("operator", "/dashboard/accounts/stats").says(t, "Before")
	if _, err := w.admin.ChangeAccount(t.Context(), "stats", apitypes.AccountUpdate{Name: apitypes.Of("After")}); err != nil {
		t.Fatal(err)
	}
	w.see("operator", "/dashboard/accounts/stats").says(t, "After")
}
