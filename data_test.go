package postrider_test

import (
	"encoding/json"
	"testing"

	"github.com/postrider/postrider"
)

// Data that is not JSON has one form as JSON, from which the same bytes come back.
func TestDataIsJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, data, json, encoding string }{
		{"", `{ "a": 1.0 }`, `{ "a": 1.0 }`, ""},
		{"text/csv", "a,\"b\"\r\n", `"a,\"b\"\r\n"`, ""},
		{"application/xml", "<a>é &amp;\x00</a>", `"<a>é &amp;\u0000</a>"`, ""},
		{"text/plain", "42", `"42"`, ""},
		{"image/png", "\x89PNG", `"iVBORw=="`, "base64"},
	} {
		e := postrider.Event{Data: []byte(tt.data), About: postrider.About{ContentType: tt.kind}}
		data, encoding := e.JSONData()
		if string(data) != tt.json || encoding != tt.encoding {
			t.Errorf("%q is %s in %q, want %s in %q", tt.data, data, encoding, tt.json, tt.encoding)
		}
		if got, err := postrider.ParseData(tt.kind, data, encoding); err != nil || string(got) != tt.data {
			t.Errorf("%s became %q, %v", data, got, err)
		}
	}
	gone := postrider.Event{About: postrider.About{ContentType: "text/csv"}}
	if data, _ := gone.JSONData(); data != nil {
		t.Errorf("data that was deleted is %s", data)
	}
}

func TestParseDataRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, data, encoding, want string }{
		{"", `"YQ=="`, "base64", "data_encoding must be left out without content_type"},
		{"text/csv", `"a"`, "hex", "data_encoding must be base64"},
		{"text/csv", `["a"]`, "", "data must be a string where there is a content_type"},
		{"text/csv", `""`, "", "data must not be empty"},
		{"text/csv", `null`, "base64", "data must not be empty"},
		{"text/csv", `"a"`, "base64", "data must be base64"},
		{"text/csv", `"\n"`, "base64", "data must be base64"},
	} {
		if _, err := postrider.ParseData(tt.kind, json.RawMessage(tt.data), tt.encoding); err == nil || err.Error() != tt.want {
			t.Errorf("%s %s %s: %v, want %s", tt.kind, tt.data, tt.encoding, err, tt.want)
		}
	}
}
