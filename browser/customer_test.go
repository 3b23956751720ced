package browser_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCustomerReceivesAVerifiedEvent goes the way of a customer: a link, an
// endpoint, a test event that their own code verifies, another secret.
func TestCustomerReceivesAVerifiedEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := w.link(t, "umbrella-eu")
	v := newVisitor(t, w.url)
	tb := v.newTab(t)
	tb.open(link)
	tb.click("Continue")
	tb.find("link", "Endpoints")

	tb.click("Add endpoint")
	tb.fill("URL", w.receiver.url+"/umbrella/new")
	tb.click("All events…")
	tb.click("Add endpoint")
	tb.sees("The endpoint was created")
	tb.click("Show the secret")
	tb.sees("Copy it to your configuration now") // the snippet has whsec_, too
	codes := eval[[]string](tb, "[...document.querySelectorAll('.code code')].map(e => e.textContent)")
	secret, snippet := codes[0], ""
	for _, code := range codes {
		if strings.Contains(code, "export function verify") {
			snippet = code
		}
	}
	if !strings.HasPrefix(secret, "whsec_") || snippet == "" {
		t.Fatalf("the page shows no secret and no JavaScript: %q", codes)
	}

	tb.click("Send")
	tb.sees("Accepted", "200")
	first := w.receiver.requests("/umbrella/new")
	if len(first) != 1 {
		t.Fatalf("%d requests came", len(first))
	}
	if !verifies(t, snippet, secret, first[0]) || verifies(t, snippet, "whsec_"+strings.Repeat("A", 32), first[0]) {
		t.Error("the snippet does not tell its secret from another")
	}

	tb.click("Secrets")
	tb.fill("Overlap", "1h")
	tb.click("Rotate the secret")
	tb.sees("The old ones sign too for 1 h")
	tb.click("Rotate now")
	tb.sees("is new")
	tb.click("Test")
	tb.click("Send")
	eventually(t, func() string {
		if len(w.receiver.requests("/umbrella/new")) < 2 {
			return "no second request came"
		}
		return ""
	})
	if !verifies(t, snippet, secret, w.receiver.requests("/umbrella/new")[1]) {
		t.Error("during the overlap the old secret does not verify")
	}

	again := v.newTab(t)
	again.open(link)
	again.sees("This link does not work")
	again.seen.expect("410")
	again.click("Continue")
	again.sees("Your endpoints")
}

// verifies lets Node.js run the snippet on a request.
func verifies(t *testing.T, snippet, secret string, got received) bool {
	t.Helper()
	folder := t.TempDir()
	header := map[string]string{}
	for name, values := range got.header {
		header[strings.ToLower(name)] = values[0]
	}
	request, err := json.Marshal(object{"header": header, "body": string(got.body), "secret": secret})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"verify.mjs": snippet, "request.json": string(request),
		"main.mjs": `import { readFileSync } from 'node:fs'
import { verify } from './verify.mjs'
const { header, body, secret } = JSON.parse(readFileSync('request.json'))
console.log(await verify(header, Buffer.from(body), [secret]))`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	node := exec.Command("node", "main.mjs")
	node.Dir = folder
	out, err := node.CombinedOutput()
	if err != nil {
		t.Fatalf("run the snippet: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out)) == "true"
}
