package web_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
)

// catalogue adds types to the catalogue, one without an example.
func (w *world) catalogue() {
	w.Helper()
	for _, t := range []apitypes.EventTypeCreate{
		{Name: "order.created", Description: "A customer ordered.", Example: []byte(`{"order": "ord_42", "total": 12.5}`)},
		{Name: "invoice.paid"},
	} {
		if _, err := w.admin.CreateEventType(w.Context(), t); err != nil {
			w.Fatal(err)
		}
	}
}

// the way of a customer with nothing but the link: an endpoint, its secret, its
// snippet, and a test event, without scripts.
func TestACustomerGetsFromTheLinkToATestEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.catalogue()
	entered := w.as("nobody", "POST /portal/enter/code-of-customer", nil)
	if entered.status != http.StatusSeeOther || entered.header.Get("Location") != "/portal" {
		t.Fatalf("the button of the link = %d", entered.status)
	}
	if home := w.see("customer", "/portal").html; !strings.Contains(home, `href="/portal/endpoints/new"`) {
		t.Fatalf("the first page leads to no form\n%s", home)
	}
	form := w.see("customer", "/portal/endpoints/new").html
	for _, text := range []string{"A customer ordered.", "ord_42", "invoice.paid"} {
		if !strings.Contains(form, text) {
			t.Errorf("the form lacks %q", text)
		}
	}
	made := w.as("customer", "POST /portal/endpoints/new", url.Values{
		"url": {"https://acme.example/hooks"}, "description": {"Shop"}, "all": {"no"}, "type": {"order.created"}, "patterns": {"refund.*, x"},
		"was.signature": {""}, "signature": {"standard", "stripe"}, "was.payload": {""}, "payload": {"raw"},
	})
	if made.status != http.StatusSeeOther {
		t.Fatalf("the form = %d\n%s", made.status, made.html)
	}
	endpoints, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil || len(endpoints.Data) != 1 {
		t.Fatalf("%d endpoints, %v", len(endpoints.Data), err)
	}
	e := endpoints.Data[0]
	if got := strings.Join(e.EventTypes, " "); got != "refund.* x order.created" || e.Account != w.account.ID || e.Description != "Shop" ||
		e.Payload.Value() != postrider.PayloadRaw || len(e.Signature.Value().Schemes) != 2 {
		t.Errorf("the endpoint is %+v", e)
	}
	secrets, err := w.admin.Secrets(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	start := "/portal/endpoints/" + e.ID.String() + "/start"
	if to := made.header.Get("Location"); to != start+"?created=yes" {
		t.Errorf("the form leads to %s", to)
	}
	for range 2 { // the page can be loaded again
		created := w.see("customer", start+"?created=yes")
		created.says(t, "The endpoint was created.", `<form method="post" action="`+start+`">`)
		created.lacks(t, *secrets[0].Secret)
		checkHTML(t, created)
	}
	shown := w.as("customer", "POST "+start, nil)
	checkHTML(t, shown)
	for _, text := range []string{*secrets[0].Secret, "timingSafeEqual", "hmac.compare_digest", "FixedTimeEquals", `value="order.created"`} {
		if !strings.Contains(html.UnescapeString(shown.html), text) {
			t.Errorf("the page with the secret lacks %q", text)
		}
	}
	if got := w.see("customer", start).html; strings.Contains(html.UnescapeString(got), *secrets[0].Secret) {
		t.Error("the page shows the secret again")
	}
	tests := "/portal/endpoints/" + e.ID.String() + "/tests"
	result := w.submit("customer", tests, url.Values{"type": {"order.created"}})
	if !strings.Contains(result.html, "On its way") {
		t.Errorf("the test event is not on its way\n%s", result.html)
	}
	w.settle(e.ID, postrider.Attempt{StatusCode: 204}, postrider.DefaultPolicy())
	link := regexp.MustCompile(`href="(/portal/endpoints/[^"]*event=[^"]*)"`).FindStringSubmatch(result.html)
	if link == nil {
		t.Fatal("the result cannot be loaded again without scripts")
	}
	if got := w.see("customer", link[1]).html; !strings.Contains(got, "Delivered") || !strings.Contains(got, "204") {
		t.Errorf("the result is\n%s", got)
	}
	if got := w.see("customer", "/portal").html; strings.Contains(got, "Nothing was delivered yet") {
		t.Error("the first page does not know of the delivery")
	}
}

// TestThePageOfTestsSaysHowToEnable looks at the page of an endpoint that takes no tests.
func TestThePageOfTestsSaysHowToEnable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	path := "/portal/endpoints/" + w.endpoint(apitypes.EndpointCreate{}).ID.String()
	w.submit("customer", path+"/pause", nil)
	says(t, w.see("customer", path+"/tests"), "A test event can be sent when the endpoint is resumed.")
	w.submit("customer", path+"/disable", nil)
	says(t, w.see("customer", path+"/tests"), "A test event can be sent when the endpoint is enabled.")
}

func TestTheGuidedFormSaysWhatIsWrongAndKeepsWhatWasTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.catalogue()
	got := w.as("customer", "POST /portal/endpoints/new", url.Values{
		"url": {"http://plain.example"}, "description": {"Kept"}, "all": {"no"}, "was.rate": {""}, "rate": {"much"},
	})
	if got.status != http.StatusUnprocessableEntity {
		t.Fatalf("the form = %d", got.status)
	}
	got = w.as("customer", "POST /portal/endpoints/new", url.Values{
		"url": {"http://plain.example"}, "description": {"Kept"}, "all": {"no"}, "type": {"invoice.paid"}, "patterns": {"bad..pattern"},
	})
	for _, text := range []string{
		`value="http://plain.example"`, "Enter a whole URL, such as https://example.com/webhooks.", `value="Kept"`,
		`value="invoice.paid" checked`, `aria-invalid="true"`,
	} {
		if !strings.Contains(got.html, text) {
			t.Errorf("the form lacks %q\n%s", text, got.html)
		}
	}
	if found, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{}); err != nil || len(found.Data) != 0 {
		t.Errorf("%d endpoints were made, %v", len(found.Data), err)
	}
}

// A customer may set only the options that the operator names. Others are not in the
// form, and not set when they are sent.
func TestCustomersSetTheOptionsThatTheOperatorAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.sessions.add("customer", postrider.Caller{
		Name: "Carla", Account: w.account.ID, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}, Options: []string{"payload"},
	})
	form := w.see("customer", "/portal/endpoints/new").html
	if !strings.Contains(form, `name="payload"`) || strings.Contains(form, `name="timeout_ms"`) ||
		strings.Contains(form, `name="concurrency"`) {
		t.Errorf("the form has other options than payload\n%s", form)
	}
	w.as("customer", "POST /portal/endpoints/new", url.Values{
		"url": {"https://acme.example/hooks"}, "all": {"yes"}, "was.payload": {""}, "payload": {"raw"}, "was.timeout_ms": {""},
		"timeout_ms": {"1s"},
	})
	found, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil || len(found.Data) != 1 {
		t.Fatalf("%d endpoints, %v", len(found.Data), err)
	}
	if e := found.Data[0]; e.Payload.Value() != postrider.PayloadRaw || e.TimeoutMS.Value() != 10_000 {
		t.Errorf("payload %v and timeout %v", e.Payload.Value(), e.TimeoutMS.Value())
	}
}

// What a session may not do has no button, and is refused when it is sent.
func TestCapabilitiesOfAPortalSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.catalogue()
	e := w.endpoint(apitypes.EndpointCreate{})
	one := "/portal/endpoints/" + e.ID.String()
	forms := []struct {
		page, form string
		need       postrider.Scope
		values     url.Values
	}{
		{
			"/portal/endpoints", "/portal/endpoints/new", postrider.ScopeEndpointsWrite,
			url.Values{"url": {"https://acme.example/2"}, "all": {"yes"}},
		},
		{one, one + "/pause", postrider.ScopeWebhooksOperate, nil},
		{one, one + "/test", postrider.ScopeWebhooksOperate, nil},
		{one + "/tests", one + "/tests", postrider.ScopeWebhooksOperate, url.Values{"type": {"order.created"}}},
		{one + "/secrets", one + "/secrets", postrider.ScopeSecretsRead, url.Values{"secret": {e.Secrets[0].ID.String()}}},
		{one + "/secrets", one + "/secrets/rotate", postrider.ScopeEndpointsWrite, url.Values{"overlap_ms": {"1h"}}},
		{one, one + "/delete", postrider.ScopeEndpointsWrite, nil},
		{one + "/missed?from=2026-01-31T09:30", one + "/missed", postrider.ScopeWebhooksOperate, url.Values{"from": {"2026-01-31T09:30"}}},
	}
	link := regexp.MustCompile("/(new|delete)$") // a button leads to the page of the form
	for _, scope := range []postrider.Scope{
		postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate, postrider.ScopeEndpointsWrite,
		postrider.ScopeSecretsRead,
	} {
		scopes := []postrider.Scope{postrider.ScopeWebhooksRead, scope}
		w.sessions.add("customer", postrider.Caller{Name: "Carla", Account: w.account.ID, Scopes: scopes})
		for _, f := range forms {
			shown := w.see("customer", f.page).html
			offered := strings.Contains(shown, `action="`+f.form+`"`) || link.MatchString(f.form) && strings.Contains(shown, `href="`+f.form+`"`)
			// The page of what was missed has two choices, each of its own scope.
			may := scope == f.need || scope == postrider.ScopeEndpointsWrite && f.form == one+"/missed"
			if offered != may {
				t.Errorf("with %s %s offers %s: %t", scope, f.page, f.form, offered)
			}
			if scope == f.need {
				continue
			}
			got := w.as("customer", "POST "+f.form, f.values)
			if got.status != http.StatusForbidden || !strings.Contains(got.html, "Not permitted") {
				t.Errorf("with %s POST %s = %d\n%s", scope, f.form, got.status, got.html)
			}
			checkHTML(t, got)
		}
	}
	if got, err := w.admin.Endpoint(t.Context(), e.ID); err != nil || got.Status != postrider.EndpointEnabled {
		t.Errorf("a refused form changed the endpoint: %v, %v", got.Status, err)
	}
}

// A second account sees nothing of the first: every page and form with every id of the
// other account is as if it did not exist.
func TestASecondAccountSeesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{Description: "private", EventTypes: []string{"*"}})
	event := w.publish("order.private", `{"secret": "private"}`).ID
	deliveries, err := w.admin.Deliveries(t.Context(), client.DeliveryFilter{Event: event})
	if err != nil || len(deliveries.Data) != 1 {
		t.Fatalf("%d deliveries, %v", len(deliveries.Data), err)
	}
	w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	secrets, err := w.admin.Secrets(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	other, err := w.admin.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	w.sessions.add("stranger", postrider.Caller{Name: "Sam", Account: other.ID, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	replay, err := w.admin.CreateReplay(t.Context(), apitypes.ReplayCreate{Endpoint: e.ID.String(), Note: "private"})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{
		"{endpoint}": e.ID.String(), "{event}": event.String(), "{delivery}": deliveries.Data[0].ID.String(), "{secret}": secrets[0].ID.String(),
		"{account}": w.account.ID.String(), "{replay}": replay.ID.String(), "{request}": w.hostileInspector("{request}"),
	}
	before, _ := w.admin.Endpoint(t.Context(), e.ID)
	for _, pattern := range w.web.Patterns {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.HasPrefix(path, "/portal") || strings.HasPrefix(path, "/portal/enter") || strings.HasPrefix(path, "/portal/brand") {
			continue
		}
		foreign := strings.Contains(path, "{")
		for name, id := range ids {
			path = strings.ReplaceAll(path, name, id)
		}
		got := w.as("stranger", method+" "+path, url.Values{"value": {"closed"}})
		for _, private := range []string{"acme.example", "private", *secrets[0].Secret} {
			if strings.Contains(html.UnescapeString(got.html), private) {
				t.Errorf("%s shows %q of another account", pattern, private)
			}
		}
		if foreign && got.status != http.StatusNotFound && !strings.Contains(path, "{") {
			t.Errorf("%s with ids of another account = %d, want 404", pattern, got.status)
		}
	}
	for _, path := range []string{"/portal/deliveries?endpoint=", "/portal/search?q="} {
		for _, id := range ids {
			if got := w.as("stranger", "GET "+path+id, nil); strings.Contains(got.html, "private") || strings.Contains(got.html, "acme.example") {
				t.Errorf("%s%s shows what belongs to another account", path, id)
			}
		}
	}
	if after, err := w.admin.Endpoint(t.Context(), e.ID); err != nil || after.Status != before.Status || after.UpdatedAt != before.UpdatedAt {
		t.Errorf("a stranger changed the endpoint: %+v, %v", after, err)
	}
}

// TestInternalMetadataIsOnNoPageOfACustomer reads every page, with the ids of the customer's own objects.
func TestInternalMetadataIsOnNoPageOfACustomer(t *testing.T) {
	t.Parallel()
	const canary = "canary-5d1f0c"
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{EventTypes: []string{"*"}})
	event, err := w.admin.Publish(t.Context(), apitypes.EventCreate{
		Account: w.account.ID.String(), Type: "order.paid", Data: []byte(`{"n": 1}`), IdempotencyKey: "k", OrderingKey: "o",
		About: apitypes.About{
			Subject: "order/42", Channels: []string{"shop-7"}, Metadata: map[string]string{"region": "north"},
			Internal: map[string]string{canary: "risk-" + canary}, Previous: []byte(`{"status": "new"}`),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	for _, person := range []string{"customer", "operator"} {
		shown := 0
		for _, pattern := range w.web.Patterns {
			method, path, _ := strings.Cut(pattern, " ")
			base := map[string]string{"customer": "/portal", "operator": "/dashboard"}[person]
			if method != "GET" || !strings.HasPrefix(path, base) {
				continue
			}
			path = w.fill(path, e, event)
			for _, query := range []string{"", "?q=" + canary, "?find=" + canary, "?raw=1"} {
				got := w.as(person, "GET "+path+query, nil)
				text := strings.ReplaceAll(got.html, "="+canary, "") // of the query itself
				if strings.Contains(text, "risk-"+canary) {
					shown++
				}
				for _, said := range []string{"order/42", "shop-7", "region", "north", "Before the change", "status"} {
					if path == base+"/events/"+event.ID.String() && !strings.Contains(got.html, said) {
						t.Errorf("%s does not show %q to the %s:\n%s", path, said, person, got.html)
					}
				}
			}
		}
		if (shown > 0) != (person == "operator") {
			t.Errorf("%d pages show internal metadata to the %s", shown, person)
		}
	}
}

func TestSnippetsAreForTheSchemesOfTheEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{Signature: apitypes.Of(apitypes.Signature{Schemes: []apitypes.Scheme{
		{Scheme: postrider.SchemeSvix}, {Scheme: postrider.SchemePlain, Header: "X-Acme", Prefix: `"'`},
	}})}})
	path := "/portal/endpoints/" + e.ID.String() + "/snippets"
	for query, want := range map[string]string{
		"":                          "svix-signature",
		"?scheme=plain":             "x-acme",
		"?scheme=plain&code=go":     `X-Acme`,
		"?scheme=nothing&code=java": "Svix-Signature",
		"?code=nothing":             "svix-signature",
	} {
		if got := w.see("customer", path+query); !strings.Contains(got.html, want) {
			t.Errorf("%s lacks %s\n%s", query, want, got.html)
		}
	}
	remembered := w.as("customer", "GET "+path, nil, &http.Cookie{Name: "postrider-code", Value: "ruby"})
	if !strings.Contains(remembered.html, "verify_webhook(request.env") {
		t.Error("the language is not remembered")
	}
	public := w.endpoint(apitypes.EndpointCreate{NewSecrets: apitypes.NewSecrets{KeyType: "ed25519"}})
	got := w.see("customer", "/portal/endpoints/"+public.ID.String()+"/snippets?scheme=standard.public&code=csharp")
	if !strings.Contains(got.html, "BouncyCastle.Cryptography") {
		t.Errorf("without a snippet, no library is named\n%s", got.html)
	}
}

// What was missed is counted first, and then replayed at a pace.
func TestACustomerReplaysWhatWasMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{EventTypes: []string{"*"}})
	for range 3 {
		w.publish("order.created", "1")
	}
	dies := postrider.DefaultPolicy()
	dies.ClientErrors = postrider.DeadLetterClientErrors
	w.settle(e.ID, postrider.Attempt{StatusCode: 404}, dies)
	path := "/portal/endpoints/" + e.ID.String() + "/missed"
	form := w.see("customer", path).html
	since := regexp.MustCompile(`type="datetime-local" name="from" value="([^"]+)"`).FindStringSubmatch(form)
	if since == nil || strings.Contains(form, "Send them again") {
		t.Fatalf("the form has no time, or is ready before it has counted\n%s", form)
	}
	counted := w.see("customer", path+"?from="+url.QueryEscape(since[1])+"&pace=50").html
	if !strings.Contains(counted, "3 events were missed.") {
		t.Errorf("the count is\n%s", counted)
	}
	for _, wrong := range []string{"?from=yesterday", "?from=2999-01-01T00:00&pace=999999"} {
		if got := w.as("customer", "GET "+path+wrong, nil); got.status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.html, `role="alert"`) {
			t.Errorf("%s = %d", wrong, got.status)
		}
	}
	done := w.as("customer", "POST "+path, url.Values{"from": {since[1]}, "pace": {"50"}})
	jobs, err := w.admin.Replays(t.Context(), client.ReplayFilter{})
	if err != nil || len(jobs.Data) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs.Data), err)
	}
	job := jobs.Data[0]
	if done.header.Get("Location") != "/portal/replays/"+job.ID.String() || job.Expected.Matches != 3 || job.PerSecond != 50 ||
		*job.Endpoint != e.ID {
		t.Errorf("the job is %+v, the form leads to %s", job, done.header.Get("Location"))
	}
}

// hostileInspector creates an inspector with a hostile request that verifies by one of
// its schemes.
func (w *world) hostileInspector(path string) string {
	w.Helper()
	e := w.endpoint(apitypes.EndpointCreate{Kind: postrider.KindInspector, Description: hostile, EventTypes: []string{"*"}})
	event := w.publish("order.created", `"<script>alert(3)</script>"`)
	found, err := w.admin.Deliveries(w.Context(), client.DeliveryFilter{Event: event.ID, Endpoint: e.ID})
	if err != nil || len(found.Data) != 1 {
		w.Fatalf("%d deliveries, %v", len(found.Data), err)
	}
	body := `{"data":"it's ` + "<script>alert(4)</script>" + `"}`
	i := postrider.Inspection{
		ID: store.NewID[postrider.InspectionID](w.ids), At: time.Now(), Endpoint: e.ID, Delivery: found.Data[0].ID,
		Event: event.ID, EventType: "order.created", Attempt: 1, Body: []byte(body), BodyBytes: len(body),
		Header: []postrider.HeaderField{
			{Name: "Webhook-Id", Value: "evt_1"},
			{Name: "X-Own", Value: hostile},
			{Name: "Authorization", Value: postrider.Masked},
		},
		Verdicts: []postrider.Verdict{{
			Scheme: postrider.SchemeStandard, Header: "Webhook-Signature",
			Secret: store.NewID[postrider.SecretID](w.ids),
		}, {Scheme: postrider.SchemeSlack, Header: "X-Slack-Signature", Error: "mismatch"}},
	}
	if err := w.store.PutInspection(w.Context(), i); err != nil {
		w.Fatal(err)
	}
	return strings.NewReplacer("{endpoint}", e.ID.String(), "{request}", i.ID.String()).Replace(path)
}

// An inspector needs no URL, and a customer without a receiver sees what one would get,
// whether it verifies, and how to send it to a receiver that is being written.
func TestACustomerWithoutAReceiverUsesTheInspector(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.catalogue()
	if got := w.see("customer", "/portal/endpoints/new?where=inspector").html; !strings.Contains(got, `value="inspector" checked`) {
		t.Errorf("the form does not begin with an inspector\n%s", got)
	}
	made := w.as("customer", "POST /portal/endpoints/new", url.Values{"where": {"inspector"}, "url": {""}, "all": {"yes"}})
	found, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil || len(found.Data) != 1 || found.Data[0].Kind != postrider.KindInspector {
		t.Fatalf("%d endpoints, %v: the form = %d\n%s", len(found.Data), err, made.status, made.html)
	}
	if requests := "/portal/endpoints/" + found.Data[0].ID.String() +
		"/requests"; !strings.Contains(w.see("customer", made.header.Get("Location")).html, requests) ||
		!strings.Contains(w.see("customer", requests).html, "No requests yet") {
		t.Error("the first steps do not lead to the requests")
	}
	path := w.hostileInspector("/portal/endpoints/{endpoint}/requests/{request}")
	page := html.UnescapeString(w.see("customer", path).html)
	for _, text := range []string{
		"The signature verifies: Standard Webhooks, in the header Webhook-Signature.", "The signature does not verify: Slack: mismatch.",
		"timingSafeEqual",
		"curl -i http://localhost:3000/webhooks", `-H 'Webhook-Id: evt_1'`, `it'\''s`,
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the page of a request lacks %s\n%s", text, page)
		}
	}
	if strings.Contains(page, "-H 'Authorization") {
		t.Error("the command has a masked header")
	}
	http := w.endpoint(apitypes.EndpointCreate{})
	if got := w.as("customer", "GET /portal/endpoints/"+http.ID.String()+"/requests", nil); got.status != 409 {
		t.Errorf("the requests of an endpoint with a URL = %d", got.status)
	}
}

// maker adds a person who may create and change endpoints, and see no secrets.
func (w *world) maker() {
	w.sessions.add("maker", postrider.Caller{
		Name: "Max", Account: w.account.ID, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead, postrider.ScopeEndpointsWrite},
	})
}

// A person who may create endpoints and see no secrets sees that of a new one once, in the
// answer to the form.
func TestASecretThatCannotBeRevealedLaterIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.maker()
	made := w.as("maker", "POST /portal/endpoints/new", url.Values{"url": {"https://acme.example/hooks"}, "all": {"yes"}})
	if made.status != http.StatusOK {
		t.Fatalf("the form = %d\n%s", made.status, made.html)
	}
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{20,}`).FindStringSubmatch(html.UnescapeString(made.html))
	if secret == nil {
		t.Fatalf("the page does not show the secret\n%s", made.html)
	}
	made.says(t, "Your session cannot show it again.")
	found, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil || len(found.Data) != 1 {
		t.Fatal(found, err)
	}
	start := "/portal/endpoints/" + found.Data[0].ID.String() + "/start"
	w.see("maker", start).lacks(t, secret[0], `action="`+start+`"`)
	if got := w.as("maker", "POST "+start, nil); got.status != http.StatusForbidden {
		t.Errorf("to reveal it later = %d, want 403", got.status)
	}
}

// The same person sees the new secret of a rotation once, in the answer to the form.
func TestARotatedSecretThatCannotBeRevealedLaterIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.maker()
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/portal/endpoints/" + e.ID.String() + "/secrets"
	rotated := w.as("maker", "POST "+path+"/rotate", url.Values{"overlap_ms": {"2h"}, "confirmed": {"yes"}})
	rotated.says(t, "The old ones sign beside it for 2 h.", "Your session cannot show it again.")
	checkHTML(t, rotated)
	secrets, err := w.admin.Secrets(t.Context(), e.ID)
	if err != nil || len(secrets) != 2 {
		t.Fatalf("%d secrets, %v", len(secrets), err)
	}
	shown := html.UnescapeString(rotated.html)
	if rotated.status != http.StatusOK || !strings.Contains(shown, *secrets[0].Secret) || strings.Contains(shown, *secrets[1].Secret) {
		t.Errorf("the answer = %d, want the new secret alone\n%s", rotated.status, shown)
	}
	for _, later := range []string{path, path + "/rotate"} {
		w.see("maker", later).lacks(t, "whsec_", "Your session cannot show it again.")
	}
	w.submit("customer", path+"/rotate", url.Values{"overlap_ms": {"2h"}, "confirmed": {"yes"}}).lacks(t, "whsec_")
}

// The form of a new endpoint makes two calls of the API, however many types there are, and its
// frame one about the hold. Types without an example in the catalogue link to their latest event. What failed lately names
// its endpoint.
func TestThePortalReadsListsAndNoSingleEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{AllowHTTP: true})
	w.catalogue()
	e := w.endpoint(apitypes.EndpointCreate{Description: "Shop <1>", EventTypes: []string{"*"}})
	for i := range 15 {
		w.publish(fmt.Sprintf("type.%d", i), `{}`)
	}
	paid := w.publish("invoice.paid", `{}`)
	w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	calls := &callCounter{next: w.api.As(w.sessions.of["customer"].Caller())}
	pages := web.New(web.Deps{Deps: page.Deps{
		API: func(postrider.Caller) http.RoundTripper { return calls }, Sessions: w.sessions, Standard: apiendpoints.StandardPolicy(),
	}}, web.Options{AllowHTTP: true})
	see := func(path string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody)
		r.AddCookie(&http.Cookie{Name: "postrider-portal", Value: "customer"})
		got := httptest.NewRecorder()
		pages.ServeHTTP(got, r)
		return got.Body.String()
	}
	form := see("/portal/endpoints/new")
	if n := calls.n.Swap(0); n != 3 {
		t.Errorf("the form makes %d calls, want 2, and the frame one", n)
	}
	for _, text := range []string{
		"ord_42", `href="/portal/events/` + paid.ID.String() + `"`, "an https:// or http:// URL",
		`value="type.14"`,
	} {
		if !strings.Contains(form, text) {
			t.Errorf("the form lacks %q\n%s", text, form)
		}
	}
	_, failed, _ := strings.Cut(see("/portal"), `id="failed-deliveries"`)
	if !strings.Contains(failed, `data-label="Endpoint"><a class="row" href="/portal/endpoints/`+e.ID.String()+
		`" aria-label="acme.example/hooks" title="Shop &lt;1&gt; · https://acme.example/hooks"><span class="where"><b>acme.example</b><span class="start"></span><span>/hooks</span></span></a><span class="sub">Shop &lt;1&gt;</span>`) {
		t.Errorf("the failed deliveries of the first page name no endpoint\n%s", failed)
	}
	says(t, newWorld(t, web.Options{}).see("customer", "/portal/endpoints/new"), "takes POST requests at an https:// URL.")
}

// callCounter counts the calls of the API.
type callCounter struct {
	next http.RoundTripper
	n    atomic.Int32
}

func (c *callCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.next.RoundTrip(r)
}

// A type that is misspelt would never get an event, so the page after the form names it.
func TestTheGuidedFormNamesTypesThatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.catalogue()
	values := url.Values{
		"url": {"https://acme.example/hooks"}, "all": {"no"}, "type": {"order.created"},
		"patterns": {"refund.*, order.craeted"},
	}
	w.submit("customer", "/portal/endpoints/new", values).says(t, "The endpoint was created.",
		"No event of these types is known: order.craeted.")
}
