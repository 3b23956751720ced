package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Data that is not JSON comes back in the form in which it can be published again.
func TestDataOfAnotherMediaType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for _, tt := range []struct {
		published string
		want      map[string]any
	}{
		{`"content_type": "text/csv", "data": "a,b\n\u00e9"`, map[string]any{"content_type": "text/csv", "data": "a,b\né"}},
		{`"content_type": "text/csv", "data": "YSxi", "data_encoding": "base64"`, map[string]any{"content_type": "text/csv", "data": "a,b"}},
		{`"content_type": "image/png", "data": "iVBORw==", "data_encoding": "base64"`, map[string]any{
			"content_type": "image/png", "data": "iVBORw==", "data_encoding": "base64",
		}},
	} {
		event := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", `+tt.published+`}`).id("id")
		got := map[string]any{}
		for name, value := range w.want(200, "GET /events/"+event, "").body {
			if name == "data" || name == "content_type" || name == "data_encoding" {
				got[name] = value
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.published, diff)
		}
	}
	for published, fields := range map[string][]string{
		`"content_type": "text/csv", "data": {"a": 1}`:                                       {"data"},
		`"content_type": "text/csv", "data": "a", "data_encoding": "base64", "previous": {}`: {"data", "previous"},
		`"content_type": "text/csv", "data": "a", "data_encoding": "hex"`:                    {"data_encoding"},
		`"content_type": "application/json", "data": "a"`:                                    {"content_type"},
		`"content_type": "csv\u0000", "data": "a"`:                                           {"content_type"},
		`"content_type": "", "data": "a"`:                                                    {"content_type"},
		`"data": "YQ==", "data_encoding": "base64"`:                                          {"data_encoding"},
	} {
		got := w.want(422, "POST /events", `{"account": "acme", "type": "order.created", `+published+`}`)
		if diff := cmp.Diff(fields, got.fields()); diff != "" {
			t.Errorf("%s = %s (-want +got):\n%s", published, got.text, diff)
		}
	}
}
