package app_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// browser is a browser without JavaScript.
type browser struct {
	*testing.T
	http *http.Client
	base string
}

func newBrowser(t *testing.T, r *running) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar}, "http://" + r.app.Addr().String()}
}

// open loads a page, or posts a form, and returns the page that it leads to.
func (b *browser) open(path string, form url.Values) (status int, at, text string) {
	b.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	request, err := http.NewRequestWithContext(b.Context(), method, b.base+path, body)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	response, err := b.http.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return response.StatusCode, response.Request.URL.Path, string(page)
}

func TestPeopleLogInAndCustomersOpenTheirLink(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.subscribe(t, "http://127.0.0.1:9/hooks")
	key, err := os.ReadFile(r.keyFile)
	if err != nil {
		t.Fatal(err)
	}

	operator := newBrowser(t, r)
	if status, at, text := operator.open("/dashboard/endpoints", nil); strings.Contains(text, "127.0.0.1:9/hooks") ||
		!strings.Contains(text, "/login") {
		t.Errorf("without a session: %d at %s %.300s", status, at, text)
	}
	if status, _, _ := operator.open("/login", url.Values{"key": {"pr_wrong"}}); status != http.StatusForbidden {
		t.Errorf("a wrong key = %d, want 403", status)
	}
	if status, at, text := operator.open("/login", url.Values{
		"key":  {strings.TrimSpace(string(key))},
		"next": {"/dashboard/endpoints"},
	}); status != http.StatusOK ||
		at != "/dashboard/endpoints" || !strings.Contains(text, "127.0.0.1:9/hooks") {
		t.Errorf("after the login: %d at %s %.300s", status, at, text)
	}

	link, err := r.api.CreatePortalSession(t.Context(), apitypes.PortalSessionCreate{Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	customer := newBrowser(t, r)
	path, ok := strings.CutPrefix(link.URL, customer.base)
	if !ok {
		t.Fatalf("the link %s is not of %s", link.URL, customer.base)
	}
	for range 2 { // a mail scanner opens it first
		if status, _, text := customer.open(path, nil); status != http.StatusOK || !strings.Contains(text, "<form") {
			t.Fatalf("the link = %d %.300s", status, text)
		}
	}
	if status, at, text := customer.open(path, url.Values{}); status != http.StatusOK || !strings.HasPrefix(at, "/portal") ||
		strings.Contains(at, "enter") {
		t.Errorf("after the button: %d at %s %.300s", status, at, text)
	}
	if status, _, _ := newBrowser(t, r).open(path, url.Values{}); status != http.StatusGone {
		t.Errorf("the used link = %d, want 410", status)
	}
	if err := r.api.RevokeSession(t.Context(), link.ID); err != nil {
		t.Fatal(err)
	}
	if status, at, _ := customer.open("/portal/endpoints", nil); status == http.StatusOK && strings.HasPrefix(at, "/portal/endpoints") {
		t.Errorf("a revoked session opens %s", at)
	}

	entries, err := r.api.Audit(t.Context(), client.AuditFilter{Action: "login"})
	if err != nil || len(entries.Data) != 2 || entries.Data[0].Outcome != "ok" || entries.Data[1].Outcome != "unauthorized" ||
		entries.Data[0].Details["client"] != "127.0.0.1" {
		t.Errorf("the logins in the audit log are %+v, %v", entries.Data, err)
	}
	if status, _, text := operator.open("/v1/webhooks/endpoints", nil); status != http.StatusUnauthorized ||
		!strings.Contains(text, `"unauthorized"`) {
		t.Errorf("the API with a cookie = %d %s, want 401", status, text)
	}
}

// TestTooManyTriesAreSaid logs in until the limit of all clients is reached. The page must say so,
// and not that the database is away.
func TestTooManyTriesAreSaid(t *testing.T) {
	t.Parallel()
	person := newBrowser(t, start(t, t.TempDir()))
	for try := range 1000 {
		status, _, text := person.open("/login", url.Values{"key": {"pr_wrong"}})
		if status == http.StatusForbidden {
			continue
		}
		if status != http.StatusTooManyRequests || !strings.Contains(text, "Too many tries") || try < 200 {
			t.Errorf("try %d = %d %.300s, want 429 after 200 tries", try, status, text)
		}
		return
	}
	t.Error("1000 tries to log in were not too many")
}

// TestABegunLoginIsLimitedBeforeTheProviderResponds begins logins at an identity provider that
// fails, until the limit is reached. Logins beyond the limit make no request to the provider.
func TestABegunLoginIsLimitedBeforeTheProviderResponds(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(provider.Close)
	person := newBrowser(t, startWith(t, t.TempDir(), map[string]string{
		"POSTRIDER_OIDC_ISSUER": provider.URL, "POSTRIDER_OIDC_CLIENT_ID": "postrider", "POSTRIDER_OIDC_ADMINS": "platform",
	}))
	for try := range 1000 {
		status, _, text := person.open("/login/oidc", nil)
		if status == http.StatusServiceUnavailable {
			continue
		}
		if status != http.StatusTooManyRequests || !strings.Contains(text, "Too many tries") || try < 200 || asked.Load() > int64(try) {
			t.Errorf("try %d = %d after %d requests to the provider, %.300s; want 429 after 200 tries", try, status, asked.Load(), text)
		}
		if status, _, _ := person.open("/login", url.Values{"key": {"pr_wrong"}}); status != http.StatusForbidden {
			t.Errorf("a login with a key = %d: the limit of the provider's logins is its own", status)
		}
		return
	}
	t.Error("1000 begun logins were not too many")
}
