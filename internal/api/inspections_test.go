package api_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// inspector creates an inspector endpoint.
func (w *world) inspector(account string) string {
	w.Helper()
	made := w.want(201, "POST /endpoints", `{"account": "`+account+`", "kind": "inspector", "event_types": ["*"]}`)
	if made.body["kind"] != "inspector" || made.body["url"] != "" || made.body["status"] != "enabled" {
		w.Errorf("inspector %s", made.text)
	}
	return made.id("id")
}

// got stores a request that the inspector got.
func (w *world) got(endpoint, body string, size int) string {
	w.Helper()
	id, err := postrider.ParseID[postrider.EndpointID](endpoint)
	if err != nil {
		w.Fatal(err)
	}
	i := postrider.Inspection{
		ID: store.NewID[postrider.InspectionID](w.ids), Endpoint: id, EventType: "order.created", Attempt: 1,
		Header: []postrider.HeaderField{{Name: "Webhook-Signature", Value: "v1,abc"}, {Name: "Authorization", Value: postrider.Masked}},
		Body:   []byte(body), BodyBytes: size,
		Verdicts: []postrider.Verdict{
			{Scheme: postrider.SchemeStandard, Header: "Webhook-Signature", Secret: postrider.SecretID{1}},
			{Scheme: postrider.SchemeSlack, Header: "X-Slack-Signature", Error: "mismatch"},
		},
	}
	if err := w.store.PutInspection(w.Context(), i); err != nil {
		w.Fatal(err)
	}
	return i.ID.String()
}

func TestAnInspectorShowsItsRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	endpoint := w.inspector("acme")
	first, second := w.got(endpoint, `{"a":1}`, 7), w.got(endpoint, "<b>\xff", 4)
	cut := w.got(endpoint, "caf\xc3", 9)
	list := w.want(200, "GET /endpoints/"+endpoint+"/requests", "").data()
	if len(list) != 3 || list[0]["id"] != cut || list[2]["id"] != first || list[2]["body"] != nil || list[2]["body_bytes"] != 7.0 {
		t.Errorf("list %v", list)
	}
	got := w.want(200, "GET /endpoints/"+endpoint+"/requests/"+first, "")
	if got.body["body"] != `{"a":1}` || !strings.Contains(got.text, `{"name":"Webhook-Signature","value":"v1,abc","masked":false}`) ||
		!strings.Contains(got.text, `{"name":"Authorization","value":"***","masked":true}`) ||
		!strings.Contains(got.text, `"valid":false,"secret":null,"reason":"mismatch"`) ||
		!strings.Contains(got.text, `"valid":true,"secret":"sec_`) {
		t.Errorf("request %s", got.text)
	}
	if got := w.want(200, "GET /endpoints/"+endpoint+"/requests/"+second, "").body; got["body"] != nil || got["body_base64"] != "PGI+/w==" {
		t.Errorf("body that is no text: %v", got)
	}
	if got := w.want(200, "GET /endpoints/"+endpoint+"/requests/"+cut, "").body; got["body"] != "caf" {
		t.Errorf("text that is cut: %v", got)
	}
}

func TestAnInspectorIsBoundToItsAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	mine, theirs := w.inspector("acme"), w.inspector("evil")
	request, foreign := w.got(mine, "{}", 2), w.got(theirs, "{}", 2)
	key := w.bound(acme)
	for _, path := range []string{
		"/endpoints/" + theirs + "/requests", "/endpoints/" + theirs + "/requests/" + foreign,
		"/endpoints/" + mine + "/requests/" + foreign, "/endpoints/" + theirs + "/requests/" + request,
		"/endpoints/" + mine + "/requests/ins_x",
	} {
		if got := w.do(key, "GET "+path, ""); got.status != 404 {
			t.Errorf("GET %s = %d %s, want 404", path, got.status, got.text)
		}
	}
	if got := w.do(key, "GET /endpoints/"+mine+"/requests/"+request, ""); got.status != 200 {
		t.Errorf("its own request = %d %s", got.status, got.text)
	}
	w.want(409, "GET /endpoints/"+evil.endpoint+"/requests", "")
	w.want(409, "GET /endpoints/"+evil.endpoint+"/requests/"+foreign, "")
}

func TestAnInspectorConnectsToNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	endpoint := w.inspector("acme")
	oauth := `"auth": {"type": "oauth2", "token_url": "https://acme.example/token", "client_id": "c", "client_secret": "s"}`
	for body, field := range map[string]string{
		`"url": "https://acme.example/hooks"`: "url", oauth: "auth.type", `"max_redirects": 1`: "max_redirects",
	} {
		for route, fields := range map[string]string{
			"POST /endpoints":              `{"account": "acme", "kind": "inspector", "event_types": ["*"], `,
			"PATCH /endpoints/" + endpoint: `{`,
		} {
			got := w.want(422, route, fields+body+`}`)
			if f := got.fields(); len(f) != 1 || f[0] != field {
				t.Errorf("%s with %s: %s", route, body, got.text)
			}
		}
	}
	w.want(422, "POST /endpoints", `{"account": "acme", "kind": "pigeon", "event_types": ["*"]}`)
	w.want(422, "POST /endpoints", `{"account": "acme", "event_types": ["*"]}`)
	w.want(422, "PATCH /endpoints/"+endpoint, `{"kind": "http"}`)
	w.want(409, "POST /endpoints/"+endpoint+"/verify", `{"method": "challenge"}`)
	w.want(202, "POST /endpoints/"+endpoint+"/test", "")
	w.want(200, "PATCH /endpoints/"+endpoint, `{"description": "mine", "compression": "gzip", "auth": {"type": "bearer", "token": "t"}}`)
}
