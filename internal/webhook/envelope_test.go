package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// The object before a change is sent to endpoints that ask for it, with its bytes.
func TestAnEnvelopeHasPreviousIfAsked(t *testing.T) {
	t.Parallel()
	e, changed, silent := open(t, laptop()), event(`{"a": 2}`), event(`{"a": 2}`)
	changed.About.Previous = []byte(`{ "a": 1.0, "b": "` + strings.Repeat("é", 3000) + `" }`)
	asks := func(r *store.EndpointSnapshot) { r.Endpoint.Policy.IncludePrevious = true }
	for _, tt := range []struct {
		event *postrider.Event
		to    store.EndpointSnapshot
		ends  string
	}{
		{changed, routed("http://127.0.0.1:1/", asks), `,"data":{"a": 2},"previous":` + string(changed.About.Previous) + "}"},
		{changed, routed("http://127.0.0.1:1/"), `,"data":{"a": 2}}`},
		{silent, routed("http://127.0.0.1:1/", asks), `,"data":{"a": 2}}`},
	} {
		c := claimed(tt.event)
		built, err := e.Build(&c, &tt.to, time.Unix(1760000000, 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, body := parse(t, built.Bytes); !json.Valid(body) || !strings.HasSuffix(string(body), tt.ends) {
			t.Errorf("the body is %s, want it to end in %s", body, tt.ends)
		}
		built.Release()
	}
}

// Data that is not JSON is a string in an envelope. Alone it has its bytes and its media type, and the
// signature is of these bytes.
func TestOtherDataHasItsMediaType(t *testing.T) {
	t.Parallel()
	e := open(t, laptop())
	for _, tt := range []struct {
		data, kind, body string
		to               store.EndpointSnapshot
	}{
		{"a,\"b\"\n", "application/json", `,"content_type":"text/csv; a=\"b\"","data":"a,\"b\"\n"}`, routed("http://127.0.0.1:1/")},
		{
			"\xff\x00", "application/json", `,"content_type":"text/csv; a=\"b\"","data_encoding":"base64","data":"/wA="}`,
			routed("http://127.0.0.1:1/"),
		},
		{"\xff\x00", `text/csv; a="b"`, "\xff\x00", routed("http://127.0.0.1:1/", raw)},
	} {
		ev := event(tt.data)
		ev.About.ContentType = `text/csv; a="b"`
		c, at := claimed(ev), time.Unix(1760000000, 0)
		built, err := e.Build(&c, &tt.to, at)
		if err != nil {
			t.Fatal(err)
		}
		request, body := parse(t, built.Bytes)
		if got := request.Header.Get("Content-Type"); got != tt.kind || !strings.HasSuffix(string(body), tt.body) {
			t.Errorf("%q is sent as %s: %q, want %s: %q", tt.data, got, body, tt.kind, tt.body)
		}
		v := signature.Verifier{Keys: []signature.Key{{Secret: secretOf(1)}}}
		if err := v.Verify(request.Header, body, at); err != nil {
			t.Errorf("%q: %v", tt.data, err)
		}
		built.Release()
	}
}
