// Package oidctest logs people in to a built server by the example provider of
// github.com/zitadel/oidc, an OpenID Connect provider that others wrote and certified.
// The provider and the server run as processes. It is a module of its own, so that no
// user of ours compiles the provider, and it has not one line of ours.
package oidctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

// The variables with which the test starts itself as the provider.
const (
	issuerVariable   = "OIDCTEST_ISSUER"
	redirectVariable = "OIDCTEST_REDIRECT"
)

// TestMain is the test, or the provider.
func TestMain(m *testing.M) {
	issuer := os.Getenv(issuerVariable)
	if issuer == "" {
		os.Exit(m.Run())
	}
	storage.RegisterClients(storage.WebClient("postrider", "hush", os.Getenv(redirectVariable)))
	users := storage.NewStorage(storage.NewUserStore(issuer))
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	at, err := url.Parse(issuer)
	if err == nil {
		err = http.ListenAndServe(at.Host, exampleop.SetupServer(issuer, users, log, false))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// freePort returns the URL of an address that nobody listens on, and whose port the system gives
// to nobody: it gives those from 32768 on to listeners and connections that ask for any.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return "http://" + address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// run starts a process and waits until it responds at the URL. The test's end kills it.
func run(t *testing.T, command *exec.Cmd, answers string) {
	t.Helper()
	log := &bytes.Buffer{}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", command.Path, log)
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		if response, err := http.Get(answers); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not respond at %s", command.Path, answers)
		}
	}
}

// site is a provider and a server that uses it.
type site struct {
	*testing.T
	issuer, url, key string
}

func newSite(t *testing.T, settings ...string) *site {
	t.Helper()
	program := filepath.Join(t.TempDir(), "postrider")
	build := exec.Command("go", "build", "-o", program, "./cmd/postrider")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	s := &site{T: t, issuer: freePort(t) + "/", url: freePort(t)}
	folder := t.TempDir()
	server := exec.Command(program, append([]string{
		"serve", "--dev", "--data-dir", folder, "--listen", strings.TrimPrefix(s.url, "http://"), "--ops-listen=127.0.0.1:0",
		"--public-url", s.url, "--oidc-issuer", s.issuer, "--oidc-client-id=postrider", "--oidc-role-claim=preferred_username",
	}, settings...)...)
	server.Env = append(os.Environ(), "POSTRIDER_OIDC_CLIENT_SECRET=hush")
	run(t, server, s.url+"/v1/webhooks/openapi.json") // while the provider is away
	key, err := os.ReadFile(filepath.Join(folder, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.key = strings.TrimSpace(string(key))
	return s
}

// startProvider starts the provider as a process.
func (s *site) startProvider() {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	provider := exec.Command(self)
	provider.Env = append(os.Environ(), issuerVariable+"="+s.issuer, redirectVariable+"="+s.url+"/login/oidc/callback")
	run(s.T, provider, s.issuer+".well-known/openid-configuration")
}

// page is what a browser shows.
type page struct {
	status int
	url    *url.URL
	text   string
}

// browser is a person's browser.
type browser struct {
	*site
	http *http.Client
}

func (s *site) browser() *browser {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	return &browser{s, &http.Client{Jar: jar, Timeout: 30 * time.Second}}
}

// open loads a page, or posts a form.
func (b *browser) open(at string, form url.Values) page {
	b.Helper()
	var response *http.Response
	var err error
	if form == nil {
		response, err = b.http.Get(at)
	} else {
		response, err = b.http.PostForm(at, form)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return page{response.StatusCode, response.Request.URL, string(text)}
}

var requestID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// logIn goes through the login at the provider, and returns the page that it ends at.
func (b *browser) logIn(user string) page {
	b.Helper()
	form := b.open(b.url+"/login/oidc?next=/dashboard/endpoints", nil)
	id := requestID.FindStringSubmatch(form.text)
	if form.status != http.StatusOK || !strings.HasPrefix(b.issuer, "http://"+form.url.Host) || id == nil {
		b.Fatalf("the provider's form = %d at %s: %.500s", form.status, form.url, form.text)
	}
	return b.open(b.issuer+"login/username", url.Values{"username": {user}, "password": {"verysecure"}, "id": {id[1]}})
}

// list returns the items of a list of the API, as the admin sees it.
func (s *site) list(route string) []map[string]any {
	s.Helper()
	request, err := http.NewRequest(http.MethodGet, s.url+"/v1/webhooks"+route, nil)
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	var page struct{ Data []map[string]any }
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil || response.StatusCode != http.StatusOK {
		s.Fatalf("%s = %d %v", route, response.StatusCode, err)
	}
	return page.Data
}

func TestAPersonOfTheProviderLogsIn(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--oidc-support=test-user@127.0.0.1", "--oidc-domains=zitadel.ch")
	ann := s.browser()
	if got := ann.open(s.url+"/login", nil); !strings.Contains(got.text, `href="/login/oidc`) {
		t.Errorf("the login offers no provider: %s", got.text)
	}
	if got := ann.open(s.url+"/login/oidc", nil); got.status < 400 {
		t.Errorf("while the provider is away: %d at %s", got.status, got.url)
	}
	s.startProvider()
	got := ann.logIn("test-user@127.0.0.1")
	if got.status != http.StatusOK || got.url.Path != "/dashboard/endpoints" {
		t.Fatalf("after the login: %d at %s: %.500s", got.status, got.url, got.text)
	}
	sessions := s.list("/sessions")
	if len(sessions) != 1 || sessions[0]["name"] != "test-user@zitadel.ch" || sessions[0]["subject"] != s.issuer+" id1" ||
		sessions[0]["key"] != nil ||
		fmt.Sprint(sessions[0]["scopes"]) != "[webhooks:read webhooks:operate]" {
		t.Errorf("sessions = %v", sessions)
	}
	// The second person has no role; the first one's code and state do not help them.
	other := s.browser()
	if got := other.logIn("test-user2"); got.status != http.StatusForbidden || !strings.Contains(got.text, "did not let you in") {
		t.Errorf("a person without a role: %d at %s: %.500s", got.status, got.url, got.text)
	}
	for _, query := range []string{"", "?code=x&state=y", "?error=access_denied&state=y"} {
		if got := other.open(s.url+"/login/oidc/callback"+query, nil); got.status != http.StatusForbidden {
			t.Errorf("a forged callback %q = %d at %s", query, got.status, got.url)
		}
	}
	if sessions := s.list("/sessions"); len(sessions) != 1 {
		t.Errorf("sessions = %v, want the first person's alone", sessions)
	}
	outcomes := map[any]int{}
	for _, e := range s.list("/audit?action=login") {
		outcomes[e["outcome"]]++
	}
	if outcomes["ok"] != 1 || outcomes["unauthorized"] != 1 { // a burst of failures is one entry
		t.Errorf("the logins in the audit log ended %v", outcomes)
	}
}

// TestACallbackOfAnotherBrowserIsRefused brings a person's callback into a browser that
// did not begin the login.
func TestACallbackOfAnotherBrowserIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--oidc-admins=test-user@127.0.0.1")
	s.startProvider()
	ann, victim := s.browser(), s.browser()
	var callback string
	ann.http.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/login/oidc/callback" {
			callback = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	ann.logIn("test-user@127.0.0.1")
	if callback == "" {
		t.Fatal("the provider sent no callback")
	}
	victim.logInAbandoned()
	if got := victim.open(callback, nil); got.status != http.StatusForbidden {
		t.Errorf("another browser's callback = %d at %s", got.status, got.url)
	}
	if sessions := s.list("/sessions"); len(sessions) != 0 {
		t.Errorf("sessions = %v, want none", sessions)
	}
	ann.http.CheckRedirect = nil
	if got := ann.open(callback, nil); got.status != http.StatusOK || got.url.Path != "/dashboard/endpoints" {
		t.Errorf("the callback in its own browser = %d at %s: %.300s", got.status, got.url, got.text)
	}
	if got := ann.open(callback, nil); got.status != http.StatusForbidden {
		t.Errorf("the callback once more = %d at %s", got.status, got.url)
	}
}

// logInAbandoned begins a login and goes no further than the provider's form.
func (b *browser) logInAbandoned() {
	b.Helper()
	b.open(b.url+"/login/oidc", nil)
}
