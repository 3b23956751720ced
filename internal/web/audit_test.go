package web_test

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
)

// TestTheAuditLogFoldsALongFilter changes a long filter and a long condition. The page has all of the old
// and the new text, folded. A short filter is shown as it is.
func TestTheAuditLogFoldsALongFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf(`"customer number %d"`, i)
	}
	long := `{"data":{"total":[{"numeric":["<",100]}],"name":[` + strings.Join(names, ",") + `]}}`
	const short = `{"data":{"status":["paid"]}}`
	condition := `data.total < 5.0 ||` + "\n" + `data.name in [` + strings.Join(names, ",") + `]`
	for _, u := range []apitypes.EndpointUpdate{
		{Policy: apitypes.Policy{Filter: apitypes.Of(json.RawMessage(short))}},
		{Policy: apitypes.Policy{Filter: apitypes.Of(json.RawMessage(long))}},
		{Policy: apitypes.Policy{Condition: apitypes.Of(condition)}},
	} {
		if _, err := w.admin.ChangeEndpoint(t.Context(), e.ID, u); err != nil {
			t.Fatal(err)
		}
	}
	shown := w.see("operator", "/dashboard/audit")
	checkHTML(t, shown)
	if n := strings.Count(shown.html, "<details class=\"more\"><summary>"); n != 2 {
		t.Errorf("%d details are folded, want the two long ones", n)
	}
	shown.html = html.UnescapeString(shown.html)
	shown.says(t, "<summary>filter: old and new text</summary>", "<summary>condition: old and new text</summary>", "filter: null → "+short,
		page.PrettyJSON(short), page.PrettyJSON(long), condition)
	w.as("operator", "GET /dashboard/audit", nil, german).says(t, "filter: alter und neuer Text", "Vorher", "Danach")
}

// TestTheAuditLogFoldsTheFilterOfANewEndpoint creates an endpoint with a long filter and a long condition.
// The page has all of both, folded, with null as the old text.
func TestTheAuditLogFoldsTheFilterOfANewEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	long := `{"data":{"name":["` + strings.Repeat("long name ", 40) + `"]}}`
	condition := `data.total < 5.0 || data.name == "` + strings.Repeat("long name ", 40) + `"`
	w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{
		Filter: apitypes.Of(json.RawMessage(long)), Condition: apitypes.Of(condition),
	}})
	shown := w.see("operator", "/dashboard/audit")
	checkHTML(t, shown)
	shown.html = html.UnescapeString(shown.html)
	shown.says(t, "create-endpoint", "<summary>filter: old and new text</summary>", "<summary>condition: old and new text</summary>",
		page.PrettyJSON([]byte(long)), condition, ">null<")
}
