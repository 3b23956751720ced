package compat_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-github/v88/github"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	stripe "github.com/stripe/stripe-go/v85/webhook"
	svix "github.com/svix/svix-webhooks/go"
)

// library is what receivers verify one scheme with. It is asked whether one
// secret made a webhook's signature.
type library struct {
	scheme string // what the table calls it
	name   string

	// newestOnly says that the scheme has room for one signature, which the
	// newest secret makes; in the others all that are active sign.
	newestOnly bool

	// ignores are headers of other schemes that the library would prefer.
	ignores []string

	// verify is nil for a package of verify.mjs.
	verify func(webhook, secret) (bool, error)
}

var svixHeaders = []string{"Svix-Id", "Svix-Timestamp", "Svix-Signature"}

// libraries are the ones for each scheme, by the schemes' names in the API;
// standard stands twice, for it has two kinds of keys.
var libraries = map[string][]library{
	"standard": {
		{scheme: "standard v1", name: "standard-webhooks/libraries/go", verify: verifyStandard},
		{scheme: "standard v1", name: "svix-webhooks/go", ignores: svixHeaders, verify: verifySvix},
		{scheme: "standard v1", name: "standardwebhooks"},
		{scheme: "standard v1", name: "svix", ignores: svixHeaders},
		{scheme: standardV1a, name: "crypto/ed25519", verify: verifyV1a},
		{scheme: standardV1a, name: "node:crypto"},
	},
	"svix": {
		{scheme: "svix", name: "svix-webhooks/go", verify: verifySvix},
		{scheme: "svix", name: "svix"},
	},
	"stripe": {
		{scheme: "stripe", name: "stripe-go/v85", verify: verifyStripe},
		{scheme: "stripe", name: "stripe"},
	},
	"github": {
		{scheme: "github", name: "go-github/v88", newestOnly: true, verify: verifyGitHub},
		{scheme: "github", name: "@octokit/webhooks-methods", newestOnly: true},
	},
	"shopify": {
		{scheme: "shopify", name: "@shopify/shopify-api", newestOnly: true},
	},
	"github-sha1": { // the npm package dropped SHA-1
		{scheme: "github-sha1", name: "go-github/v88", newestOnly: true, ignores: []string{github.SHA256SignatureHeader}, verify: verifyGitHub},
	},
}

// standardV1a is what is signed with private keys. No released library of Go or
// of Node.js verifies it, so the standard library of each does, by the
// specification.
const standardV1a = "standard v1a"

// takes reports whether secrets of that kind are for the library.
func (l library) takes(s secret) bool { return (s.Type == "ed25519") == (l.scheme == standardV1a) }

// runsInNode reports whether verify.mjs has the library.
func (l library) runsInNode() bool { return l.verify == nil }

func verifyStandard(w webhook, s secret) (bool, error) {
	verifier, err := standardwebhooks.NewWebhook(s.Text)
	if s.Type == "text" {
		verifier, err = standardwebhooks.NewWebhookRaw([]byte(s.Text))
	}
	if err != nil {
		return false, err
	}
	return unless(verifier.Verify(w.body, w.header), standardwebhooks.ErrNoMatchingSignature.Error())
}

func verifySvix(w webhook, s secret) (bool, error) {
	verifier, err := svix.NewWebhook(s.Text)
	if s.Type == "text" {
		verifier, err = svix.NewWebhookRaw([]byte(s.Text))
	}
	if err != nil {
		return false, err
	}
	return unless(verifier.Verify(w.body, w.header), "No matching signature found")
}

func verifyStripe(w webhook, s secret) (bool, error) {
	err := stripe.ValidatePayload(w.body, w.header.Get("Stripe-Signature"), s.Text)
	return unless(err, stripe.ErrNoValidSignature.Error())
}

func verifyGitHub(w webhook, s secret) (bool, error) {
	request := &http.Request{Header: w.header, Body: io.NopCloser(bytes.NewReader(w.body))}
	_, err := github.ValidatePayload(request, []byte(s.Text))
	return unless(err, "payload signature check failed")
}

// verifyV1a is what the specification says: ed25519 over id.timestamp.body.
func verifyV1a(w webhook, s secret) (bool, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Text, "whpk_"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return false, errors.New("the public key is none")
	}
	signed := slices.Concat([]byte(w.header.Get("Webhook-Id")+"."+w.header.Get("Webhook-Timestamp")+"."), w.body)
	for item := range strings.SplitSeq(w.header.Get("Webhook-Signature"), " ") {
		text, ok := strings.CutPrefix(item, "v1a,")
		if !ok {
			continue
		}
		made, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return false, err
		}
		if ed25519.Verify(key, signed, made) {
			return true, nil
		}
	}
	return false, nil
}

// unless turns an answer into a verdict. The one error is that of a wrong
// signature; any other means that we called the library wrongly, or sent what
// it cannot read.
func unless(err error, wrongSignature string) (bool, error) {
	if err != nil && strings.Contains(err.Error(), wrongSignature) {
		return false, nil
	}
	return err == nil, err
}

// nodeCheck is a check as verify.mjs reads it.
type nodeCheck struct {
	Library string            `json:"library"`
	Secret  string            `json:"secret"`
	Type    string            `json:"type"`
	Header  map[string]string `json:"header"`
	Body    []byte            `json:"body"`
}

// verifyInNode returns what verify.mjs says to each check.
func verifyInNode(t *testing.T, checks []nodeCheck) []bool {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "verify.mjs"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(folder, name), text)
	}
	text, err := json.Marshal(checks)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, "checks.json"), text)
	run(t, folder, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	var verdicts []bool
	if err := json.Unmarshal(run(t, folder, "node", "verify.mjs", "checks.json"), &verdicts); err != nil {
		t.Fatalf("read the answer of verify.mjs: %v", err)
	}
	if len(verdicts) != len(checks) {
		t.Fatalf("verify.mjs answered %d of %d checks", len(verdicts), len(checks))
	}
	return verdicts
}

// run returns what a program writes, which must be there and succeed.
func run(t *testing.T, folder, name string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = folder
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v (make setup installs node and npm)\n%s", name, err, complaints.String())
	}
	return out
}

func writeFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
