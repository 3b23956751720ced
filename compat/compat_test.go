package compat_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// senders are the endpoints that requests are signed for, in ways that
// receivers ask for: with some schemes, and secrets of some kinds.
var senders = []struct {
	name    string
	schemes []string
	kinds   []string
}{
	{"standard", []string{"standard"}, []string{"hmac"}},
	{"standard, private key", []string{"standard"}, []string{"ed25519"}},
	{"svix", []string{"svix"}, []string{"hmac"}},
	{"stripe", []string{"stripe"}, []string{"hmac"}},
	{"github", []string{"github"}, []string{"hmac"}},
	{"github-sha1", []string{"github-sha1"}, []string{"hmac"}},
	{"shopify", []string{"shopify"}, []string{"hmac"}},
	{"all on one request", []string{"standard", "svix", "stripe", "github", "github-sha1", "shopify"}, []string{"hmac", "ed25519"}},
}

// shopifyHeaders are what Shopify's own library demands besides what the scheme
// writes: they say whose shop it is, and in which version the data is, so they
// are the endpoint's.
var shopifyHeaders = []map[string]string{
	{"name": "X-Shopify-Shop-Domain", "value": "acme.myshopify.com"},
	{"name": "X-Shopify-API-Version", "value": "2026-04"},
}

// payloads are what is published: where a byte may get lost on its way to a
// library, it is here.
var payloads = []string{
	`{"order":"o-1","total":4200}`,
	`{"name":"Zoë Ω 東京 🎉","escaped":"\u00eb \ud83c\udf89","separator":"` + "\u2028" + `","combined":"e` + "\u0301" + `"}`,
	`{ "b" : 1.0,	"a":[1e2 , -0, 12345678901234567890.10],"":"","html":"<\/script>&amp;","nul":"\u0000","__proto__":{"x":1} ,"like":"whsec_ v1,t=1.2" }`,
}

// The columns of the table.
const (
	generated = "generated" // with secrets that the server made
	brought   = "brought"   // with secrets that were brought along
	rotating  = "rotating"  // while an old and a new secret are active
	revoked   = "revoked"   // when the old one is not any more
	flipped   = "flipped"   // with one bit of the body turned
)

var columns = []string{generated, brought, rotating, revoked, flipped}

// TestLibrariesVerifyWhatIsSent lets receivers' own libraries verify what a real
// server sent to a real receiver.
func TestLibrariesVerifyWhatIsSent(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	s := &environment{server: startServer(t), receiver: startReceiver(t), ledger: l}
	s.server.call(t, "POST /v1/webhooks/accounts", map[string]string{"uid": "compat"}, nil)
	for _, sender := range senders {
		made := s.create(t, settings{name: sender.name, schemes: sender.schemes, kinds: sender.kinds, payload: "envelope"})
		s.runCourse(t, made, generated)
		for _, form := range broughtForms(sender.kinds) {
			s.runCourse(t, s.create(t, settings{sender.name, sender.schemes, sender.kinds, form, "raw"}), brought)
		}
	}
	l.verifyAll(t)
	t.Logf("checks that came out as they must, of all:\n\n%s", l.table(t))
}

// broughtForms are the forms of the secrets that are brought along: whsec_ with
// the least and the most bytes, and text that no one could decode.
func broughtForms(kinds []string) []string {
	if slices.Contains(kinds, "hmac") {
		return []string{"whsec_24", "whsec_64", "text"}
	}
	return []string{"whsk_"}
}

// newSecret returns a secret of a kind; form is that of HMAC keys.
func newSecret(kind, form string) string {
	random := make([]byte, 64)
	_, _ = rand.Read(random) // it never fails
	switch {
	case kind == "ed25519":
		return "whsk_" + base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(random[:32]))
	case form == "text":
		return rand.Text() + `'"\;,.=+/&<%`
	case form == "whsec_24":
		random = random[:24]
	}
	return "whsec_" + base64.StdEncoding.EncodeToString(random)
}

// environment is where an endpoint's course is run.
type environment struct {
	server    *server
	receiver  *receiver
	ledger    *ledger
	endpoints int
}

// settings are how an endpoint is made. An empty form lets the server make its
// secrets.
type settings struct {
	name    string
	schemes []string
	kinds   []string
	form    string
	payload string
}

// endpoint is one that was made, and the only one of its event type.
type endpoint struct {
	settings
	id, path, eventType string
	active              []secret // newest first
}

// secret is one that a receiver has: the public key of a private one.
type secret struct{ ID, Type, Text string }

func (s *environment) create(t *testing.T, with settings) *endpoint {
	t.Helper()
	s.endpoints++
	e := &endpoint{settings: with, path: "/" + strconv.Itoa(s.endpoints), eventType: "compat.n" + strconv.Itoa(s.endpoints)}
	body := map[string]any{
		"account": "compat", "url": s.receiver.url + e.path, "event_types": []string{e.eventType},
		"signature": map[string]any{"schemes": e.schemes}, "payload": e.payload,
	}
	if slices.Contains(e.schemes, "shopify") {
		body["headers"] = shopifyHeaders
	}
	if e.form == "" {
		// A private key first, while the only scheme is one that it can sign in.
		body["key_type"] = e.kinds[len(e.kinds)-1]
		body["signature"] = map[string]any{"schemes": e.schemes[:1]}
	} else {
		var secrets []string
		for _, kind := range e.kinds {
			secrets = append(secrets, newSecret(kind, e.form))
		}
		body["secrets"] = secrets
	}
	var made struct{ ID string }
	s.server.call(t, "POST /v1/webhooks/endpoints", body, &made)
	e.id = made.ID
	s.look(t, e)
	for _, kind := range e.kinds[:len(e.kinds)-len(e.active)] {
		s.rotate(t, e, kind)
	}
	s.server.call(t, "PATCH /v1/webhooks/endpoints/"+e.id, map[string]any{"signature": map[string]any{"schemes": e.schemes}}, nil)
	return e
}

// look reads an endpoint's active secrets. Public keys are read where receivers
// find them.
func (s *environment) look(t *testing.T, e *endpoint) {
	t.Helper()
	var shown struct {
		Data []struct{ ID, Type, Secret string }
	}
	s.server.call(t, "GET /v1/webhooks/endpoints/"+e.id+"/secrets", nil, &shown)
	var published struct {
		Keys []struct {
			ID     string
			Public string `json:"public_key"`
		}
	}
	s.server.call(t, "GET /.well-known/webhook-keys?endpoint="+e.id, nil, &published)
	e.active = nil
	for _, is := range shown.Data {
		if is.Type == "ed25519" {
			for _, key := range published.Keys {
				if key.ID == is.ID {
					is.Secret = key.Public
				}
			}
		}
		e.active = append(e.active, secret{ID: is.ID, Type: is.Type, Text: is.Secret})
	}
}

func (s *environment) rotate(t *testing.T, e *endpoint, kind string) {
	t.Helper()
	body := map[string]any{"overlap_ms": 3_600_000}
	if e.form == "" {
		body["key_type"] = kind
	} else {
		body["secret"] = newSecret(kind, e.form)
	}
	s.server.call(t, "POST /v1/webhooks/endpoints/"+e.id+"/secrets/rotate", body, nil)
	s.look(t, e)
}

// runCourse sends with an endpoint's first secrets, and then, for each of them,
// with it and its successor, and without it.
func (s *environment) runCourse(t *testing.T, e *endpoint, column string) {
	t.Helper()
	first := e.active
	s.send(t, e, column, e.active)
	for _, old := range first {
		kind := "hmac"
		if old.Type == "ed25519" && len(first) == 1 { // the schemes of an endpoint with both need an HMAC key afterwards
			kind = old.Type
		}
		s.rotate(t, e, kind)
		if !slices.Contains(e.active, old) || len(e.active) != len(first)+1 {
			t.Fatalf("%s: after a rotation %d secrets are active", e.name, len(e.active))
		}
		s.send(t, e, rotating, e.active)
		s.server.call(t, "DELETE /v1/webhooks/endpoints/"+e.id+"/secrets/"+old.ID, nil, nil)
		s.look(t, e)
		if slices.Contains(e.active, old) || len(e.active) != len(first) {
			t.Fatalf("%s: after a revocation %d secrets are active", e.name, len(e.active))
		}
		s.send(t, e, revoked, append(slices.Clone(e.active), old))
	}
}

// send publishes every payload, and notes for each request that arrives what
// the libraries must say of it when they are asked for each of the secrets.
func (s *environment) send(t *testing.T, e *endpoint, column string, ask []secret) {
	t.Helper()
	for _, payload := range payloads {
		event := map[string]any{"account": "compat", "type": e.eventType, "data": 0}
		text, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		s.server.call(t, "POST /v1/webhooks/events", bytes.Replace(text, []byte(`"data":0`), []byte(`"data":`+payload), 1), nil)
		w := s.receiver.next(t, e.path)
		if e.payload == "raw" && string(w.body) != payload {
			t.Errorf("%s: the body is %q, want %q", e.name, w.body, payload)
		}
		checkLists(t, e, w)
		for _, scheme := range e.schemes {
			for _, l := range libraries[scheme] {
				s.ledger.note(question{e: e, library: l, column: column, webhook: w}, ask)
			}
		}
	}
}

var list = regexp.MustCompile(`^(v1a,[A-Za-z0-9+/]{86}==( |$))*(v1,[A-Za-z0-9+/]{43}=( |$))*$`)

// checkLists demands of a list of signatures what two libraries need that are
// not asked here. One splits at single spaces, and each item at its only comma.
// The other looks at the last item alone, which it takes for a v1.
func checkLists(t *testing.T, e *endpoint, w webhook) {
	t.Helper()
	for scheme, name := range map[string]string{"standard": "Webhook-Signature", "svix": "Svix-Signature"} {
		if !slices.Contains(e.schemes, scheme) {
			continue
		}
		values := w.header[name]
		if len(values) != 1 {
			t.Errorf("%s: there are %d headers %s", e.name, len(values), name)
			continue
		}
		items := strings.Split(values[0], " ")
		if !list.MatchString(values[0]) || strings.HasSuffix(values[0], " ") || len(items) != len(e.active) {
			t.Errorf("%s: %s is %q, want %d items, v1a before v1", e.name, name, values[0], len(e.active))
		}
		if slices.Contains(e.kinds, "hmac") && !strings.HasPrefix(items[len(items)-1], "v1,") {
			t.Errorf("%s: the last item of %s is no v1: %q", e.name, name, values[0])
		}
	}
}

// question is what a library is asked, and what it must say.
type question struct {
	e       *endpoint
	library library
	column  string
	webhook webhook
	secret  secret
	want    bool
}

func (q question) String() string {
	return fmt.Sprintf("%s, %s (%s), %s %s secret", q.e.name, q.library.name, q.library.scheme, q.column, q.secret.Type)
}

// row names the line of the table.
func (q question) row() string {
	return fmt.Sprintf("| %s | %s | `%s` |", q.e.name, q.library.scheme, q.library.name)
}

// ledger has all that was asked.
type ledger struct {
	questions []question
	right     []bool
}

// note adds the questions about one request: one for each secret, and three
// forgeries for each that must verify it.
func (l *ledger) note(about question, ask []secret) {
	about.webhook = about.webhook.without(about.library.ignores)
	newest := slices.IndexFunc(about.e.active, about.library.takes)
	for _, s := range ask {
		if !about.library.takes(s) {
			continue
		}
		q := about
		at := slices.Index(q.e.active, s)
		q.secret, q.want = s, at >= 0 && (at == newest || !q.library.newestOnly)
		l.questions = append(l.questions, q)
		if !q.want {
			continue
		}
		for _, forged := range q.webhook.flipped() {
			q.column, q.webhook, q.want = flipped, forged, false
			l.questions = append(l.questions, q)
		}
	}
}

// verifyAll asks the libraries and reports those that answer otherwise than they
// must.
func (l *ledger) verifyAll(t *testing.T) {
	t.Helper()
	l.right = make([]bool, len(l.questions))
	var later []int
	var checks []nodeCheck
	for i, q := range l.questions {
		if q.library.runsInNode() {
			later, checks = append(later, i), append(checks, q.inNode())
			continue
		}
		verified, err := q.library.verify(q.webhook, q.secret)
		if err != nil {
			t.Errorf("%v: %v", q, err)
		}
		l.settle(t, i, verified)
	}
	for i, verified := range verifyInNode(t, checks) {
		l.settle(t, later[i], verified)
	}
}

func (l *ledger) settle(t *testing.T, i int, verified bool) {
	t.Helper()
	q := l.questions[i]
	l.right[i] = verified == q.want
	if !l.right[i] {
		t.Errorf("%v: verified is %t\nheader %q\nbody %s", q, verified, q.webhook.header, q.webhook.body)
	}
}

func (q question) inNode() nodeCheck {
	header := map[string]string{}
	for name, values := range q.webhook.header {
		header[strings.ToLower(name)] = strings.Join(values, ", ") // as node:http does
	}
	return nodeCheck{Library: q.library.name, Secret: q.secret.Text, Type: q.secret.Type, Header: header, Body: q.webhook.body}
}

// table returns how many answers were right, of all. An empty cell is an error:
// nothing was asked.
func (l *ledger) table(t *testing.T) string {
	t.Helper()
	var rows []string
	right, all := map[string]int{}, map[string]int{}
	for i, q := range l.questions {
		cell := q.row() + q.column
		if !slices.Contains(rows, q.row()) {
			rows = append(rows, q.row())
		}
		all[cell]++
		if l.right[i] {
			right[cell]++
		}
	}
	text := "| request | scheme | library | " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", 3+len(columns)) + "|\n"
	for _, row := range rows {
		text += row
		for _, column := range columns {
			if all[row+column] == 0 {
				t.Errorf("%s nothing was asked about %s", row, column)
			}
			text += fmt.Sprintf(" %d/%d |", right[row+column], all[row+column])
		}
		text += "\n"
	}
	return text
}
