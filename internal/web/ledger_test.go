package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// ledgerStates are the states of the pages of what happened, and of what admins manage.
var ledgerStates = []state{
	{name: "no events", path: "/events", people: "operator customer viewer", want: []string{"No events yet"}},
	{name: "events", path: "/events", people: "operator customer viewer", prepare: (*world).hostileEndpoint, want: []string{"order.created"}},
	{name: "event", path: "/events/{event}", people: "operator customer viewer", prepare: (*world).hostileEndpoint, want: []string{"waits for its retry"}},
	{name: "event, found", path: "/events/{event}?find=ALERT", people: "operator customer", prepare: (*world).hostileEndpoint, want: []string{"One place", "<mark>alert</mark>"}},
	{name: "event, raw", path: "/events/{event}?raw=1", people: "operator customer", prepare: (*world).hostileEndpoint, want: []string{"Show folded"}},
	{name: "no deliveries", path: "/deliveries", people: "operator customer viewer", want: []string{"No deliveries yet"}},
	{name: "deliveries", path: "/deliveries", people: "operator customer viewer", prepare: (*world).hostileEndpoint, want: []string{"waits for its retry"}},
	{name: "filtered deliveries", path: "/deliveries?status=dead", people: "operator customer", prepare: (*world).hostileEndpoint, want: []string{"Nothing matches"}},
	{name: "pending delivery", path: "/deliveries/{delivery}", people: "operator customer viewer", prepare: (*world).hostileEndpoint, want: []string{"Attempt 1 failed (HTTP 500).", "Attempt 2 follows at", "What is signed", "First byte"}},
	{name: "dead delivery", path: "/deliveries/{delivery}", people: "operator customer viewer", prepare: (*world).hostileDeath, want: []string{"wants no more events", "A replay sends the event again."}},
	{name: "no dead letters", path: "/dead-letters", people: "operator customer viewer", want: []string{"No dead letters"}},
	{name: "dead letters", path: "/dead-letters", people: "operator customer viewer", prepare: (*world).hostileDeath, want: []string{"410 Gone"}},
	{name: "every dead letter", path: "/dead-letters/all", people: "operator customer viewer", prepare: (*world).hostileDeath, want: []string{"410 Gone"}},
	{name: "no dead letter", path: "/dead-letters/all?reason=expired", people: "operator customer", want: []string{"Nothing matches"}},
	{name: "search", path: "/search", people: "operator customer viewer", want: []string{"What are you looking for?"}},
	{name: "search that finds", path: "/search?q=acme", people: "operator customer viewer", prepare: (*world).hostileEndpoint, want: []string{"Endpoint", "acme.example"}},
	{name: "search that finds nothing", path: "/search?q=" + url.QueryEscape(hostile), people: "operator customer", want: []string{"Nothing is called"}},
	{name: "search for a type", path: "/search?q=order.created", people: "operator customer", want: []string{"With the event type order.created"}},
	{name: "accounts", path: "/accounts", people: "operator viewer", want: []string{"Acme"}},
	{name: "new account", path: "/accounts/new", people: "operator", want: []string{"Own id (uid)"}},
	{name: "account", path: "/accounts/{account}", people: "operator viewer", prepare: (*world).hostileDeath, want: []string{"410 Gone"}},
	{name: "account, delete", path: "/accounts/{account}/delete", people: "operator", prepare: (*world).hostileDeath, want: []string{"cannot be undone"}},
	{name: "no event types", path: "/event-types", people: "operator customer viewer", want: nil},
	{name: "event types", path: "/event-types", people: "operator customer viewer", prepare: (*world).hostileType, want: []string{"order.paid"}},
	{name: "event type", path: "/event-types/order.paid", people: "operator customer viewer", prepare: (*world).hostileType, want: []string{"amount"}},
	{name: "new event type", path: "/event-types/new", people: "operator", want: []string{"order.created"}},
	{name: "API keys", path: "/api-keys", people: "operator", prepare: (*world).hostileKey, want: []string{"Active"}},
	{name: "API key", path: "/api-keys/{key}", people: "operator", prepare: (*world).hostileKey, want: []string{"events:write"}},
	{name: "new API key", path: "/api-keys/new", people: "operator", want: []string{"webhooks:operate"}},
}

// hostileDeath is hostileEndpoint with a delivery that died.
func (w *world) hostileDeath(path string) string {
	w.Helper()
	e := w.endpoint(apitypes.EndpointCreate{URL: "https://acme.example/" + hostile, Description: hostile, EventTypes: []string{"*"}})
	receipt := w.publish("order.created", `{}`)
	w.settle(e.ID, postrider.Attempt{StatusCode: 410, Error: hostile, ResponseBody: []byte(hostile)}, postrider.DefaultPolicy())
	return w.fill(path, e, receipt)
}

func (w *world) hostileType(path string) string {
	w.Helper()
	_, err := w.admin.CreateEventType(w.Context(), apitypes.EventTypeCreate{
		Name: "order.paid", Description: hostile, Example: json.RawMessage(`{"amount": 1, "text": "<script>alert(1)</script>"}`),
	})
	if err != nil {
		w.Fatal(err)
	}
	return path
}

func (w *world) hostileKey(path string) string {
	w.Helper()
	k, err := w.admin.CreateKey(w.Context(), apitypes.KeyCreate{Name: hostile, Scopes: []postrider.Scope{postrider.ScopeEventsWrite}, Account: "acme"})
	if err != nil {
		w.Fatal(err)
	}
	return strings.ReplaceAll(path, "{key}", k.ID.String())
}

func TestEveryExplanationHasATextInEveryLanguage(t *testing.T) {
	t.Parallel()
	for language, keys := range newWorld(t, web.Options{}).web.Catalogues() {
		has := map[string]bool{}
		for _, key := range keys {
			has[key] = true
		}
		for _, why := range postrider.Whys() {
			if !has["why."+why] {
				t.Errorf("%s.json has no why.%s", language, why)
			}
		}
		for _, reason := range postrider.WaitReasons {
			if !has["waiting."+string(reason)+".short"] {
				t.Errorf("%s.json has no waiting.%s.short", language, reason)
			}
		}
		for _, failure := range slices.Concat(postrider.Failures, postrider.MessageFailures) {
			if !has["cause."+string(failure)] {
				t.Errorf("%s.json has no cause.%s", language, failure)
			}
		}
		for _, scope := range postrider.Scopes {
			if !has["scope."+string(scope)] {
				t.Errorf("%s.json has no scope.%s", language, scope)
			}
		}
	}
}

// says fails the test unless the page has the texts.
func says(t *testing.T, p response, texts ...string) {
	t.Helper()
	checkHTML(t, p)
	for _, text := range texts {
		if !strings.Contains(p.html, text) {
			t.Errorf("the page does not say %q\n%s", text, p.html)
		}
	}
}

// dead publishes an event to a new endpoint, which kills its delivery.
func (w *world) dead() (apitypes.Endpoint, apitypes.Delivery) {
	w.Helper()
	e := w.endpoint(apitypes.EndpointCreate{})
	receipt := w.publish("order.created", `{"order": 42}`)
	w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	return e, w.deliveryOf(receipt)
}

func (w *world) deliveryOf(r apitypes.Receipt) apitypes.Delivery {
	w.Helper()
	page, err := w.admin.EventDeliveries(w.Context(), r.ID, client.Paging{})
	if err != nil || len(page.Data) == 0 {
		w.Fatalf("deliveries of %s: %v, %v", r.ID, page.Data, err)
	}
	return page.Data[0]
}

func TestADeadDeliveryIsReplayedAndCancelled(t *testing.T) {
	t.Parallel()
	for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		w := newWorld(t, web.Options{})
		_, d := w.dead()
		path := base + "/deliveries/" + d.ID.String()
		replay := w.as(person, "POST "+path+"/replay", nil).header.Get("Location")
		if replay == path || !strings.HasPrefix(replay, base+"/deliveries/dlv_") {
			t.Fatalf("the replay leads to %s", replay)
		}
		says(t, w.submit(person, path+"/replay", nil), "A replay was under way already")
		says(t, w.see(person, path), "replayed it:", replay)
		says(t, w.submit(person, replay+"/cancel", nil), "The delivery is cancelled.", "A person cancelled it.")
		says(t, w.submit(person, replay+"/cancel", nil), "Nothing was done. The delivery is already cancelled.")
		says(t, w.submit(person, replay+"/release", nil), "Nothing was done. The delivery is not parked.")
		says(t, w.submit(person, path+"/discard", url.Values{"reason": {"late"}}), "Nothing was done. Somebody replayed it meanwhile.")
	}
}

func TestAWaitingDeliveryIsRetriedNow(t *testing.T) {
	t.Parallel()
	for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		w := newWorld(t, web.Options{})
		e := w.endpoint(apitypes.EndpointCreate{})
		d := w.deliveryOf(w.publish("order.created", `{}`))
		w.settle(e.ID, postrider.Attempt{StatusCode: 503}, postrider.DefaultPolicy())
		path := base + "/deliveries/" + d.ID.String()
		says(t, w.see(person, path), "Retry now", `action="`+path+`/retry"`)
		says(t, w.submit(person, path+"/retry", nil), "You asked for the next attempt at ")
		if again := w.see(person, path); strings.Contains(again.html, "Retry now") {
			t.Errorf("a delivery that is due can be retried again:\n%s", again.html)
		}
		says(t, w.submit(person, path+"/retry", nil), "Nothing was done. The delivery does not wait for its retry.")
	}
}

func TestADeliveryThatIsDueSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{
		Concurrency: apitypes.Of(7), Rate: apitypes.Of(apitypes.Rate{Attempts: 5, PerMS: 1000}),
	}})
	d := w.deliveryOf(w.publish("order.created", `{}`))
	w.publish("order.created", `{}`)
	path := "/dashboard/deliveries/" + d.ID.String()
	says(t, w.see("operator", path), "waits for one of the 7 requests that its endpoint may have at once, and at most 5 in 1 s.", "Besides it, one delivery waits for this endpoint.")
	circuit, err := w.store.Circuits(t.Context(), store.CircuitQuery{Endpoint: e.ID})
	if err != nil {
		t.Fatal(err)
	}
	put := postrider.Circuit{Endpoint: e.ID, Status: postrider.CircuitClosed, Failures: 1}
	if len(circuit) > 0 {
		put.Generation = circuit[0].Generation
	}
	if _, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: put}); err != nil {
		t.Fatal(err)
	}
	says(t, w.see("operator", path), "The last request to its endpoint failed or was throttled, so the endpoint gets fewer at once than the 7")
}

func TestAFailureIsSaidInPlainWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	d := w.deliveryOf(w.publish("order.created", `{}`))
	path := "/dashboard/deliveries/" + d.ID.String()
	w.settle(e.ID, postrider.Attempt{StatusCode: 503, RetryAfter: time.Second, Error: "http_status: 503"}, postrider.DefaultPolicy())
	says(t, w.see("operator", path), "Receiver answered 503", "Attempt 1 failed (HTTP 503).")
	w.submit("operator", path+"/retry", nil)
	w.settle(e.ID, postrider.Attempt{Error: "connection_refused"}, postrider.DefaultPolicy())
	says(t, w.see("operator", path), "Connection refused", "Attempt 2 failed (Connection refused).", "The next attempt was set for")
	says(t, w.see("operator", "/dashboard/deliveries"), "Connection refused")
	cancelled := w.submit("operator", path+"/cancel", nil)
	for _, text := range []string{"The next attempt was set for", "connection_refused", "Throttled"} {
		if strings.Contains(cancelled.html, text) {
			t.Errorf("the cancelled delivery says %q:\n%s", text, cancelled.html)
		}
	}
}

func TestDeadLettersAreSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	ids := url.Values{}
	for range 3 {
		ids.Add("delivery", w.deliveryOf(w.publish("order.created", `{}`)).ID.String())
	}
	w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	all := ids["delivery"]
	list := "/dashboard/dead-letters/all"
	says(t, w.see("operator", list), `name="delivery" value="`+all[0]+`"`, `formaction="/dashboard/dead-letters/discard"`, `data-select-all="delivery"`, "Sorted by the time when the delivery was created", `data-label="Created"`, "Died")
	says(t, w.submit("operator", "/dashboard/dead-letters/replay", url.Values{"back": {list}}), "no dead letter was selected")
	says(t, w.submit("operator", "/dashboard/dead-letters/discard", url.Values{"back": {list}, "delivery": all[:1]}), "One dead letter is discarded.", all[1])
	says(t, w.submit("operator", "/dashboard/dead-letters/replay", url.Values{"back": {list}, "delivery": all}),
		"2 dead letters are replayed", "One was left out: The dead letter was discarded", "No dead letters")
	got := w.see("operator", list+"?resolved=true")
	says(t, got, "dead-letters list --resolved<", "/dead-letters?limit=20&amp;resolved=true", `<option value="true" selected>All`)
	for _, id := range all {
		if !strings.Contains(got.html, `href="/dashboard/deliveries/`+id) {
			t.Errorf("the list of all dead letters has no %s:\n%s", id, got.html)
		}
	}
	if got := w.see("viewer", list+"?resolved=true"); strings.Contains(got.html, "Replay selected") {
		t.Errorf("a viewer can replay:\n%s", got.html)
	}
	if got := w.as("operator", "POST /dashboard/dead-letters/replay", url.Values{"delivery": {"x"}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a replay of no delivery = %d", got.status)
	}
}

func TestReplayedDeadLettersLeadToTheirNewDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	for range 20 { // as many as a page lists
		w.publish("order.created", `{}`)
	}
	ids := url.Values{"back": {"/dashboard/dead-letters/all"}}
	for range 2 {
		w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	}
	dead, err := w.admin.DeadLetters(t.Context(), client.DeadLetterFilter{Paging: client.Paging{Limit: 20}})
	if err != nil || len(dead.Data) != 20 {
		t.Fatalf("%d dead letters, %v", len(dead.Data), err)
	}
	for _, d := range dead.Data {
		ids.Add("delivery", d.Delivery.String())
	}
	got := w.submit("operator", "/dashboard/dead-letters/replay", ids)
	says(t, got, "20 dead letters are replayed", "The new deliveries:")
	undo := url.Values{"back": {"/dashboard/dead-letters/all?resolved=true"}}
	for _, made := range regexp.MustCompile(`name="delivery" value="([^"]+)"`).FindAllStringSubmatch(got.html, -1) {
		undo.Add("delivery", made[1])
	}
	if dead, err = w.admin.DeadLetters(t.Context(), client.DeadLetterFilter{Resolved: true, Paging: client.Paging{Limit: 20}}); err != nil {
		t.Fatal(err)
	}
	for _, d := range dead.Data {
		if d.Replay == nil || !strings.Contains(got.html, `href="/dashboard/deliveries/`+d.Replay.String()+`"`) {
			t.Errorf("the message has no link to the replay of %s", d.Delivery)
		}
	}
	// Ten arrive before the person takes the replay back.
	w.settle(e.ID, postrider.Attempt{StatusCode: 200}, postrider.DefaultPolicy())
	undone := w.submit("operator", "/dashboard/dead-letters/undo", undo)
	says(t, undone, "10 replays are cancelled before they were delivered. 10 had ended already and cannot be taken back.",
		"count as replayed; you can replay them again from their own pages", `value="true" selected`)
	left, err := w.admin.Deliveries(t.Context(), client.DeliveryFilter{Status: postrider.Pending})
	if err != nil || len(left.Data) != 0 {
		t.Errorf("after the undo %d deliveries are pending, %v", len(left.Data), err)
	}
	again := dead.Data[len(dead.Data)-1].Delivery.String()
	says(t, w.submit("operator", "/dashboard/deliveries/"+again+"/replay", nil), "This is the replay")
}

func TestDeadLetterGroupsNameTheirEndpointsInOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for _, url := range []string{"https://a.example/hooks", "https://b.example/hooks", "https://c.example/hooks"} {
		w.endpoint(apitypes.EndpointCreate{URL: url})
	}
	inspector := w.endpoint(apitypes.EndpointCreate{Kind: postrider.KindInspector, Description: "Without a URL"})
	w.publish("order.created", `{}`)
	endpoints, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range endpoints.Data {
		w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	}
	for _, path := range []string{"/dashboard/dead-letters", "/dashboard/accounts/acme"} {
		got := w.see("operator", path)
		says(t, got, "<b>a.example</b>", "<b>b.example</b>", "<b>c.example</b>", "Without a URL", inspector.ID.String(), "/endpoints?ids=")
		if calls := strings.Count(got.html, "/v1/webhooks/endpoints"); calls > 4 { // the list and the names, each shown and to be copied
			t.Errorf("%s reads endpoints one by one:\n%s", path, got.html)
		}
	}
}

func TestListsShowTheCommandOfTheirFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for path, want := range map[string]string{
		"/deliveries?status=dead&event_type=it%27s": `deliveries list --event-type=&#39;it&#39;\&#39;&#39;s&#39; --status=dead<`,
		"/events?account=acme":                      "events list --account=acme<",
		"/replays?status=done":                      "replays list --status=done<",
		"/dead-letters?account=acme":                "dead-letters groups --account=acme<",
	} {
		if got := w.as("operator", "GET /dashboard"+path, nil); !strings.Contains(got.html, "postrider "+want) {
			t.Errorf("%s has no %q:\n%s", path, want, got.html)
		}
	}
}

func TestADeadLetterWhoseReplayWasDeliveredIsShownAsSuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e, d := w.dead()
	path := "/dashboard/events/" + d.Event.String()
	if got := w.see("operator", path); strings.Contains(got.html, "delivered by a replay") {
		t.Errorf("nothing was replayed yet:\n%s", got.html)
	}
	replay, err := w.admin.ReplayDelivery(t.Context(), d.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.EnableEndpoint(t.Context(), e.ID); err != nil { // the 410 has disabled it
		t.Fatal(err)
	}
	w.settle(e.ID, postrider.Attempt{StatusCode: 200}, postrider.DefaultPolicy())
	says(t, w.see("operator", path), `href="/dashboard/deliveries/`+replay.ID.String()+`">delivered by a replay</a>`)
}

func TestListsAreFilteredByASpanThatEndsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	_, d := w.dead()
	for _, list := range []string{"/deliveries", "/events", "/dead-letters/all"} {
		says(t, w.see("operator", "/dashboard"+list+"?since=1h"), "order.created", `<option value="1h" selected>`)
		future := d.CreatedAt.Add(24 * time.Hour).UTC().Format("2006-01-02T15:04")
		says(t, w.see("operator", "/dashboard"+list+"?since=1h&from="+future), "Nothing matches")
	}
}

func TestTheDeadLettersOfAnEndpointAreALinkToThemAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e, _ := w.dead()
	says(t, w.see("operator", "/dashboard/endpoints/"+e.ID.String()), `href="/dashboard/dead-letters?endpoint=`+e.ID.String()+`"`)
}

func TestAnUnknownIDIsSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for person, text := range map[string]string{"operator": "API keys were looked at", "customer": "it belongs to another account"} {
		base := map[string]string{"operator": "/dashboard", "customer": "/portal"}[person]
		got := w.see(person, base+"/search?q=dlv_01h455vb4pex5vsknk084sn02q")
		says(t, got, "Nothing has the id dlv_01h455vb4pex5vsknk084sn02q", text)
		if strings.Contains(got.html, "?event_type=dlv_") {
			t.Errorf("an id is offered as an event type:\n%s", got.html)
		}
	}
}

func TestADeadLetterIsDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	_, d := w.dead()
	path := "/dashboard/deliveries/" + d.ID.String()
	says(t, w.submit("operator", path+"/discard", url.Values{"reason": {"test data"}}), "The dead letter is discarded.", "Olga discarded it.", "test data")
	if got := w.see("operator", path); strings.Contains(got.html, "A replay sends the event again.") {
		t.Errorf("a replay is offered after the discard:\n%s", got.html)
	}
	says(t, w.submit("operator", path+"/replay", nil), "Nothing was done. The dead letter was discarded")
	says(t, w.see("operator", "/dashboard/dead-letters"), "No dead letters")
	says(t, w.see("operator", "/dashboard/dead-letters/all?resolved=true"), "Discarded")
}

func TestAnEventIsReplayedAndDownloaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	_, d := w.dead()
	path := "/dashboard/events/" + d.Event.String()
	says(t, w.submit("operator", path+"/replay", url.Values{"status": {"dead"}}), "One new delivery is on its way.")
	says(t, w.submit("operator", path+"/replay", url.Values{"status": {"delivered"}}), "No delivery of this event")
	got := w.as("customer", "GET /portal/events/"+d.Event.String()+"/data", nil)
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
		"Content-Disposition": `attachment; filename="` + d.Event.String() + `.json"`,
	} {
		if got.header.Get(name) != want {
			t.Errorf("the download has %s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	if got.html != `{"order":42}` {
		t.Errorf("the download is %q", got.html)
	}
}

func TestWhatAnotherAccountHasIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	evil, err := w.admin.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "evil"})
	if err != nil {
		t.Fatal(err)
	}
	_, d := w.dead()
	w.sessions.add("customer", postrider.Caller{Name: "Eve", Account: evil.ID, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	for _, route := range []string{
		"GET /portal/events/" + d.Event.String(), "GET /portal/events/" + d.Event.String() + "/data", "POST /portal/events/" + d.Event.String() + "/replay",
		"GET /portal/deliveries/" + d.ID.String(), "POST /portal/deliveries/" + d.ID.String() + "/replay", "POST /portal/deliveries/" + d.ID.String() + "/cancel",
		"POST /portal/deliveries/" + d.ID.String() + "/release", "POST /portal/deliveries/" + d.ID.String() + "/retry", "POST /portal/deliveries/" + d.ID.String() + "/discard",
		"GET /portal/replays/rpl_01h455vb4pex5vsknk084sn02q", "POST /portal/replays/rpl_01h455vb4pex5vsknk084sn02q/pause",
		"GET /portal/accounts", "GET /portal/accounts/" + w.account.ID.String(), "GET /portal/api-keys", "GET /portal/event-types/nothing", "GET /portal/deliveries/x",
	} {
		got := w.as("customer", route, nil)
		if got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s of another account = %d\n%s", route, got.status, got.html)
		}
		if strings.Contains(got.html, "order.created") || strings.Contains(got.html, "acme") {
			t.Errorf("%s tells of another account:\n%s", route, got.html)
		}
	}
	for _, path := range []string{"/portal/deliveries", "/portal/events", "/portal/dead-letters", "/portal/dead-letters/all"} {
		if got := w.see("customer", path); strings.Contains(got.html, d.ID.String()) || strings.Contains(got.html, d.Event.String()) {
			t.Errorf("%s lists what another account has", path)
		}
	}
	if got := w.see("customer", "/portal/search?q="+d.ID.String()); !strings.Contains(got.html, "Nothing has the id") {
		t.Errorf("the search finds another account's:\n%s", got.html)
	}
}

func TestFiltersThatAreRefusedSaySo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for path, text := range map[string]string{
		"/deliveries?endpoint=x":                    "finds 0 endpoints",
		"/deliveries?account=nobody":                "There is no account with this id or uid.",
		"/deliveries?event_type=*":                  "Enter one event type",
		"/events?idempotency_key=k":                 "Name the account too",
		"/events?ordering_key=k":                    "Name the account too",
		"/dead-letters?endpoint=x":                  "finds 0 endpoints",
		"/dead-letters/all?account=nobody":          "There is no account with this id or uid.",
		"/events?cursor=" + strings.Repeat("x", 20): "The list has no such page.",
	} {
		got := w.as("operator", "GET /dashboard"+path, nil)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, text) || !strings.Contains(got.html, `class="filters"`) {
			t.Errorf("%s = %d, want 422 with the filters and %q\n%s", path, got.status, text, got.html)
		}
	}
}

func TestAccountsAreManaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	made := w.submit("operator", "/dashboard/accounts", url.Values{"name": {"Blue Inc."}, "uid": {"blue"}})
	says(t, made, "The account is added.", "Blue Inc.")
	refused := w.as("operator", "POST /dashboard/accounts", url.Values{"name": {"Again"}, "uid": {"blue"}})
	if refused.status != http.StatusConflict || !strings.Contains(refused.html, `value="Again"`) {
		t.Errorf("a uid that is taken = %d\n%s", refused.status, refused.html)
	}
	says(t, w.submit("operator", "/dashboard/accounts/blue", url.Values{"name": {"Blue"}, "uid": {""}}), "The account is changed.")
	blue, err := w.admin.Accounts(t.Context(), client.AccountFilter{Paging: client.Paging{Limit: 1}})
	if err != nil || blue.Data[0].Name != "Blue" || blue.Data[0].UID != nil {
		t.Fatalf("the account is %+v, %v", blue.Data, err)
	}
	path := "/dashboard/accounts/" + blue.Data[0].ID.String()
	says(t, w.submit("operator", path+"/delete", nil), "The account is deleted.")
	says(t, w.see("operator", path), "This account was deleted")
	if got := w.as("operator", "POST "+path+"/delete", nil); got.status != http.StatusNotFound {
		t.Errorf("deleting it again = %d", got.status)
	}
	if got := w.as("viewer", "POST /dashboard/accounts", url.Values{"name": {"x"}}); got.status != http.StatusForbidden {
		t.Errorf("a viewer who creates an account = %d", got.status)
	}
}

func TestEventTypesAreManaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	made := w.submit("operator", "/dashboard/event-types", url.Values{"name": {"order.paid"}, "description": {"Paid"}, "example": {`{"n": 1}`}})
	says(t, made, "order.paid is in the catalogue")
	for field, form := range map[string]url.Values{
		"Enter JSON.": {"name": {"order.sent"}, "example": {"{"}}, "joined by dots": {"name": {"*"}},
	} {
		got := w.as("operator", "POST /dashboard/event-types", form)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, field) {
			t.Errorf("the form %v = %d\n%s", form, got.status, got.html)
		}
	}
	says(t, w.submit("operator", "/dashboard/event-types/order.paid", url.Values{"description": {"Was paid"}}), "is changed", "Was paid", "No example is known")
	says(t, w.submit("operator", "/dashboard/event-types/order.paid/delete", nil), "is out of the catalogue")
}

var shownKey = regexp.MustCompile(`pr_[A-Za-z0-9_-]{48}`)

func TestAnAPIKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for field, form := range map[string]url.Values{
		"Choose at least one scope.": {"name": {"ci"}}, "There is no account with this id or uid.": {"name": {"ci"}, "scopes": {"events:write"}, "account": {"nobody"}},
		"Enter a time in the future.": {"name": {"ci"}, "scopes": {"events:write"}, "expires_at": {"2020-01-01T00:00"}}, "Enter a time.": {"scopes": {"events:write"}, "expires_at": {"x"}},
	} {
		got := w.as("operator", "POST /dashboard/api-keys", form)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, field) {
			t.Errorf("the form %v = %d, want %q\n%s", form, got.status, field, got.html)
		}
	}
	made := w.as("operator", "POST /dashboard/api-keys", url.Values{
		"name": {"ci"}, "scopes": {"events:write", "webhooks:read"}, "account": {"acme"}, "expires_at": {time.Now().AddDate(1, 0, 0).Format("2006-01-02T15:04")},
	})
	text := shownKey.FindString(made.html)
	if made.status != http.StatusOK || text == "" {
		t.Fatalf("the new key = %d\n%s", made.status, made.html)
	}
	checkHTML(t, made)
	keys, err := w.admin.Keys(t.Context(), client.KeyFilter{})
	if err != nil {
		t.Fatal(err)
	}
	path := "/dashboard/api-keys/" + keys.Data[0].ID.String()
	if got := w.see("operator", path); strings.Contains(got.html, text) || !strings.Contains(got.html, "webhooks:read") {
		t.Errorf("the page of the key is\n%s", got.html)
	}
	says(t, w.submit("operator", path+"/revoke", nil), "The key ci is revoked.", "Revoked")
	if got := w.as("viewer", "GET /dashboard/api-keys", nil); got.status != http.StatusForbidden {
		t.Errorf("the API keys for a viewer = %d", got.status)
	}
}

func TestAPayloadOfAnySizeAndDepthIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	long := strings.Repeat("x", 200<<10)
	for name, data := range map[string]string{
		"one line":    `{"text": "` + long + `"}`,
		"many values": "[" + strings.Repeat("1,", 50_000) + "1]",
		"deep":        strings.Repeat("[", 60) + strings.Repeat("]", 60),
	} {
		event := w.publish("order.created", data)
		for _, query := range []string{"", "?raw=1", "?find=x", "?find=1"} {
			got := w.see("operator", "/dashboard/events/"+event.ID.String()+query)
			if len(got.html) > 300<<10 || strings.Count(got.html, "<") > 20_000 {
				t.Errorf("%s%s: the page has %d bytes and %d tags", name, query, len(got.html), strings.Count(got.html, "<"))
			}
			if name != "deep" || query != "?raw=1" {
				says(t, got, "Not all of it is shown here")
			}
		}
	}
}

func TestPayloadsAreShownAsTheyWerePublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	event := w.publish("order.created", `{"n":1.50e2,"a":[true,null],"e":{},"t":"Z\u00fcrich <b>","m":2}`)
	got := w.see("operator", "/dashboard/events/"+event.ID.String())
	says(t, got, "1.50e2", "true", "null", `Z\u00fcrich &lt;b&gt;`, "&#34;m&#34;</span>: 2", "{}")
}
