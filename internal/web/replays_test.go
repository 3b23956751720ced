package web_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// replayStates are the states of the pages of replays.
var replayStates = []state{
	{name: "no replays", path: "/replays", people: "operator customer viewer", want: []string{"No replays yet"}},
	{name: "replays", path: "/replays", people: "operator customer viewer", prepare: (*world).hostileReplay, want: []string{"Running"}},
	{
		name: "replay", path: "/replays/{replay}", people: "operator customer viewer", prepare: (*world).hostileReplay,
		want: []string{"0 of 1 so far."},
	},
	{
		name: "new replay of nothing", path: "/replays/new?statuses=dead", people: "operator customer viewer",
		want: []string{"Nothing is selected."},
	},
	{name: "new replay, first look", path: "/replays/new", people: "operator customer viewer", want: []string{"Choose what"}},
	{
		name: "new replay of what may be deleted", path: "/replays/new?statuses=delivered&from=2001-01-01T00:00", people: "operator",
		want: []string{"may be deleted. It is then not selected", "Look in the archive"},
	},
	{
		name: "new replay", path: "/replays/new?reason=gone", people: "operator customer", prepare: (*world).hostileDeath,
		want: []string{"delivery is selected", "Start the replay"},
	},
	{
		name: "new discard", path: "/replays/new?action=discard", people: "operator customer", prepare: (*world).hostileDeath,
		want: []string{"Discard them"},
	},
	{
		name: "new replay that is hostile", path: "/replays/new?event=&note=" + url.QueryEscape(hostile), people: "operator customer",
		prepare: (*world).hostileDeath, want: []string{"Start the replay"},
	},
}

// hostileReplay is hostileDeath with a replay of what died.
func (w *world) hostileReplay(path string) string {
	w.Helper()
	path = w.hostileDeath(path)
	r, err := w.admin.CreateReplay(w.Context(), apitypes.ReplayCreate{Account: "acme", Note: hostile})
	if err != nil {
		w.Fatal(err)
	}
	return strings.ReplaceAll(path, "{replay}", r.ID.String())
}

// auditStates are the states of the pages of sessions and of the audit log.
var auditStates = []state{
	{name: "audit log", path: "/audit", people: "operator", prepare: (*world).hostileKey, want: []string{"create-account", "create-api-key"}},
	{name: "filtered audit log", path: "/audit?action=x", people: "operator", want: []string{"Nothing matches"}},
	{name: "no sessions", path: "/sessions", people: "operator", want: []string{"No sessions"}},
	{
		name: "sessions", path: "/sessions?ended=true", people: "operator", prepare: (*world).hostileSessions,
		want: []string{"Active", "Link not opened", "Revoked"},
	},
}

// noticeStates are the states of the page of notices.
var noticeStates = []state{
	{name: "no notices", path: "/notices", people: "operator customer viewer", want: []string{"No notices"}},
	{
		name: "notices", path: "/notices", people: "operator customer viewer", prepare: (*world).hostileNotices,
		want: []string{"An endpoint was disabled", "it responded 410 Gone", "An endpoint will soon be disabled", "new.kind"},
	},
	{
		name: "notices of operators", path: "/notices", people: "operator", prepare: (*world).hostileNotices,
		want: []string{
			"A chore of the server keeps failing", "A limit of an account is used up", "Bytes a day", "/dashboard/accounts/acc_",
			"The disk of the store is nearly full",
		},
	},
	{
		name: "filtered notices", path: "/notices?kind=endpoint.failing", people: "operator customer", prepare: (*world).hostileNotices,
		want: []string{"Nothing matches"},
	},
}

// hostileNotices stores notices, one of them of a kind that this version does not know.
func (w *world) hostileNotices(path string) string {
	w.Helper()
	endpoint := w.fill("{endpoint}", w.endpoint(apitypes.EndpointCreate{URL: "https://acme.example/hooks", EventTypes: []string{"*"}}),
		w.publish("order.created", `{}`))
	var notices []postrider.Notice
	for i, n := range []postrider.Notice{
		{Account: w.account.ID, Kind: postrider.NoticeDisabled, Object: endpoint, Details: map[string]string{"reason": "gone"}},
		{
			Account: w.account.ID, Kind: postrider.NoticeDisabling, Object: endpoint,
			Details: map[string]string{"disabled_at": "2026-11-23T09:00:00Z", "reason": "failing"},
		},
		{Account: w.account.ID, Kind: "new.kind", Object: hostile, Details: map[string]string{hostile: hostile}},
		{Kind: postrider.NoticeChore, Object: "forget events", Details: map[string]string{"error": hostile}},
		{
			Account: w.account.ID, Kind: postrider.NoticeQuota, Object: w.account.ID.String(),
			Details: map[string]string{"quota": "bytes_per_day", "limit": "5", "ends_at": "2026-11-24T00:00:00Z"},
		},
		{Kind: postrider.NoticeDiskFull, Object: hostile, Details: map[string]string{"used_percent": "96.0"}},
	} {
		n.ID = postrider.MakeID[postrider.NoticeID](w.store.Clock().Wall(), [10]byte{byte(i)})
		notices = append(notices, n)
	}
	if _, err := w.store.PutNotices(w.Context(), notices); err != nil {
		w.Fatal(err)
	}
	return path
}

// tailStates are the states of the page of the live tail.
var tailStates = []state{
	{
		name: "live tail without streams", path: "/tail", people: "operator customer viewer",
		want: []string{"This server has no live tail.", "Waiting for the next attempt"},
	},
	{
		name: "filtered live tail", path: "/tail?status=dead&outcome=gone&event_type=order.*", people: "operator customer",
		want: []string{"Clear"},
	},
}

// hostileSessions stores a session in each state.
func (w *world) hostileSessions(path string) string {
	w.Helper()
	now := w.store.Clock().Wall()
	for i, s := range []postrider.Session{
		{Kind: postrider.SessionOperator, Hash: [32]byte{1}},
		{Kind: postrider.SessionPortal, Account: w.account.ID, Code: [32]byte{2}, CodeExpiresAt: now.Add(time.Minute)},
		{Kind: postrider.SessionOperator, Hash: [32]byte{3}},
	} {
		s.ID, s.Name, s.Subject = store.NewID[postrider.SessionID](w.ids), hostile, hostile
		s.Scopes, s.CreatedAt, s.ExpiresAt = []postrider.Scope{postrider.ScopeAdmin}, now, now.Add(time.Hour)
		if err := w.store.PutSession(w.Context(), s); err != nil {
			w.Fatal(err)
		}
		if i == 2 {
			if err := w.admin.RevokeSession(w.Context(), s.ID); err != nil {
				w.Fatal(err)
			}
		}
	}
	return path
}

func TestASessionIsRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.hostileSessions("")
	listed, err := w.admin.Sessions(t.Context(), client.SessionFilter{Kind: postrider.SessionOperator})
	if err != nil || len(listed.Data) != 1 {
		t.Fatalf("sessions = %v, %v", listed.Data, err)
	}
	path := "/dashboard/sessions/" + listed.Data[0].ID.String() + "/revoke"
	says(t, w.submit("operator", path, nil), "The session is revoked.", "Link not opened")
	if got := w.as("viewer", "POST "+path, nil); got.status != http.StatusForbidden {
		t.Errorf("a viewer who revokes = %d", got.status)
	}
	if got := w.as("operator", "POST /dashboard/sessions/ses_01h455vb4pex5vsknk084sn02q/revoke", nil); got.status != http.StatusNotFound {
		t.Errorf("an unknown session = %d", got.status)
	}
}

func TestDeadLettersAreReplayedInBulk(t *testing.T) {
	t.Parallel()
	for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		w := newWorld(t, web.Options{})
		e, _ := w.dead()
		link := base + "/replays/new?endpoint=" + e.ID.String() + "&amp;reason=gone"
		says(t, w.see(person, base+"/dead-letters"), link)
		says(t, w.see(person, strings.ReplaceAll(link, "&amp;", "&")), "delivery is selected", `value="`+e.ID.String()+`"`)
		form := url.Values{"endpoint": {e.ID.String()}, "reason": {"gone"}, "statuses": {"dead"}, "per_second": {"50"}, "note": {"mended"}}
		made := w.as(person, "POST "+base+"/replays", form)
		path := made.header.Get("Location")
		if made.status != http.StatusSeeOther || !strings.HasPrefix(path, base+"/replays/rpl_") {
			t.Fatalf("the form = %d to %s\n%s", made.status, path, made.html)
		}
		says(t, w.see(person, path), "Running", "0 of 1 so far.", "mended")
		says(t, w.submit(person, path+"/pause", nil), "The replay is paused.", "Paused")
		says(t, w.submit(person, path+"/resume", nil), "The replay goes on.")
		says(t, w.submit(person, path+"/cancel", nil), "The replay is cancelled.")
		says(t, w.submit(person, path+"/pause", nil), "Nothing was done.")
		says(t, w.see(person, base+"/deliveries?replay_job="+path[strings.LastIndex(path, "/")+1:]), "Nothing matches")
	}
}

func TestTheRangeThatWasCountedIsReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e, _ := w.dead()
	counted := w.see("operator", "/dashboard/replays/new?endpoint="+e.ID.String())
	until := regexp.MustCompile(`name="until" value="([^"]+)"`).FindStringSubmatch(counted.html)
	says(t, counted, "delivery is selected")
	if until == nil {
		t.Fatal("the page does not fix the end of the range that it counted")
	}
	w.publish("order.created", `{}`)
	w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	form := url.Values{"endpoint": {e.ID.String()}, "statuses": {"dead"}, "per_second": {"50"}, "until": {html.UnescapeString(until[1])}}
	says(t, w.see("operator", w.as("operator", "POST /dashboard/replays", form).header.Get("Location")), "0 of 1 so far.")
	form.Del("until")
	says(t, w.see("operator", w.as("operator", "POST /dashboard/replays", form).header.Get("Location")), "0 of 2 so far.")
}

func TestAReplayThatIsRefusedKeepsTheForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.dead()
	for _, tt := range []struct {
		text string
		form url.Values
	}{
		{"whole number", url.Values{"per_second": {"fast"}, "note": {"keep me"}}},
		{"1 or more", url.Values{"per_second": {"0"}}},
		{"Enter a time.", url.Values{"from": {"x"}}},
		{"There is no endpoint with this id.", url.Values{"endpoint": {"ep_x"}}},
		{"There is no account with this id or uid.", url.Values{"account": {"nobody"}}},
		{
			`name="per_second" inputmode="numeric" value="100000" required aria-invalid="true" aria-describedby="fault-per_second" autofocus`,
			url.Values{"per_second": {"100000"}},
		},
	} {
		got := w.as("operator", "POST /dashboard/replays", tt.form)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, tt.text) {
			t.Errorf("the form %v = %d, want %q\n%s", tt.form, got.status, tt.text, got.html)
		}
		checkHTML(t, got)
	}
	if got := w.as("viewer", "POST /dashboard/replays", url.Values{"statuses": {"dead"}}); got.status != http.StatusForbidden {
		t.Errorf("a viewer's replay = %d", got.status)
	}
	if list, err := w.admin.Replays(t.Context(), client.ReplayFilter{}); err != nil || len(list.Data) != 0 {
		t.Errorf("there are replays %v, %v", list.Data, err)
	}
}

// TestAnEventWhoseDataIsDeletedSaysSo: it offers no replay, and those who may read the archive a
// way to it.
func TestAnEventWhoseDataIsDeletedSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{URL: "https://acme.example/hooks", EventTypes: []string{"*"}})
	event := w.publish("order.created", `{}`).ID
	w.settle(e.ID, postrider.Attempt{StatusCode: 200}, postrider.DefaultPolicy())
	old := store.DeleteOld{Kind: store.OldEvents, Before: time.Now().Add(time.Hour), Limit: 10}
	if n, err := w.store.DeleteOld(t.Context(), old); n != 1 || err != nil {
		t.Fatalf("deleted %d events (%v), want the delivered one", n, err)
	}
	for person, path := range map[string]string{"operator": "/dashboard", "viewer": "/dashboard", "customer": "/portal"} {
		got := w.as(person, "GET "+path+"/events/"+event.String(), nil)
		says(t, got, "The data of this event is deleted, so it cannot be replayed.")
		if link := strings.Contains(got.html, "/dashboard/archive/records"); link != (person == "operator") {
			t.Errorf("the page of the %s leads to the archive: %v", person, link)
		}
		if strings.Contains(got.html, "Replay to all endpoints") {
			t.Errorf("the page of the %s offers a replay", person)
		}
	}
}
