package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// The form has only the fields of the chosen authentication. A button shows those of
// another one, keeps what was typed and saves nothing.
func TestOnlyTheFieldsOfTheChosenAuthenticationAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	for _, path := range []string{"/dashboard/endpoints/" + e.ID.String() + "/options", "/dashboard/endpoints/new", "/portal/endpoints/new"} {
		person := "operator"
		if strings.HasPrefix(path, "/portal") {
			person = "customer"
		}
		shown := w.see(person, path)
		shown.lacks(t, `name="auth.username"`, `name="auth.token_url"`, `name="auth.secret"`)
		form := shown.fields()
		form.Set("auth.type", "basic")
		form.Set("timeout_ms", "21s")
		form.Set("show", "auth")
		basic := w.as(person, "POST "+path, form)
		basic.says(t, `name="auth.username"`, `name="auth.secret"`, `value="21s"`)
		basic.lacks(t, `name="auth.token_url"`, `name="auth.header"`, "Save the changes", "Nothing was saved yet")
		if basic.status != http.StatusOK {
			t.Errorf("POST %s = %d", path, basic.status)
		}
		checkHTML(t, basic)
	}
	if got := w.options(e.ID); !got.Auth.IsNull() || got.TimeoutMS.Value() != 10_000 {
		t.Errorf("the button has changed the options: %+v", got)
	}
}

// A schedule of one's own is a choice, and told in words. Another choice replaces it,
// although the text of the old one is left over, and the undo brings it back.
func TestAnOwnScheduleIsShownInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{Retry: apitypes.Of(apitypes.Retry{DelaysMS: []int64{0, 30_000, 300_000}, Jitter: "none"})}})
	path := "/dashboard/endpoints/" + e.ID.String() + "/options"
	shown := w.see("operator", path)
	shown.says(t, `<option value="own" selected>Own schedule</option>`, "Differs from the default. Now: 3 attempts: at once, after 30 s, after 5 min.")
	form := shown.fields()
	form.Set("retry.preset", "48h")
	form.Set("save", "yes")
	done := w.submit("operator", path, form)
	if got := w.options(e.ID).Retry.Value().Preset; got != "48h" {
		t.Errorf("the schedule is %q, want 48h", got)
	}
	w.undo(done)
	if got := w.options(e.ID).Retry.Value().DelaysMS; !slices.Equal(got, []int64{0, 30_000, 300_000}) {
		t.Errorf("the schedule after the undo is %v", got)
	}
	form = w.see("operator", path).fields()
	form.Set("retry.own", "")
	if got := w.as("operator", "POST "+path, form); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, `id="fault-retry"`) {
		t.Errorf("an own schedule without a text = %d", got.status)
	}
	grows := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{Retry: apitypes.Of(apitypes.Retry{BaseMS: 5000, Factor: 2, CapMS: 60_000, MaxAttempts: 6, Jitter: "full"})}})
	w.see("operator", "/dashboard/endpoints/"+grows.ID.String()+"/options").says(t, "6 attempts; the first retry after 5 s, each later delay 2 times the one before, at most 1 min; random part of the delays: full.")
}
