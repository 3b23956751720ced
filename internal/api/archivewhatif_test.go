package api_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// slowArchive is a folder that takes a second for each read, or fails.
type slowArchive struct {
	archive.Target

	mu   sync.Mutex
	away error
}

func (s *slowArchive) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = err
}

// Read reads an object.
func (s *slowArchive) Read(ctx context.Context, name string) ([]byte, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return nil, s.away
	}
	return s.Target.Read(ctx, name)
}

// comparing is an API whose archive has the events of tenants.
type comparing struct {
	*world

	archive *archive.Archive
	target  *slowArchive
	folder  string
}

// newComparing returns an API with an archive that has nothing yet.
func newComparing(t *testing.T) *comparing {
	t.Helper()
	keyring, err := secrets.NewKeyring(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	over := memory.New(memory.Options{})
	c := &comparing{folder: t.TempDir()}
	c.target = &slowArchive{Target: archive.Folder(c.folder)}
	roles := archive.Store{Archive: over, ArchiveKeys: over, Restored: over, Time: over, Progress: over}
	c.archive = archive.New(c.target, roles, secrets.New(keyring), archive.Options{PartBytes: 1}) // a part for each event
	c.world = newWorldWith(t, over, c.archive, api.Options{})
	return c
}

// archived archives all events.
func (c *comparing) archived() {
	c.Helper()
	for more := true; more; {
		var err error
		if more, err = c.archive.Archive(c.Context(), store.OldEvents, time.Now().Add(48*time.Hour)); err != nil {
			c.Fatal(err)
		}
	}
}

// node runs the jobs until the function that it returns is called.
func (c *comparing) node() (stop func()) {
	handler, ok := c.handler.(*api.Handler)
	if !ok {
		c.Fatal("the handler is none of the API")
	}
	ctx, cancel := context.WithCancel(c.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := handler.CompareArchive(ctx); err != nil {
			c.Errorf("the comparer ends with %v", err)
		}
	})
	return func() { cancel(); running.Wait() }
}

func job(of tenant) string { return "/endpoints/" + of.endpoint + "/what-if/archive" }

// ended waits for the end of a job.
func (c *comparing) ended(of tenant) response {
	c.Helper()
	for range 1000 {
		if got := c.want(200, "GET "+job(of), ""); got.body["status"] != "running" {
			return got
		}
		time.Sleep(time.Second)
	}
	c.Fatal("the job does not end")
	return response{}
}

// result returns the numbers of a job's result.
func result(r response) string {
	body, _ := r.body["result"].(map[string]any)
	return counts(response{body: body})
}

// Two nodes work: the first stops in the middle. Each event is counted once, by the subscription that the
// endpoint had when the job began.
func TestArchivedEventsAreCompared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newComparing(t)
		acme := c.tenant("acme") // with an event of the type order.created
		c.tenant("other")
		for range 9 {
			c.published("order.paid", `{"total": 9}`)
		}
		c.published("order.paid", `{"total": 10}`)
		user := c.published("user.created", `{}`)
		c.want(202, "POST /endpoints/"+acme.endpoint+"/test", "")
		c.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": 1, "endpoints": ["`+acme.endpoint+`"]}`)
		c.archived()
		stop := c.node()
		begun := c.want(202, "POST "+job(acme),
			`{"event_types": ["order.paid", "user.*"], "filter": {"data": {"total": [{"numeric": ["<", 10]}]}}}`)
		has(t, "the new job", begun.body, map[string]any{"status": "running", "parts": 15.0, "parts_read": 0.0, "error": nil})
		time.Sleep(9 * time.Second)
		if got := c.want(200, "GET "+job(acme), ""); got.body["status"] != "running" || got.body["parts_read"] == 0.0 {
			t.Errorf("in the middle the job is %s", got.text)
		}
		stop()
		c.want(200, "PATCH /endpoints/"+acme.endpoint, `{"event_types": ["none"]}`)
		defer c.node()()
		got := c.ended(acme)
		if got.body["status"] != "done" || got.body["parts_read"] != 15.0 || got.body["error"] != nil || result(got) != "12 9 11 0 2 <nil>" {
			t.Fatalf("the job is %s", got.text)
		}
		body := got.body["result"].(map[string]any)
		if diff := cmp.Diff([]any{
			map[string]any{"reason": "filter", "path": "data.total", "condition": []any{map[string]any{"numeric": []any{"<", 10.0}}}, "events": 2.0},
			map[string]any{"reason": "type", "path": "", "events": 1.0},
		}, body["not_matched"]); diff != "" || body["against"] != "subscription" {
			t.Errorf("against %v, reasons (-want +got):\n%s", body["against"], diff)
		}
		examples := body["examples"].([]any)
		first, last := examples[0].(map[string]any), examples[len(examples)-1].(map[string]any)
		if len(examples) != 12 || first["event"] != user || last["event"] != acme.event {
			t.Errorf("the examples are %v", examples)
		}
		has(t, "the newest example", first, map[string]any{"matches": false, "delivered": false})
		has(t, "the oldest example", last, map[string]any{"matches": false, "delivered": true})
		entries := c.want(200, "GET /audit?action=compare-archive", "").data()
		if len(entries) != 1 || entries[0]["object_id"] != acme.endpoint || entries[0]["account"] != acme.account ||
			!strings.Contains(fmt.Sprint(entries[0]["details"]), "event_types, filter") {
			t.Errorf("audited are %v", entries)
		}
		const everything = `{"event_types": ["*"], "type": "order.paid", "to": "2120-01-01T00:00:00Z", "from": "2000-01-01T00:00:`
		for from, want := range map[string]string{`00Z"}`: "10 10 0 10 0 <nil>", `01Z"}`: "0 0 0 0 0 <nil>"} { // all are of the second 0
			if got := result(c.spanned(acme, everything+from)); got != want {
				t.Errorf("from %s: %s, want %s", from, got, want)
			}
		}
	})
}

// spanned runs a job, and returns its end.
func (c *comparing) spanned(of tenant, body string) response {
	c.Helper()
	c.want(202, "POST "+job(of), body)
	return c.ended(of)
}

func TestOneJobOfAnAccountComparesTheArchive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newComparing(t)
		acme, other := c.tenant("acme"), c.tenant("other")
		beside := acme
		beside.endpoint = c.want(201, "POST /endpoints", `{"account": "acme", "url": "https://acme.example/", "event_types": ["*"]}`).id("id")
		c.archived()
		c.want(404, "GET "+job(acme), "")
		c.want(404, "DELETE "+job(acme), "")
		c.want(202, "POST "+job(acme), "")
		got := c.want(409, "POST "+job(beside), "")
		if got.id("code") != "what_if_running" || !strings.Contains(got.id("detail"), acme.endpoint) {
			t.Errorf("a second job: %s", got.text)
		}
		c.want(404, "GET "+job(beside), "")
		c.want(404, "DELETE "+job(beside), "")
		c.want(202, "POST "+job(other), "")
		stop := c.node()
		time.Sleep(500 * time.Millisecond) // it reads a part
		c.want(204, "DELETE "+job(acme), "")
		c.want(404, "GET "+job(acme), "")
		c.want(202, "POST "+job(beside), `{"filter": null}`)
		if got := c.ended(other); result(got) != "1 1 1 0 0 <nil>" {
			t.Errorf("the job of another account: %s", got.text)
		}
		if got := c.ended(beside); result(got) != "1 1 1 0 0 <nil>" {
			t.Errorf("the next job: %s", got.text)
		}
		c.want(202, "POST "+job(acme), "") // replaces the one that has ended
		c.want(404, "GET "+job(beside), "")
		stop()
		if entries := c.want(200, "GET /audit?action=cancel-archive-comparison", "").data(); len(entries) != 1 {
			t.Errorf("audited are %v", entries)
		}
	})
}

func TestAJobEndsWithAnArchiveThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newComparing(t)
		acme := c.tenant("acme")
		c.archived()
		defer c.node()()
		c.target.fail(errors.New("no such host secret-bucket"))
		c.want(202, "POST "+job(acme), "")
		time.Sleep(5 * time.Minute)
		got := c.want(200, "GET "+job(acme), "")
		has(t, "the job", got.body, map[string]any{"status": "running"})
		if !strings.Contains(got.id("error"), "cannot be read now") || strings.Contains(got.text, "secret-bucket") {
			t.Errorf("while the archive is away: %s", got.text)
		}
		c.target.fail(nil)
		if got := c.ended(acme); got.body["status"] != "done" || got.body["error"] != nil || result(got) != "1 1 1 0 0 <nil>" {
			t.Errorf("after the archive is back: %s", got.text)
		}
		c.target.fail(errors.New("no such host secret-bucket"))
		if got := c.spanned(acme, ""); got.body["status"] != "failed" {
			t.Errorf("after the archive was away for long: %s", got.text)
		}
		c.target.fail(nil)
		part := c.want(200, "GET /archive/parts?kind=events", "").data()[0]
		if err := os.Truncate(filepath.Join(c.folder, part["object"].(string)), 10); err != nil {
			t.Fatal(err)
		}
		if got := c.spanned(acme, ""); got.body["status"] != "failed" || !strings.Contains(got.id("error"), part["object"].(string)) {
			t.Errorf("with a damaged part: %s", got.text)
		}
	})
}

// A caller that is bound to an account has no right to the archive, so it learns nothing of internal from
// the job of an operator, which may filter by it.
func TestBoundCallersCompareNoArchive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newComparing(t)
		acme := c.tenant("acme")
		c.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": 1, "internal": {"risk": "canary"}}`)
		c.archived()
		defer c.node()()
		got := c.spanned(acme, `{"filter": {"internal": {"risk": ["canary"]}}}`)
		if result(got) != "2 1 2 0 1 <nil>" || !strings.Contains(got.text, "internal.risk") {
			t.Errorf("the job of an operator: %s", got.text)
		}
		reads := c.key(postrider.APIKey{Name: "support", Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite, postrider.ScopeWebhooksRead}})
		account, err := postrider.ParseID[postrider.AccountID](acme.account)
		if err != nil {
			t.Fatal(err)
		}
		admin := c.key(postrider.APIKey{Account: account, Scopes: []postrider.Scope{postrider.ScopeAdmin}}) // the API makes no such key
		for _, key := range []string{c.bound(acme), c.reader(acme), admin, reads} {
			for _, method := range []string{"GET ", "POST ", "DELETE "} {
				if got := c.do(key, method+job(acme), ""); got.status != http.StatusForbidden || strings.Contains(got.text, "canary") {
					t.Errorf("%s by a caller without the right = %d %s", method, got.status, got.text)
				}
			}
		}
	})
}

func TestFaultsOfArchivedComparisons(t *testing.T) {
	t.Parallel()
	w, acme, _ := newArchived(t)
	got := w.want(422, "POST "+job(acme),
		`{"event_types": [], "filter": {"x": [1]}, "type": "a.*", "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}`)
	if diff := cmp.Diff([]string{"event_types", "filter.x", "type", "from"}, got.fields()); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	w.want(422, "POST "+job(acme), `{"last": 7}`)
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	w.want(404, "POST "+job(acme), "")
	without := newWorld(t)
	acme = without.tenant("acme")
	for _, method := range []string{"GET ", "POST ", "DELETE "} {
		if got := without.want(409, method+job(acme), ""); got.id("code") != "no_archive" {
			t.Errorf("%s without an archive: %s", method, got.text)
		}
	}
}
