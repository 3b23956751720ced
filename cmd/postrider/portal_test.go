package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestThePortalPageOfTheDocsRuns runs the examples of docs/portal.md against a server, and
// opens each link that they make as a browser does.
func TestThePortalPageOfTheDocsRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/portal.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```(sh|js|python)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) != 4 {
		t.Fatalf("docs/portal.md has %d examples, want three links and the settings", len(examples))
	}
	url, key := serveFor(t)
	links := 0
	for _, example := range examples {
		command := map[string][]string{
			"sh": {"bash", "-euc"}, "js": {"node", "--input-type=module", "-e"},
			"python": {"python3", "-c"},
		}[example[1]]
		run := exec.CommandContext(t.Context(), command[0], append(command[1:], example[2])...)
		run.Env = append(os.Environ(), "POSTRIDER_URL="+url, "POSTRIDER_API_KEY="+key)
		out, err := run.Output()
		var answer struct{ URL, Name string }
		if err != nil || json.Unmarshal(out, &answer) != nil {
			t.Fatalf("%s\nended with %v: %s", example[2], err, out)
		}
		if answer.URL == "" {
			if answer.Name != "Orange Shop" {
				t.Errorf("%s\nanswers %s", example[2], out)
			}
			continue
		}
		links++
		openPortal(t, answer.URL)
	}
	if links != 3 {
		t.Errorf("%d examples make a link, want three", links)
	}
}

// serveFor starts a server with the account acme until the test ends, and returns its URL
// and its admin key.
func serveFor(t *testing.T) (url, key string) {
	t.Helper()
	program, data, port := filepath.Join(t.TempDir(), "postrider"), t.TempDir(), freePort(t)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	url = "http://127.0.0.1:" + port
	serve := exec.CommandContext(t.Context(), program, "serve", "--dev", "--data-dir", data,
		"--listen=127.0.0.1:"+port, "--ops-listen=127.0.0.1:0", "--public-url="+url)
	serve.Cancel = func() error { return serve.Process.Signal(syscall.SIGTERM) }
	serve.WaitDelay = 20 * time.Second
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Wait() }) // the test's context has told it to end
	wait := exec.CommandContext(t.Context(), "bash", "-c",
		`for i in {1..200}; do [[ -s $1/admin.key ]] && curl -sf "$2/login" >/dev/null && exit; sleep 0.1; done; exit 1`, "wait", data, url)
	if out, err := wait.CombinedOutput(); err != nil {
		t.Fatalf("the server does not start: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	key = strings.TrimSpace(string(text))
	create := exec.CommandContext(t.Context(), program, "accounts", "create", "acme", "--url", url, "--key-file",
		filepath.Join(data, "admin.key"))
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("create the account: %v\n%s", err, out)
	}
	return url, key
}

// openPortal opens a link. A first GET does not use up the link; its button does. Then the session
// gets its first page.
func openPortal(t *testing.T, link string) {
	t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	do := func(method, url string, cookies []*http.Cookie) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cookies {
			r.AddCookie(c)
		}
		response, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(body)
	}
	for range 2 {
		if shown, page := do(http.MethodGet, link, nil); shown.StatusCode != http.StatusOK || !strings.Contains(page, `method="post"`) {
			t.Fatalf("the link = %d\n%s", shown.StatusCode, page)
		}
	}
	entered, page := do(http.MethodPost, link, nil)
	if entered.StatusCode != http.StatusSeeOther {
		t.Fatalf("the button = %d\n%s", entered.StatusCode, page)
	}
	base, _, _ := strings.Cut(link, "/portal/")
	home, page := do(http.MethodGet, base+entered.Header.Get("Location"), entered.Cookies())
	if home.StatusCode != http.StatusOK || !strings.Contains(page, "/portal/endpoints/new") && !strings.Contains(page, "Endpunkt") {
		t.Errorf("the first page = %d\n%s", home.StatusCode, page)
	}
	if again, _ := do(http.MethodPost, link, nil); again.StatusCode != http.StatusGone {
		t.Errorf("the button of a used link = %d", again.StatusCode)
	}
}
