package web_test

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/web"
)

// says ends the test unless the page has the texts. It returns the page.
func (p response) says(t *testing.T, texts ...string) response {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.html, text) {
			t.Fatalf("the page does not say %q\n%s", text, p.html)
		}
	}
	return p
}

var undoForm = regexp.MustCompile(`<form method="post" action="([^"]*)"><input type="hidden" name="value" value="([^"]*)"><button class="quiet">Undo`)

// undo presses the button that takes back what the page says was done.
func (w *world) undo(p response) response {
	w.Helper()
	found := undoForm.FindStringSubmatch(p.html)
	if found == nil {
		w.Fatalf("the page offers no undo\n%s", p.html)
	}
	return w.submit("operator", found[1], url.Values{"value": {html.UnescapeString(found[2])}})
}

func TestStatusForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String()
	for _, step := range []struct {
		form, says   string
		then, undone postrider.EndpointStatus
	}{
		{"/pause", "The endpoint is paused.", postrider.EndpointPaused, postrider.EndpointEnabled},
		{"/disable", "The endpoint is disabled.", postrider.EndpointDisabled, postrider.EndpointEnabled},
	} {
		done := w.submit("operator", path+step.form, url.Values{"reason": {"maintenance"}})
		done.says(t, step.says)
		checkHTML(t, done)
		if got := w.status(e.ID); got != step.then {
			t.Errorf("after %s the endpoint is %s", step.form, got)
		}
		w.undo(done)
		if got := w.status(e.ID); got != step.undone {
			t.Errorf("after the undo of %s the endpoint is %s", step.form, got)
		}
	}
	if got := w.as("viewer", "POST "+path+"/pause", nil); got.status != http.StatusForbidden {
		t.Errorf("a viewer pauses: %d", got.status)
	}
}

func (w *world) status(id postrider.EndpointID) postrider.EndpointStatus {
	w.Helper()
	e, err := w.admin.Endpoint(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return e.Status
}

func TestCircuitForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String() + "/circuit"
	opened := w.submit("operator", path, url.Values{"value": {"open"}})
	opened.says(t, "The circuit is open.", "a person opened it")
	w.undo(opened).says(t, "The circuit is closed.")
	if got := w.as("operator", "POST "+path, url.Values{"value": {"ajar"}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown status = %d", got.status)
	}
}

func TestTestAndDeleteForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String()
	w.submit("operator", path+"/test", nil).says(t, "A test event is on its way.", "postrider.test")
	w.submit("operator", path+"/test", url.Values{"type": {"order.unknown"}}).says(t, "The catalogue has no such event type.")
	w.submit("operator", path+"/delete", nil).says(t, "is deleted.", "No endpoints yet")
	w.see("operator", path).says(t, "Deleted")
	if got := w.as("operator", "POST "+path+"/pause", nil); got.status != http.StatusConflict && got.status != http.StatusNotFound {
		t.Errorf("a page that was open while the endpoint was deleted = %d", got.status)
	}
}

func TestSecretForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String() + "/secrets"
	first := e.Secrets[0].ID.String()
	listed := w.see("operator", path)
	listed.says(t, "Current: signs every request<", first, "Shared secret (HMAC-SHA256)")
	listed.lacks(t, "whsec_")
	checkHTML(t, listed)
	asked := w.as("operator", "POST "+path+"/rotate", url.Values{"overlap_ms": {"2 h"}, "key_type": {"hmac"}})
	asked.says(t, "Rotate the secret now?", "The old ones sign too for 2 h, until", "in 2 h", `name="confirmed" value="yes"`,
		`name="overlap_ms" value="2 h"`)
	checkHTML(t, asked)
	w.as("operator", "POST "+path+"/rotate", url.Values{"overlap_ms": {"0"}}).says(t, "The old ones are revoked at once")
	if secrets, err := w.admin.Secrets(t.Context(), e.ID); err != nil || len(secrets) != 1 {
		t.Errorf("before the person has agreed there are %d secrets, %v", len(secrets), err)
	}
	w.submit("operator", path+"/rotate", url.Values{"overlap_ms": {"2h"}, "confirmed": {"yes"}}).says(t,
		"The old ones sign beside it for 2 h.",
		"Several secrets sign now: each request has a signature of every one of them", "Old: signs every request too, until",
		"New: signs every request, alone from", "in 2 h", " UTC</span>")
	shown := w.as("operator", "POST "+path, url.Values{"secret": {first}})
	if !strings.Contains(html.UnescapeString(shown.html), *e.Secrets[0].Secret) {
		t.Errorf("the page does not show the secret\n%s", shown.html)
	}
	if n := strings.Count(shown.html, "<code>whsec_"); n != 1 {
		t.Errorf("the page shows %d secrets, and one was asked for", n)
	}
	checkHTML(t, shown)
	if entries, err := w.admin.Audit(t.Context(), client.AuditFilter{Action: "reveal-secret"}); err != nil || len(entries.Data) != 1 ||
		*entries.Data[0].ObjectID != first {
		t.Errorf("the audit log has %+v, %v", entries.Data, err)
	}
	for overlap, says := range map[string]string{
		"soon": "Enter a length of time", "3 weeks": "Enter a length of time",
		"31d": "Must be 0 to 30 d.",
	} {
		if got := w.as("operator", "POST "+path+"/rotate", url.Values{"overlap_ms": {overlap}}); got.status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.html, says) {
			t.Errorf("a rotation with the overlap %s = %d\n%s", overlap, got.status, got.html)
		} else {
			got.lacks(t, "Rotate the secret now?")
		}
	}
	secrets, err := w.admin.Secrets(t.Context(), e.ID)
	if err != nil || len(secrets) != 2 {
		t.Fatalf("%d secrets, %v", len(secrets), err)
	}
	w.submit("operator", path+"/"+secrets[1].ID.String()+"/revoke", nil).says(t, "is revoked.")
	w.submit("operator", path+"/"+secrets[0].ID.String()+"/revoke", nil).says(t, `role="alert"`)
	if got := w.as("viewer", "POST "+path, url.Values{"secret": {secrets[0].ID.String()}}); got.status != http.StatusForbidden ||
		strings.Contains(got.html, "whsec_") {
		t.Errorf("a viewer sees secrets: %d", got.status)
	}
	w.see("viewer", path).says(t, "Current: signs every request", "Your session may not see secrets.")
}

// fields returns the form of a page as a browser would send it.
func (p response) fields() url.Values {
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="(was\.[^"]*)" value="([^"]*)">`).FindAllStringSubmatch(p.html, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
		form.Set(strings.TrimPrefix(m[1], "was."), html.UnescapeString(m[2]))
	}
	form.Del("back")
	return form
}

func TestOptionsForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String() + "/options"
	form := w.see("operator", path).fields()
	w.submit("operator", path, form).says(t, "Nothing was changed.")

	form.Set("timeout_ms", "20s")
	form.Set("rate", "100/1m+20")
	form.Set("retry.preset", "own")
	form.Set("retry.delays_ms", "0s 30s 5m")
	review := w.as("operator", "POST "+path, form)
	review.says(t, "This changes 3 options:", "<del>10 s</del>", "<ins>20 s</ins>")
	checkHTML(t, review)
	if w.options(e.ID).TimeoutMS.Value() != 10_000 {
		t.Error("the review has saved the change")
	}
	// Somebody else changes another option meanwhile.
	if _, err := w.admin.ChangeEndpoint(t.Context(), e.ID,
		apitypes.EndpointUpdate{Policy: apitypes.Policy{Concurrency: apitypes.Of(3)}}); err != nil {
		t.Fatal(err)
	}
	form.Set("save", "yes")
	done := w.submit("operator", path, form)
	done.says(t, "3 options are changed.")
	got := w.options(e.ID)
	if got.TimeoutMS.Value() != 20_000 || got.Concurrency.Value() != 3 ||
		got.Rate.Value() != (apitypes.Rate{Attempts: 100, PerMS: 60_000, Burst: 20}) ||
		!slices.Equal(got.Retry.Value().DelaysMS, []int64{0, 30_000, 300_000}) {
		t.Errorf("the options are %+v", got)
	}
	w.undo(done).says(t, "old value")
	if got := w.options(e.ID); got.TimeoutMS.Value() != 10_000 || !got.Rate.IsNull() || got.Concurrency.Value() != 3 ||
		got.Retry.Value().Preset != "default" {
		t.Errorf("the options after the undo are %+v", got)
	}
}

func (w *world) options(id postrider.EndpointID) apitypes.Policy {
	w.Helper()
	e, err := w.admin.Endpoint(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return e.Policy
}

// What cannot be read, and what the API refuses, is said at its option, and what the
// person typed is still there.
func TestOptionsFormFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String() + "/options"
	for field, c := range map[string]struct{ typed, option, says string }{
		"timeout_ms":       {"99s", "timeout_ms", "Must be 1 s to 30 s."},
		"expiry_ms":        {"soon", "expiry_ms", "Enter a length of time"},
		"rate":             {"many", "rate", "Enter a rate like 100/1s"},
		"concurrency":      {"ten", "concurrency", "Enter a whole number."},
		"retry.delays_ms":  {"0s 90d", "retry", "Entry 2: "},
		"circuit.failures": {"many", "circuit", "Enter a whole number."},
		"headers":          {"X-Tenant", "headers", "as Name: value."},
		"url":              {"ftp://x", "url", "Enter a whole URL"},
	} {
		form := w.see("operator", path).fields()
		form.Set(field, c.typed)
		form.Set("retry.preset", "own")
		if field != "retry.delays_ms" {
			form.Set("retry.preset", "default")
		}
		if field == "circuit.failures" {
			form.Set("circuit.preset", "own")
			for _, name := range circuitFields {
				form.Set("was."+name, "")
			}
		}
		form.Set("save", "yes")
		got := w.as("operator", "POST "+path, form)
		at := strings.Index(got.html, `id="fault-`+c.option+`"`)
		if got.status != http.StatusUnprocessableEntity || at < 0 || !strings.Contains(got.html[at:min(len(got.html), at+600)], c.says) {
			t.Errorf("%s = %s: %d, and not at the option %s\n%s", field, c.typed, got.status, c.option, got.html[max(0, at):])
			continue
		}
		checkHTML(t, got)
	}
}

// circuitFields are the inputs of a circuit's own numbers.
var circuitFields = []string{
	"circuit.failures", "circuit.percent", "circuit.attempts", "circuit.window_ms", "circuit.cooldown_ms",
	"circuit.max_cooldown_ms",
}

func TestCreateForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	form := w.see("operator", "/dashboard/endpoints/new").fields()
	refused := w.as("operator", "POST /dashboard/endpoints/new", form)
	if refused.status != http.StatusUnprocessableEntity || !strings.Contains(refused.html, `id="fault-url"`) ||
		!strings.Contains(refused.html, `id="fault-event_types"`) {
		t.Errorf("an empty form = %d\n%s", refused.status, refused.html)
	}
	form.Set("account", "acme")
	form.Set("url", "https://new.example/in")
	form.Set("event_types", "order.*\r\ninvoice.paid")
	form["signature"] = []string{"standard", "stripe"}
	w.submit("operator", "/dashboard/endpoints/new", form).says(t, "The endpoint was created.", "https://new.example/in")
	found, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{Account: "acme"})
	if err != nil || len(found.Data) != 1 {
		t.Fatal(found, err)
	}
	if e := found.Data[0]; !slices.Equal(e.EventTypes, []string{"order.*", "invoice.paid"}) || len(e.Signature.Value().Schemes) != 2 ||
		e.TimeoutMS.Value() != 10_000 {
		t.Errorf("the endpoint is %+v", e)
	}
}

func TestAnAccountIsToldToKeepLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	const path = "/dashboard/accounts/acme"
	form := url.Values{
		"keep_events_days": {"7"}, "keep_attempts_days": {" 14 "}, "keep_bodies_days": {""},
		"keep_idempotency_keys_days": {"2"},
	}
	shown := w.submit("operator", path+"/retention", form)
	shown.says(t, "<dd>7 days</dd>", "<dd>14 days</dd>", "as long as the server keeps them", `value="14"`)
	checkHTML(t, shown)
	for typed, says := range map[string]string{
		"0": "Must be 1 to", "a week": "Enter a whole number",
		"1": "cannot be kept longer than events",
	} {
		form.Set("keep_events_days", typed)
		got := w.as("operator", "POST "+path+"/retention", form)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, says) || !strings.Contains(got.html, `value="`+typed+`"`) {
			t.Errorf("%s days: %d, without %q\n%s", typed, got.status, says, got.html)
		}
		checkHTML(t, got)
	}
	form.Set("keep_events_days", "7")
	if got := w.as("viewer", "POST "+path+"/retention", form); got.status != http.StatusForbidden {
		t.Errorf("a viewer's change = %d, want 403", got.status)
	}
	a, err := w.admin.Account(t.Context(), "acme")
	if err != nil || a.KeepEventsDays.Value() != 7 || a.KeepAttemptsDays.Value() != 14 || !a.KeepBodiesDays.IsNull() {
		t.Errorf("the account is %+v, %v", a, err)
	}
}

// A customer gets 404 for whatever belongs to another account, as for what does not
// exist.
func TestForeignEndpointsAreNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	other, err := w.admin.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	foreign := w.endpoint(apitypes.EndpointCreate{Account: other.ID.String()})
	secrets, err := w.admin.Secrets(t.Context(), foreign.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range w.web.Patterns {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.HasPrefix(path, "/portal/endpoints/{endpoint}") {
			continue
		}
		path = strings.NewReplacer("{endpoint}", foreign.ID.String(), "{secret}", secrets[0].ID.String(), "{delivery}",
			"dlv_01h455vb4pex5vsknk084sn02q").Replace(path)
		got := w.as("customer", method+" "+path, url.Values{"value": {"open"}, "overlap_ms": {"1h"}})
		if got.status != http.StatusNotFound || strings.Contains(got.html, "acme.example") {
			t.Errorf("%s %s = %d", method, path, got.status)
		}
	}
}

// feed is a source of attempts that a test fills.
type feed struct {
	mu      sync.Mutex
	watched []observe.Watch
	items   chan observe.Attempted
}

func (f *feed) Subscribe(ctx context.Context, w observe.Watch) func() ([]observe.Attempted, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watched = append(f.watched, w)
	return func() ([]observe.Attempted, int, error) {
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case item := <-f.items:
			return []observe.Attempted{item}, 3, nil
		}
	}
}

// stream opens a stream over a connection, and returns what it reads until text comes.
func (w *world) stream(server *httptest.Server, person, path string) func(until string) string {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: person})
	r.AddCookie(&http.Cookie{Name: "postrider-portal", Value: person})
	response, err := server.Client().Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		w.Fatalf("GET %s = %d %s", path, response.StatusCode, response.Header.Get("Content-Type"))
	}
	var text strings.Builder
	return func(until string) string {
		w.Helper()
		chunk := make([]byte, 4096)
		for until == "" || !strings.Contains(text.String(), until) {
			n, err := response.Body.Read(chunk)
			text.Write(chunk[:n])
			if err != nil {
				if until != "" {
					w.Fatalf("%v before %q in %q", err, until, text.String())
				}
				break
			}
		}
		return text.String()
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	f := &feed{items: make(chan observe.Attempted)}
	w.web.Watch(f)
	server := httptest.NewServer(w.web)
	t.Cleanup(server.Close)

	ticks := w.stream(server, "customer", "/portal/live")
	ticks("retry:")
	f.items <- observe.Attempted{EventType: "secret.type", Account: w.account.ID}
	if got := ticks("event: changed"); strings.Contains(got, "secret.type") {
		t.Errorf("a tick says more than that something has changed: %q", got)
	}
	w.web.End()
	ticks("") // the end of the stream
	if got := f.watched[0]; got.Account != w.account.ID {
		t.Errorf("a customer watches %+v, and not only the own account", got)
	}
}

func TestTailStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	f := &feed{items: make(chan observe.Attempted)}
	w.web.Watch(f)
	server := httptest.NewServer(w.web)
	t.Cleanup(server.Close)
	tail := w.stream(server, "operator", "/dashboard/live/tail?account=acme&status=dead")
	tail("retry:")
	f.items <- observe.Attempted{
		EventType: hostile, Status: postrider.Dead, Outcome: postrider.OutcomeRejected, StatusCode: 500,
		At: time.Now(),
	}
	got := tail(`"lost":3`)
	if !strings.Contains(got, "event: tail") || strings.Contains(got, `\u003cscript`) || strings.Contains(got, "<script") {
		t.Errorf("the stream is %q", got)
	}
	if want := (observe.Watch{Account: w.account.ID, Status: postrider.Dead}); f.watched[0] != want {
		t.Errorf("the stream watches %+v, want %+v", f.watched[0], want)
	}
	w.web.End()
}

func TestTooManyStreamsOfOneSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.web.Watch(&feed{items: make(chan observe.Attempted)})
	server := httptest.NewServer(w.web)
	t.Cleanup(server.Close)
	for range 8 {
		w.stream(server, "operator", "/dashboard/live")("retry:")
	}
	if got := w.as("operator", "GET /dashboard/live", nil); got.status != http.StatusTooManyRequests {
		t.Errorf("the ninth stream of a session = %d", got.status)
	}
	w.web.End()
}
