package api_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// newArchived returns an API whose archive has an event of a tenant that the store no longer has,
// and the folder of the archive.
func newArchived(t *testing.T) (w *world, acme tenant, folder string) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keyring, err := secrets.NewKeyring(rand.Reader)
	ok(err)
	folder = filepath.Join(t.TempDir(), "archive")
	ok(os.Mkdir(folder, 0o700))
	over := memory.New(memory.Options{})
	roles := archive.Store{Archive: over, ArchiveKeys: over, Restored: over, Time: over, Progress: over}
	a := archive.New(archive.Folder(folder), roles, secrets.New(keyring), archive.Options{})
	w = newWorldWith(t, over, a, api.Options{})
	acme = w.tenant("acme")
	w.want(200, "POST /deliveries/"+acme.delivery+"/cancel", "")
	later := time.Now().Add(48 * time.Hour)
	for _, kind := range []store.Kind{store.OldBodies, store.OldAttempts, store.OldEvents} {
		for more := true; more; {
			more, err = a.Archive(t.Context(), kind, later)
			ok(err)
		}
		_, err = over.DeleteOld(t.Context(), store.DeleteOld{Kind: kind, Before: later, Limit: 100, Archived: true})
		ok(err)
	}
	w.want(404, "GET /events/"+acme.event, "")
	return w, acme, folder
}

func TestTheArchiveIsListedSearchedAndRestored(t *testing.T) {
	t.Parallel()
	w, acme, _ := newArchived(t)
	parts := w.want(200, "GET /archive/parts?kind=events", "").data()
	if len(parts) != 1 || parts[0]["rows"] != 1.0 || parts[0]["rows_deleted"] != 1.0 || parts[0]["verification"] != nil {
		t.Fatalf("the parts are %v", parts)
	}
	first := w.want(200, "GET /archive/parts?limit=1", "")
	if next, ok := first.body["next_cursor"].(string); !ok || len(w.want(200, "GET /archive/parts?cursor="+next, "").data()) != 1 {
		t.Errorf("the first page is %s, want a part of attempts and a cursor", first.text)
	}
	if got := w.want(200, "GET /archive/parts/"+parts[0]["id"].(string), ""); !strings.Contains(got.text, `"whole":true`) {
		t.Errorf("the verified part is %s", got.text)
	}
	found := w.want(200, "GET /archive/records?account=acme&event_type=order.created&event="+acme.event, "")
	records := found.data()
	if len(records) != 2 || records[1]["id"] != acme.event || records[1]["restored_at"] != nil || found.body["next_cursor"] != nil {
		t.Fatalf("found are %s, want a decision without a request, and the event", found.text)
	}
	if record := records[1]["record"].(map[string]any); record["type"] != "order.created" || record["data"] == "" {
		t.Errorf("the record is %v", record)
	}
	step := w.want(200, "GET /archive/records?limit=1", "")
	if rest := w.want(200, "GET /archive/records?cursor="+step.body["next_cursor"].(string), ""); len(rest.data()) != 1 {
		t.Errorf("the second step has %s", rest.text)
	}
	if none := w.want(200, "GET /archive/records?to=2020-01-01", ""); len(none.data()) != 0 || none.body["data"] == nil {
		t.Errorf("before 2020 there are %s", none.text)
	}
	for range 2 {
		if did := w.want(200, "POST /archive/restores", `{"event": "`+acme.event+`"}`); did.body["records"] != 2.0 ||
			did.body["next_cursor"] != nil {
			t.Errorf("restored are %s", did.text)
		}
	}
	restored := w.want(200, "GET /archive/restored?account=acme&event="+acme.event, "").data()
	if len(restored) != 2 || restored[1]["restored_at"] == nil {
		t.Errorf("the restored records are %v", restored)
	}
	w.want(404, "GET /events/"+acme.event, "") // to look at only
}

func TestTheArchiveIsForOperators(t *testing.T) {
	t.Parallel()
	w, acme, _ := newArchived(t)
	operator := w.key(postrider.APIKey{Name: "operator", Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	for _, route := range []string{"GET /archive/parts", "GET /archive/records", "GET /archive/restored", "POST /archive/restores"} {
		for _, key := range []string{w.bound(acme), operator} {
			if got := w.do(key, route, `{}`); got.status != 403 {
				t.Errorf("%s without the rights of an admin = %d", route, got.status)
			}
		}
	}
}

func TestTheArchiveRefusesWhatNamesNothing(t *testing.T) {
	t.Parallel()
	w, _, _ := newArchived(t)
	for _, path := range []string{
		"parts?cursor=x", "parts?from=yesterday", "parts?kind=all", "records?event=evt_1", "records?cursor=x", "records?account=nobody",
		"restored?endpoint=x",
	} {
		w.want(422, "GET /archive/"+path, "")
	}
	w.want(422, "POST /archive/restores", `{"from": "yesterday"}`)
	for _, part := range []string{"x", "events-2026-11-23", "events-2026-11-23-0", "events-2020-01-01-1", "notices-2026-11-23-1"} {
		w.want(404, "GET /archive/parts/"+part, "")
	}
	without := newWorld(t)
	for _, route := range []string{"GET /archive/parts", "GET /archive/parts/events-2026-11-23-1", "GET /archive/records"} {
		if got := without.want(409, route, ""); got.body["code"] != "no_archive" {
			t.Errorf("%s without an archive: %s", route, got.text)
		}
	}
	without.want(409, "POST /archive/restores", `{}`)
	without.want(200, "GET /archive/restored", "")
}

func TestAnArchiveThatIsDamagedOrAway(t *testing.T) {
	t.Parallel()
	w, acme, folder := newArchived(t)
	part := w.want(200, "GET /archive/parts?kind=events", "").data()[0]
	object := filepath.Join(folder, part["object"].(string))
	if err := os.Truncate(object, 10); err != nil {
		t.Fatal(err)
	}
	if got := w.want(200, "GET /archive/parts/"+part["id"].(string), ""); !strings.Contains(got.text, `"whole":false`) ||
		!strings.Contains(got.text, "10 bytes") {
		t.Errorf("the damaged part is %s", got.text)
	}
	damaged := func(route, body string) {
		t.Helper()
		if got := w.want(409, route, body); got.body["code"] != "archive_damaged" || !strings.Contains(got.text, part["object"].(string)) {
			t.Errorf("%s with a damaged part: %s", route, got.text)
		}
	}
	damaged("GET /archive/records", "")
	damaged("POST /archive/restores", `{}`)
	damaged("POST /expunges", `{"event": "`+acme.event+`"}`)
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	for route, body := range map[string]string{
		"GET /archive/parts/" + part["id"].(string): "", "GET /archive/records": "", "POST /archive/restores": `{}`,
		"POST /expunges": `{"event": "` + acme.event + `"}`,
	} {
		if got := w.want(503, route, body); got.body["code"] != "archive_unavailable" || strings.Contains(got.text, folder) {
			t.Errorf("%s while the archive is away: %s", route, got.text)
		}
	}
}

func TestAnEventThatOnlyTheArchiveHasIsExpunged(t *testing.T) {
	t.Parallel()
	w, acme, _ := newArchived(t)
	if got := w.want(202, "POST /expunges", `{"event": "`+acme.event+`"}`); got.body["account"] != acme.account ||
		got.body["event"] != acme.event {
		t.Errorf("the expunge is %s", got.text)
	}
	w.want(422, "POST /expunges", `{"event": "evt_01h455vb4pex5vsknk084sn02q"}`)
}
