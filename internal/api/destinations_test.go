package api_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/api/notices"
	"github.com/postrider/postrider/internal/store"
)

// newMail returns a world with a mail server and a public URL.
func newMail(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, api.Options{PublicURL: "https://hooks.example", Mail: true})
}

func (w *world) readers() *notices.Readers {
	w.Helper()
	h, ok := w.handler.(*api.Handler)
	if !ok {
		w.Fatal("the handler is none of the API")
	}
	return h.Readers()
}

// signed returns the text of a link, as the vault of the world signs it.
func signed(l postrider.DestinationLink) string { return "signed-" + hex.EncodeToString(l.Encode()) }

func TestDestinationsOfNotices(t *testing.T) {
	t.Parallel()
	w := newMail(t)
	acme := w.tenant("acme")
	made := w.want(201, "POST /notice-destinations",
		`{"account": "acme", "channel": "email", "address": "Ann@ACME.example", "kinds": ["endpoint.disabled"]}`)
	has(t, "made", made.body, map[string]any{
		"account": acme.account, "channel": "email", "address": "Ann@acme.example", "language": "en", "kinds": []any{"endpoint.disabled"},
		"unsubscribed": []any{}, "state": "waiting", "asked": "confirmation", "confirmed_at": nil, "last_sent_at": nil, "failures": 0.0,
		"last_error": nil,
	})
	slack := w.want(201, "POST /notice-destinations",
		`{"channel": "slack", "address": "http://10.0.0.1/services/T0/B0/secretsecret", "language": "de"}`)
	has(t, "the operator's", slack.body, map[string]any{
		"account": nil, "address": "http://10.0.0.1/…cret", "language": "de", "kinds": nil,
		"state": "active", "asked": nil,
	})

	route := "/notice-destinations/" + made.id("id")
	has(t, "read", w.want(200, "GET "+route, "").body, made.body)
	has(t, "changed", w.want(200, "PATCH "+route, `{"language": "de", "kinds": null}`).body, map[string]any{"language": "de", "kinds": nil})
	has(t, "changed again", w.want(200, "PATCH "+route, `{"kinds": []}`).body, map[string]any{"language": "de", "kinds": []any{}})
	for list, want := range map[string]int{"": 2, "?account=acme": 1, "?operator=true": 1} {
		if got := w.want(200, "GET /notice-destinations"+list, ""); len(got.data()) != want {
			t.Errorf("%s lists %d, want %d", list, len(got.data()), want)
		}
	}
	w.want(409, "POST /notice-destinations", `{"account": "acme", "channel": "email", "address": "Ann@acme.EXAMPLE"}`)
	w.want(409, "POST "+route+"/test", "")
	w.want(409, "POST /notice-destinations/"+slack.id("id")+"/confirmation", "")
	has(t, "a test", w.want(200, "POST /notice-destinations/"+slack.id("id")+"/test", "").body, map[string]any{"asked": "test"})
	w.want(204, "DELETE "+route, "")
	w.want(404, "GET "+route, "")
	w.want(404, "DELETE "+route, "")
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newMail(t)
	w.tenant("acme")
	for body, field := range map[string]string{
		`{"account": "acme", "channel": "email"}`:                                                             "address",
		`{"account": "acme", "channel": "email", "address": "ann"}`:                                           "address",
		`{"account": "acme", "channel": "email", "address": "ann@localhost"}`:                                 "address",
		`{"account": "acme", "channel": "email", "address": "Ann <ann@acme.example>"}`:                        "address",
		`{"account": "acme", "channel": "email", "address": "ann@acme.example, eve@evil.example"}`:            "address",
		`{"account": "acme", "channel": "email", "address": "ann@acme.example\r\nBcc: eve@evil.example"}`:     "address",
		`{"account": "acme", "channel": "email", "address": "änn@acme.example"}`:                              "address",
		`{"account": "acme", "channel": "email", "address": "` + strings.Repeat("a", 250) + `@acme.example"}`: "address",
		`{"account": "acme", "channel": "slack", "address": "http://hooks.example/x"}`:                        "address",
		`{"channel": "slack", "address": "ftp://hooks.example/x"}`:                                            "address",
		`{"channel": "slack", "address": "https://user:password@hooks.example/x"}`:                            "address",
		`{"account": "acme", "channel": "fax", "address": "1"}`:                                               "channel",
		`{"account": "nobody", "channel": "email", "address": "ann@acme.example"}`:                            "account",
		`{"account": "acme", "channel": "email", "address": "ann@acme.example", "language": "fr"}`:            "language",
		`{"account": "acme", "channel": "email", "address": "ann@acme.example", "kinds": ["endpoint.sold"]}`:  "kinds[0]",
	} {
		if got := w.want(422, "POST /notice-destinations", body); len(got.fields()) != 1 || got.fields()[0] != field {
			t.Errorf("%s names %v, want %s", body, got.fields(), field)
		}
	}
	twice := w.want(422, "POST /notice-destinations",
		`{"account": "acme", "channel": "email", "address": "a@b.example", "kinds": ["endpoint.disabled", "endpoint.disabled"]}`)
	if twice.fields()[0] != "kinds[1]" {
		t.Errorf("a repeated kind names %v", twice.fields())
	}
}

func TestEmailsNeedAMailServerAndAPublicURL(t *testing.T) {
	t.Parallel()
	const body = `{"channel": "email", "address": "ops@acme.example"}`
	for code, opts := range map[string]api.Options{"mail_missing": {PublicURL: "https://hooks.example"}, "public_url_missing": {Mail: true}} {
		w := newWorldOf(t, opts)
		if got := w.want(422, "POST /notice-destinations", body); got.body["code"] != code {
			t.Errorf("the code is %v, want %s", got.body["code"], code)
		}
		w.want(201, "POST /notice-destinations", `{"channel": "slack", "address": "https://hooks.example/x"}`)
	}
}

func TestDestinationsOfOthersAreNotThere(t *testing.T) {
	t.Parallel()
	w := newMail(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	own := w.want(201, "POST /notice-destinations", `{"account": "acme", "channel": "email", "address": "ann@acme.example"}`).id("id")
	operator := w.want(201, "POST /notice-destinations", `{"channel": "email", "address": "ops@acme.example"}`).id("id")
	for _, id := range []string{own, operator} {
		for _, route := range []string{"GET ", "DELETE ", "PATCH ", "POST /confirmation", "POST /test"} {
			method, action, _ := strings.Cut(route, " ")
			body := ""
			if method == "PATCH" {
				body = `{}`
			}
			if got := w.do(w.bound(evil), method+" /notice-destinations/"+id+action, body); got.status != 404 {
				t.Errorf("%s%s of another = %d", method, action, got.status)
			}
		}
	}
	bound := w.bound(acme)
	if got := w.do(bound, "POST /notice-destinations", `{"channel": "email", "address": "bob@acme.example"}`); got.status != 201 ||
		got.body["account"] != acme.account {
		t.Errorf("a bound key made %d %v", got.status, got.body)
	}
	if got := w.do(bound, "GET /notice-destinations?operator=true", ""); len(got.data()) != 0 {
		t.Errorf("a bound key lists the operator's: %v", got.data())
	}
	// A key of all accounts that is no admin's manages those of accounts alone.
	writer := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	for _, route := range []string{
		"POST /notice-destinations", "DELETE /notice-destinations/" + operator,
		"POST /notice-destinations/" + operator + "/confirmation",
	} {
		body := ""
		if strings.HasSuffix(route, "s") {
			body = `{"channel": "email", "address": "eve@evil.example"}`
		}
		if got := w.do(writer, route, body); got.status != 403 {
			t.Errorf("%s without the scope admin = %d", route, got.status)
		}
	}
	if got := w.do(writer, "DELETE /notice-destinations/"+own, ""); got.status != 204 {
		t.Errorf("the writer's deletion = %d", got.status)
	}
}

func TestTheLimitsOfDestinations(t *testing.T) {
	t.Parallel()
	w := newMail(t)
	acme := w.tenant("acme")
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	put := func(n int) {
		for range n {
			id := store.NewID[postrider.DestinationID](w.ids)
			d := postrider.Destination{ID: id, Account: account, Channel: postrider.ChannelSlack, Address: id.String(), Language: "en"}
			if err := w.store.PutDestination(t.Context(), d, 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(9)
	for range 9 {
		address := strings.ToLower(store.NewID[postrider.DestinationID](w.ids).String()) + "@acme.example"
		w.want(201, "POST /notice-destinations", `{"account": "acme", "channel": "email", "address": "`+address+`"}`)
	}
	last := w.want(201, "POST /notice-destinations", `{"account": "acme", "channel": "email", "address": "last@acme.example"}`).id("id")
	if got := w.want(429, "POST /notice-destinations/"+last+"/confirmation", ""); got.header.Get("Retry-After") == "" {
		t.Errorf("the eleventh confirmation is %v", got.body)
	}
	put(1)
	if got := w.want(409, "POST /notice-destinations",
		`{"account": "acme", "channel": "slack", "address": "https://hooks.example/x"}`); got.body["code"] != "too_many_destinations" {
		t.Errorf("the twenty-first is %v", got.body["code"])
	}
	// One address gets three messages, no matter who asks. Deleting and adding it again counts, too.
	for _, status := range []int{201, 201, 201, 429} {
		got := w.do(w.admin, "POST /notice-destinations", `{"channel": "email", "address": "victim@acme.example"}`)
		if got.status != status {
			t.Errorf("an address that is added again = %d, want %d", got.status, status)
		}
		if got.status == 201 {
			w.want(204, "DELETE /notice-destinations/"+got.id("id"), "")
		}
	}
}

func TestReadersFollowTheirLinks(t *testing.T) {
	t.Parallel()
	w := newMail(t)
	acme := w.tenant("acme")
	id, err := postrider.ParseID[postrider.DestinationID](w.want(201, "POST /notice-destinations",
		`{"account": "acme", "channel": "email", "address": "ann@acme.example"}`).id("id"))
	if err != nil {
		t.Fatal(err)
	}
	confirm := postrider.DestinationLink{Destination: id, Action: postrider.LinkConfirm, ExpiresAt: time.Now().Add(time.Hour)}
	late := confirm
	late.ExpiresAt = time.Now().Add(-time.Second)
	end := postrider.DestinationLink{Destination: id, Action: postrider.LinkUnsubscribe, Kind: postrider.NoticeDisabled}
	gone := postrider.DestinationLink{Destination: postrider.DestinationID{1}, Action: postrider.LinkConfirm}
	for name, c := range map[string]struct {
		action postrider.LinkAction
		text   string
	}{
		"one that is not signed":         {postrider.LinkConfirm, "forged"},
		"one that is no link":            {postrider.LinkConfirm, "signed-00"},
		"one that has expired":           {postrider.LinkConfirm, signed(late)},
		"one of a destination that went": {postrider.LinkConfirm, signed(gone)},
		"one that does something else":   {postrider.LinkConfirm, signed(end)},
	} {
		if _, _, err := w.readers().Find(t.Context(), c.action, c.text); !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("finding %s: %v", name, err)
		}
		if err := w.readers().Follow(t.Context(), c.action, c.text, loopback); !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("following %s: %v", name, err)
		}
	}
	route := "GET /notice-destinations/" + id.String()
	if _, _, err := w.readers().Find(t.Context(), postrider.LinkConfirm, signed(confirm)); err != nil {
		t.Fatal(err)
	}
	has(t, "after looking", w.want(200, route, "").body, map[string]any{"state": "waiting"})
	for range 2 {
		if err := w.readers().Follow(t.Context(), postrider.LinkConfirm, signed(confirm), loopback); err != nil {
			t.Fatal(err)
		}
		has(t, "after confirming", w.want(200, route, "").body, map[string]any{"state": "active"})
	}
	for range 2 {
		if err := w.readers().Follow(t.Context(), postrider.LinkUnsubscribe, signed(end), loopback); err != nil {
			t.Fatal(err)
		}
	}
	has(t, "after unsubscribing", w.want(200, route, "").body, map[string]any{"state": "active", "unsubscribed": []any{"endpoint.disabled"}})
	end.Kind = postrider.AllKinds
	if err := w.readers().Follow(t.Context(), postrider.LinkUnsubscribe, signed(end), loopback); err != nil {
		t.Fatal(err)
	}
	has(t, "after unsubscribing from all", w.want(200, route, "").body, map[string]any{"state": "unsubscribed"})
	if got := w.want(409, "POST /notice-destinations/"+id.String()+"/test", ""); got.body["code"] != "destination_unsubscribed" {
		t.Errorf("a test for a reader who wants none: %v", got.body["code"])
	}
	entries := w.want(200, "GET /audit?object="+id.String(), "").data()
	var actions []string
	for _, e := range entries {
		actions = append(actions, e["action"].(string))
		if e["account"] != acme.account || e["object"] != "notice_destination" {
			t.Errorf("an entry is %v", e)
		}
	}
	// The confirmation was followed twice, and did something once.
	if got := strings.Join(actions,
		" "); got != "unsubscribe-notice-destination unsubscribe-notice-destination confirm-notice-destination create-notice-destination" {
		t.Errorf("the audit log has %s", got)
	}
}
