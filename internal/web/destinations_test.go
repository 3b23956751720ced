package web_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// destinationStates are the states of the pages of where notices are sent.
var destinationStates = []state{
	{name: "no destinations", path: "/notice-destinations", people: "operator customer viewer", want: []string{"Notices are sent nowhere yet", "sends no emails"}},
	{name: "destinations", path: "/notice-destinations", people: "operator customer viewer", prepare: (*world).hostileDestination, want: []string{"Waits for confirmation", "An endpoint was disabled"}},
	{name: "filtered destinations", path: "/notice-destinations?account=acme&operator=true", people: "operator viewer", prepare: (*world).hostileDestination, want: []string{"Nothing matches"}},
	{name: "destinations of no account", path: "/notice-destinations/new?account=%22%3E%3Cscript%3E", people: "operator customer", want: []string{"Add a notice destination"}},
	{name: "a destination", path: "/notice-destinations/{destination}", people: "operator customer viewer", prepare: (*world).hostileDestination, want: []string{"Its reader must open the link", "An endpoint was disabled"}},
}

// hostileDestination stores an email address that is hostile.
func (w *world) hostileDestination(path string) string {
	w.Helper()
	id, _ := w.linked(postrider.DestinationLink{Action: postrider.LinkConfirm})
	kinds := []postrider.NoticeKind{postrider.NoticeDisabled}
	if _, err := w.store.ChangeDestination(w.Context(), store.ChangeDestination{ID: id, Kinds: &kinds}); err != nil {
		w.Fatal(err)
	}
	return strings.ReplaceAll(path, "{destination}", id.String())
}

// newMailWorld returns a world whose server sends emails.
func newMailWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, web.Options{Emails: true}, api.Options{Mail: true, PublicURL: "https://hooks.example"})
}

// newest returns the destination that was added last.
func (w *world) newest() postrider.Destination {
	w.Helper()
	found, err := w.store.Destinations(w.Context(), store.DestinationQuery{})
	if err != nil || len(found.Items) == 0 {
		w.Fatalf("the destinations are %+v, %v", found.Items, err)
	}
	return found.Items[0]
}

// TestAPersonSaysWhereNoticesAreSent adds an email address, changes it, has its reader confirm,
// tests and deletes it: as an operator for the operator, and as a customer for their account.
func TestAPersonSaysWhereNoticesAreSent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ person, base string }{{"operator", "/dashboard"}, {"customer", "/portal"}} {
		w := newMailWorld(t)
		path := tt.base + "/notice-destinations"
		w.see(tt.person, path).lacks(t, "sends no emails")
		w.see(tt.person, path+"/new").says(t, `value="email" checked`, `name="all" value="yes" checked`)
		email := url.Values{"channel": {"email"}, "address": {"ann@acme.example"}, "language": {"de"}, "all": {"no"}, "kind": {"endpoint.disabled"}}
		w.submit(tt.person, path, email).says(t, "A message with a link goes to ann@acme.example", "Waits for confirmation", "The message with the link is on its way",
			`value="endpoint.disabled" checked`, `<option value="de" selected>`)
		d := w.newest()
		if d.Account.IsZero() != (tt.person == "operator") || d.Ask != postrider.AskConfirmation || len(d.Kinds) != 1 || d.Language != "de" {
			t.Errorf("the %s made %+v", tt.person, d)
		}
		one := path + "/" + d.ID.String()
		w.submit(tt.person, one, url.Values{"language": {"en"}, "all": {"yes"}}).says(t, "The settings are saved", `name="all" value="yes" checked`)
		if d := w.newest(); d.Language != "en" || d.Kinds != nil {
			t.Errorf("after the change it is %+v", d)
		}
		w.submit(tt.person, one+"/test", nil).says(t, "not confirmed yet").says(t, `role="alert"`)
		w.submit(tt.person, one+"/confirmation", nil).says(t, "The message with the link is on its way")
		if _, err := w.store.ChangeDestination(t.Context(), store.ChangeDestination{ID: d.ID, Confirm: true}); err != nil {
			t.Fatal(err)
		}
		w.submit(tt.person, one+"/test", nil).says(t, "A test message is on its way", "Works").lacks(t, "Ask for confirmation again")
		w.see(tt.person, path).says(t, "ann@acme.example", "Works", "All kinds")
		w.submit(tt.person, one+"/delete", nil).says(t, "The destination is deleted", "Notices are sent nowhere yet")
		if got := w.as(tt.person, "GET "+one, nil); got.status != http.StatusNotFound {
			t.Errorf("a destination that is gone = %d", got.status)
		}
	}
}

// TestAFormOfADestinationIsRefused sends forms with a fault each, and looks for it and for what
// was typed.
func TestAFormOfADestinationIsRefused(t *testing.T) {
	t.Parallel()
	w := newMailWorld(t)
	good := func(change url.Values) url.Values {
		form := url.Values{"channel": {"slack"}, "address": {"https://hooks.example/services/T0/B0/secretsecret"}, "language": {"de"}, "all": {"yes"}}
		maps.Copy(form, change)
		return form
	}
	for name, tt := range map[string]struct {
		person string
		change url.Values
		says   []string
	}{
		"an address":   {"customer", url.Values{"channel": {"email"}, "address": {"ann"}}, []string{`id="fault-address"`, "Enter an email address like", `value="ann"`}},
		"no address":   {"customer", url.Values{"address": {""}}, []string{`id="fault-address"`, "Fill in this field"}},
		"an account":   {"operator", url.Values{"account": {"nobody"}}, []string{`id="fault-account"`, `value="nobody"`}},
		"a language":   {"customer", url.Values{"language": {"fr"}}, []string{`id="fault-language"`}},
		"a channel":    {"customer", url.Values{"channel": {"fax"}}, []string{`id="fault-channel"`}},
		"a kind":       {"customer", url.Values{"all": {"no"}, "kind": {"endpoint.sold"}}, []string{"Kinds of notices"}},
		"not one kind": {"customer", url.Values{"all": {"no"}}, []string{`id="fault-kinds"`, "Choose at least one kind", `name="all" value="no" checked`}},
	} {
		base := map[string]string{"operator": "/dashboard", "customer": "/portal"}[tt.person]
		got := w.as(tt.person, "POST "+base+"/notice-destinations", good(tt.change))
		if got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s = %d", name, got.status)
		}
		got.says(t, tt.says...)
		checkHTML(t, got)
	}
	w.submit("customer", "/portal/notice-destinations", good(nil)).says(t, "gets notices from now on", "https://hooks.example/…cret").lacks(t, "services", "Ask for confirmation again")
	w.as("customer", "POST /portal/notice-destinations", good(nil)).says(t, "This address is there already")
	one := "/portal/notice-destinations/" + w.newest().ID.String()
	if got := w.as("customer", "POST "+one, url.Values{"language": {"en"}, "all": {"no"}}); got.status != http.StatusUnprocessableEntity || w.newest().Language != "de" {
		t.Errorf("a change to no kind = %d, %+v", got.status, w.newest())
	}
	if got := w.as("customer", "POST "+one, url.Values{"language": {"fr"}, "all": {"yes"}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a change to an unknown language = %d", got.status)
	}
}

// settleMessage records what became of a test message to the destination.
func (w *world) settleMessage(id postrider.DestinationID, fault string, refused bool) {
	w.Helper()
	if _, err := w.store.ChangeDestination(w.Context(), store.ChangeDestination{ID: id, Ask: postrider.AskTest}); err != nil {
		w.Fatal(err)
	}
	_, err := w.store.ClaimDestinations(w.Context(), store.ClaimDestinations{Channel: postrider.ChannelEmail, Max: 100, Token: 7, Lease: time.Nanosecond})
	if err != nil {
		w.Fatal(err)
	}
	s := store.SettleDestination{ID: id, Token: 7, Ask: postrider.AskTest, Sent: fault == "", Error: fault, Refused: refused}
	if err := w.store.SettleDestination(w.Context(), s); err != nil {
		w.Fatal(err)
	}
}

// TestTheStateOfADestinationIsSaid brings a destination into each state, and looks for its
// words on both pages.
func TestTheStateOfADestinationIsSaid(t *testing.T) {
	t.Parallel()
	confirm := store.ChangeDestination{Confirm: true}
	all, one := store.ChangeDestination{Unsubscribe: postrider.AllKinds}, store.ChangeDestination{Unsubscribe: postrider.NoticeReplay}
	for name, tt := range map[string]struct {
		changes []store.ChangeDestination
		fault   string // of the last message; empty: there was none
		refused bool
		list    []string
		page    []string
		buttons []string
		german  string
	}{
		"waiting": {nil, "", false, []string{"Waits for confirmation"}, []string{"must open the link"}, []string{"confirmation", "delete"}, "Wartet auf Bestätigung"},
		"waiting, not sent": {
			nil, "mail_server: dial tcp 10.0.0.5:587: connection refused", false,
			[]string{"Waits for confirmation", "Failing", "The mail server cannot be used"},
			[]string{"is sent again", "must open the link"},
			[]string{"confirmation", "delete"},
			"Der Mailserver ist nicht benutzbar",
		},
		"active":  {[]store.ChangeDestination{confirm}, "", false, []string{"Works"}, []string{"The destination gets notices. No message was sent yet."}, []string{"test", "delete"}, "Funktioniert"},
		"failing": {[]store.ChangeDestination{confirm}, "mail_rejected: 452 4.2.2: sending SMTP RCPT TO command", false, []string{"Failing", "The mail server did not take the message (452 4.2.2"}, []string{"is sent again", "Failed messages in a row"}, []string{"test", "delete"}, "Schlägt fehl"},
		"refused": {[]store.ChangeDestination{confirm}, "address_refused: 550 5.1.1", true, []string{"Refused", "refused the address for good (550 5.1.1)"}, []string{"gets nothing until somebody asks"}, []string{"test", "confirmation", "delete"}, "Abgelehnt"},
		"unsubscribed": {
			[]store.ChangeDestination{confirm, all},
			"", false,
			[]string{"Unsubscribed: All kinds"},
			[]string{"Its reader wants no messages"},
			[]string{"confirmation", "delete"},
			"Abbestellt: Alle Arten",
		},
		"unsubscribed from a kind": {
			[]store.ChangeDestination{confirm, one},
			"", false,
			[]string{"Works", "Unsubscribed: A replay has finished"},
			[]string{"<dt>Unsubscribed</dt><dd>A replay has finished</dd>"},
			[]string{"test", "confirmation", "delete"},
			"Abbestellt: Eine Neuzustellung",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newMailWorld(t)
			id, _ := w.linked(postrider.DestinationLink{Action: postrider.LinkConfirm})
			for _, c := range tt.changes {
				c.ID = id
				if _, err := w.store.ChangeDestination(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			if tt.fault != "" {
				w.settleMessage(id, tt.fault, tt.refused)
			}
			for _, base := range []string{"operator /dashboard", "customer /portal"} {
				person, base, _ := strings.Cut(base, " ")
				w.see(person, base+"/notice-destinations").says(t, tt.list...)
				got := w.see(person, base+"/notice-destinations/"+id.String())
				got.says(t, tt.page...)
				checkHTML(t, got)
				for _, act := range []string{"test", "confirmation", "delete"} {
					want := strings.Contains(strings.Join(tt.buttons, " "), act)
					if strings.Contains(got.html, id.String()+"/"+act+`"`) != want {
						t.Errorf("%s has the button %s: %t, want %t", base, act, !want, want)
					}
				}
				w.as(person, "GET "+base+"/notice-destinations", nil, german).says(t, tt.german)
			}
			if strings.Contains(w.see("customer", "/portal/notice-destinations").html, "10.0.0.5") {
				t.Error("the portal shows an address of the platform's network")
			}
		})
	}
}

// TestWhoMayOnlyLookChangesNoDestination opens the pages, and sends the forms, of those who may
// not change the destination: viewers, customers of a session without the capability edit, and
// for the operator's destination all but admins.
func TestWhoMayOnlyLookChangesNoDestination(t *testing.T) {
	t.Parallel()
	w := newMailWorld(t)
	w.sessions.add("looker", postrider.Caller{Name: "Lore", Account: w.account.ID, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	w.sessions.add("supporter", postrider.Caller{Name: "Sam", Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	own, _ := w.linked(postrider.DestinationLink{Action: postrider.LinkConfirm})
	w.submit("operator", "/dashboard/notice-destinations", url.Values{"channel": {"email"}, "address": {"ops@acme.example"}, "language": {"en"}, "all": {"yes"}})
	operators := w.newest().ID
	form := url.Values{"channel": {"email"}, "address": {"eve@evil.example"}, "language": {"de"}, "all": {"yes"}}
	for _, tt := range []struct {
		person, base string
		id           postrider.DestinationID
	}{{"viewer", "/dashboard", own}, {"viewer", "/dashboard", operators}, {"looker", "/portal", own}, {"supporter", "/dashboard", operators}} {
		one := tt.base + "/notice-destinations/" + tt.id.String()
		got := w.see(tt.person, one)
		got.says(t, "You may look at this, and not change it.")
		got.lacks(t, `action="`+one)
		if tt.person != "supporter" {
			w.see(tt.person, tt.base+"/notice-destinations").says(t, "You may look at this").lacks(t, "notice-destinations/new")
			if got := w.as(tt.person, "GET "+tt.base+"/notice-destinations/new", nil); got.status != http.StatusForbidden {
				t.Errorf("the form of %s = %d, want 403", tt.person, got.status)
			}
		}
		for _, path := range []string{tt.base + "/notice-destinations", one, one + "/test", one + "/confirmation", one + "/delete"} {
			if got := w.as(tt.person, "POST "+path, form); got.status != http.StatusForbidden {
				t.Errorf("POST %s by %s = %d, want 403", path, tt.person, got.status)
			}
		}
	}
	if d := w.stateOf(operators); d.Language != "en" {
		t.Errorf("the operator's destination is %+v", d)
	}
	// The customer does not see the operator's, and the supporter manages that of the account.
	w.see("customer", "/portal/notice-destinations").lacks(t, "ops@acme.example")
	for _, route := range []string{"GET ", "POST ", "POST /test", "POST /delete"} {
		method, act, _ := strings.Cut(route, " ")
		if got := w.as("customer", method+" /portal/notice-destinations/"+operators.String()+act, form); got.status != http.StatusNotFound {
			t.Errorf("%s%s of the operator's destination by a customer = %d, want 404", method, act, got.status)
		}
	}
	w.submit("supporter", "/dashboard/notice-destinations/"+own.String(), form).says(t, "The settings are saved")
}

// TestAServerWithoutMailSaysWhatIsMissing looks for the settings that emails need.
func TestAServerWithoutMailSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for _, path := range []string{"/notice-destinations", "/notice-destinations/new"} {
		w.see("operator", "/dashboard"+path).says(t, "--smtp-url", "--smtp-from", "--public-url", "docs/operate/mail.md")
		w.see("customer", "/portal"+path).says(t, "This server sends no emails.").lacks(t, "--smtp", "docs/operate")
	}
	w.see("customer", "/portal/notice-destinations/new").says(t, `value="slack" checked`).lacks(t, `value="email"`)
	email := url.Values{"channel": {"email"}, "address": {"ann@acme.example"}, "language": {"en"}, "all": {"yes"}}
	w.as("customer", "POST /portal/notice-destinations", email).says(t, "it has no mail server")
}

// TestEverySectionHasAKeyOfItsOwn reads the keys that open sections.
func TestEverySectionHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for person, path := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		sections := map[string]string{}
		for _, found := range regexp.MustCompile(`data-key="(.)" data-section="([a-z_]+)"`).FindAllStringSubmatch(w.see(person, path).html, -1) {
			if other := sections[found[1]]; other != "" {
				t.Errorf("the key %s opens %s and %s", found[1], other, found[2])
			}
			sections[found[1]] = found[2]
		}
		if sections["m"] != "destinations" || sections["n"] != "notices" {
			t.Errorf("the keys of the %s are %v", person, sections)
		}
	}
}
