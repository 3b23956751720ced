package archive_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

var kinds = []store.Kind{store.OldBodies, store.OldAttempts, store.OldEvents}

// world is a store with deliveries of two accounts, and its archive.
type world struct {
	*testing.T
	store.Store

	vault    *secrets.Vault
	ids      *store.IDs
	accounts [2]postrider.Endpoint // an endpoint of each account
	events   [2][]postrider.EventID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOver(t, memory.New(memory.Options{}))
}

// newWorldOver returns a world of a store that is empty.
func newWorldOver(t *testing.T, over store.Store) *world {
	t.Helper()
	keyring, err := secrets.NewKeyring(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Store: over, vault: secrets.New(keyring), ids: store.NewIDs(time.Now, nil)}
	for i := range w.accounts {
		account := postrider.Account{ID: store.NewID[postrider.AccountID](w.ids), Name: "Acme"}
		w.ok(w.PutAccount(t.Context(), account))
		w.accounts[i], err = w.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](w.ids), Account: account.ID, URL: "https://receiver.example/",
			Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
		}})
		w.ok(err)
	}
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// deliver publishes n events of an account. Each is delivered at the second attempt.
func (w *world) deliver(of, n int) {
	w.Helper()
	e := w.accounts[of]
	for i := range n {
		event := w.publish(e, fmt.Appendf(nil, `{ "n": %d, "text": "%s" }`, i, strings.Repeat("webhook ", 50)))
		w.attempt(e, postrider.LaneFirst, postrider.Transition{To: postrider.Pending, Step: 1})
		w.attempt(e, postrider.LaneRetry, postrider.Transition{To: postrider.Delivered})
		w.events[of] = append(w.events[of], event)
	}
}

func (w *world) publish(e postrider.Endpoint, data []byte) postrider.EventID {
	w.Helper()
	changes, err := w.Changes(w.Context(), 0, 10)
	w.ok(err)
	event := store.NewEvent{
		Event: postrider.Event{
			ID: store.NewID[postrider.EventID](w.ids), Account: e.Account, Type: "order.created", Data: data, About: w.about(e),
		},
		Deliveries: []store.NewDelivery{{
			ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: e.ID, Lane: postrider.LaneFirst,
			Expiry: time.Hour,
		}},
	}
	_, err = w.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{event}}})
	w.ok(err)
	return event.Event.ID
}

// about returns what events of the account say of themselves.
func (w *world) about(e postrider.Endpoint) postrider.About {
	if e.ID == w.accounts[1].ID {
		return postrider.About{ChangedPaths: []string{"$.n"}}
	}
	return postrider.About{
		Subject: "order/42", Channels: []string{"shop"}, Metadata: map[string]string{"a": "1"}, Internal: map[string]string{"b": "2"},
		Previous: []byte("{ }"),
	}
}

// attempt claims and settles a delivery.
func (w *world) attempt(e postrider.Endpoint, lane postrider.Lane, next postrider.Transition) {
	w.Helper()
	claims, err := w.Claim(w.Context(), store.Claim{Token: 1 << 40, Wants: []store.Want{{Endpoint: e.ID, Lane: lane, N: 1, Lease: time.Hour}}})
	w.ok(err)
	c := claims.Items[0]
	a := postrider.Attempt{
		Delivery: c.ID, Event: c.Event.ID, Endpoint: e.ID, Number: c.Attempt, Outcome: postrider.OutcomeRejected, StatusCode: 500,
		StartedAt: time.Now(),
		Duration:  3 * time.Millisecond, Timing: postrider.Timing{FirstByte: time.Millisecond}, StatusAfter: next.To,
		RequestHead: []byte("POST / HTTP/1.1"), ResponseHead: []byte("HTTP/1.1 500"), ResponseBody: []byte{0xff, 0x00},
	}
	if next.To == postrider.Delivered {
		a.Outcome, a.StatusCode, a.ResponseBody = postrider.OutcomeAccepted, 200, bytes.Repeat([]byte{0xff}, 300) // has a row of bodies
	}
	_, err = w.Settle(w.Context(), []store.Settlement{{Claimed: c, Attempt: a, Transition: next}})
	w.ok(err)
}

func (w *world) open(target archive.Target, opts archive.Options) *archive.Archive {
	return archive.New(target, of(w.Store), w.vault, opts)
}

// of returns the roles of a store.
func of(s store.Store) archive.Store {
	return archive.Store{Archive: s, ArchiveKeys: s, Restored: s, Time: s, Progress: s}
}

// later is a time at which today is over.
func later() time.Time { return time.Now().Add(48 * time.Hour) }

// all archives all that there is of a kind, however young, or returns the first error.
func all(ctx context.Context, a *archive.Archive, kind store.Kind) error {
	for {
		more, err := a.Archive(ctx, kind, later())
		if err != nil || !more {
			return err
		}
	}
}

func (w *world) archiveAll(a *archive.Archive) {
	w.Helper()
	for _, kind := range kinds {
		w.ok(all(w.Context(), a, kind))
	}
}

// forget deletes what is archived of a kind, and returns how much.
func (w *world) forget(kind store.Kind) (n int) {
	w.Helper()
	n, err := w.DeleteOld(w.Context(), store.DeleteOld{Kind: kind, Before: later(), Limit: 1000, Archived: true})
	w.ok(err)
	return n
}

func (w *world) parts() []store.ArchivePart {
	w.Helper()
	parts, err := w.ArchiveParts(w.Context(), store.ArchiveParts{Limit: 1000})
	w.ok(err)
	return parts
}

// record announces and records a part.
func (w *world) record(p store.ArchivePart) {
	w.Helper()
	announced := p
	announced.Rows, announced.Left, announced.Bytes = 0, 0, 0
	w.ok(w.PutArchivePart(w.Context(), announced))
	w.ok(w.PutArchivePart(w.Context(), p))
}

// bucket is a real S3-compatible server, in this process, with what stands before it.
func bucket(t *testing.T, front func(http.Handler) http.Handler) archive.Target {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("archive"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(front(gofakes3.New(backend).Server()))
	t.Cleanup(server.Close)
	s, err := archive.OpenS3(archive.Bucket{
		Name: "archive", Prefix: "production/eu", Endpoint: server.URL, Region: "eu-central-1", AccessKey: "key", SecretKey: "secret",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func plain(h http.Handler) http.Handler { return h }

// targets are both kinds of archive.
func targets(t *testing.T, run func(*testing.T, archive.Target)) {
	t.Run("folder", func(t *testing.T) { t.Parallel(); run(t, archive.Folder(t.TempDir())) })
	t.Run("s3", func(t *testing.T) { t.Parallel(); run(t, bucket(t, plain)) })
}

// search returns all records that a query selects, step by step.
func (w *world) search(a *archive.Archive, q archive.Query) (records []store.RestoredRecord, expunged int64) {
	w.Helper()
	for {
		found, err := a.Search(w.Context(), q)
		w.ok(err)
		records, expunged = append(records, found.Records...), expunged+found.Expunged
		if q.Cursor = found.Next; q.Cursor == "" {
			return records, expunged
		}
	}
}

func TestWhatIsArchivedIsFoundAfterItWasDeleted(t *testing.T) {
	t.Parallel()
	targets(t, func(t *testing.T, target archive.Target) {
		w := newWorld(t)
		w.deliver(0, 20)
		w.deliver(1, 5)
		event, err := w.Events(t.Context(), store.EventQuery{ID: w.events[0][7]})
		w.ok(err)
		a := w.open(target, archive.Options{PartBytes: 4 << 10})
		w.archiveAll(a)
		for _, kind := range kinds {
			if n := w.forget(kind); n != 25 {
				t.Errorf("%s: %d rows were deleted, want those of 25 deliveries", kind, n)
			}
		}
		parts := w.parts()
		if len(parts) < 10 {
			t.Errorf("there are %d parts, want many small ones", len(parts))
		}
		for _, p := range parts {
			if v, err := a.Verify(t.Context(), p); err != nil || v.Rows != p.Rows {
				t.Errorf("verify %s: %+v, %v, want %d rows", p.Object, v, err, p.Rows)
			}
		}
		records, _ := w.search(a, archive.Query{Event: w.events[0][7], Limit: 2})
		var got []string
		for _, r := range records {
			got = append(got, fmt.Sprint(r.Kind, " ", r.Number))
		}
		if diff := cmp.Diff([]string{"attempts 1", "attempts 2", "bodies 1", "bodies 2", "events 0"}, got); diff != "" {
			t.Errorf("the records of an event (-want +got):\n%s", diff)
		}
		data := fmt.Sprintf("%q", event.Items[0].Data)
		if text := string(records[4].Record); len(event.Items[0].Data) == 0 || !strings.Contains(text, `"data":"`) {
			t.Errorf("the event is %s, want its data %s", text, data)
		}
		of, _ := w.search(a, archive.Query{Account: w.accounts[1].Account, Limit: 3})
		if len(of) != 25 {
			t.Errorf("%d records of an account, want 5 events, 10 attempts, 10 bodies", len(of))
		}
		if none, _ := w.search(a, archive.Query{Account: w.accounts[1].Account, Event: w.events[0][0]}); len(none) != 0 {
			t.Errorf("another account's event: %d records", len(none))
		}
		endpoint, _ := w.search(a, archive.Query{Endpoint: w.accounts[0].ID, Type: "order.created"})
		if len(endpoint) != 80 {
			t.Errorf("%d records of an endpoint, want 40 attempts, 40 bodies", len(endpoint))
		}
	})
}

func TestRestoredRecordsAreListedAndNeverSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 3)
	a := w.open(archive.Folder(t.TempDir()), archive.Options{})
	w.archiveAll(a)
	for _, kind := range kinds {
		w.forget(kind)
	}
	for range 2 { // the second time changes nothing
		restored, err := a.Restore(t.Context(), archive.Query{Event: w.events[0][1]})
		w.ok(err)
		if len(restored.Records) != 5 || restored.Next != "" {
			t.Errorf("restored %d records, next %q, want all 5", len(restored.Records), restored.Next)
		}
	}
	page, err := w.RestoredRecords(t.Context(), store.RestoredQuery{Event: w.events[0][1]})
	w.ok(err)
	if len(page.Items) != 5 {
		t.Errorf("%d records are listed, want 5", len(page.Items))
	}
	due, err := w.Due(t.Context(), store.Due{Max: 10})
	w.ok(err)
	events, err := w.Events(t.Context(), store.EventQuery{ID: w.events[0][1]})
	w.ok(err)
	if len(due) != 0 || len(events.Items) != 0 {
		t.Errorf("%d lanes are due, and the event is listed %d times; want neither", len(due), len(events.Items))
	}
}

// front stands before a server and can be told to fail.
type front struct {
	mu   sync.Mutex
	with func(next http.Handler, w http.ResponseWriter, r *http.Request) // nil: it passes requests on
}

func (f *front) set(with func(http.Handler, http.ResponseWriter, *http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.with = with
}

func (f *front) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		with := f.with
		f.mu.Unlock()
		if with == nil {
			next.ServeHTTP(w, r)
			return
		}
		with(next, w, r)
	})
}

// change passes a request on and changes the body of a response to a read of an object.
func change(body func([]byte) []byte) func(http.Handler, http.ResponseWriter, *http.Request) {
	return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
			next.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		maps.Copy(w.Header(), recorded.Header())
		changed := body(recorded.Body.Bytes())
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(changed)
	}
}

func TestNothingIsDeletedWhileTheArchiveFails(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(http.Handler, http.ResponseWriter, *http.Request){
		"errors": func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		},
		"hangs": func(_ http.Handler, _ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"refuses writes": func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		},
		"cuts what it sends":    change(func(b []byte) []byte { return b[:len(b)/2] }),
		"changes what it keeps": change(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.deliver(0, 3)
			var f front
			a := w.open(bucket(t, f.wrap), archive.Options{PartTime: 500 * time.Millisecond})
			f.set(with)
			begun := time.Now()
			if err := all(t.Context(), a, store.OldEvents); err == nil {
				t.Error("there was no error")
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %s, want about 500 ms at most", took)
			}
			if n := w.forget(store.OldEvents); n != 0 || len(w.parts()) != 0 {
				t.Errorf("%d events were deleted, and %d parts recorded", n, len(w.parts()))
			}
			f.set(nil)
			testkit.Eventually(t, "the archive works again", func() bool { return all(t.Context(), a, store.OldEvents) == nil })
			if n := w.forget(store.OldEvents); n != 3 {
				t.Errorf("%d events were deleted afterwards, want 3", n)
			}
		})
	}
}

// forgetful is a store that fails to record a part, as if the node had died after it had written it.
type forgetful struct {
	store.Store

	fails int
}

var errDied = errors.New("the node died")

func (f *forgetful) PutArchivePart(ctx context.Context, p store.ArchivePart) error {
	if f.fails > 0 && !p.IsAnnounced() {
		f.fails--
		return errDied
	}
	return f.Store.PutArchivePart(ctx, p)
}

func TestAPartThatADyingNodeLeftIsMadeAgain(t *testing.T) {
	t.Parallel()
	targets(t, func(t *testing.T, target archive.Target) {
		w := newWorld(t)
		w.deliver(0, 10)
		dying := archive.New(target, of(&forgetful{w.Store, 1}), w.vault, archive.Options{PartBytes: 1 << 10})
		if err := all(t.Context(), dying, store.OldEvents); !errors.Is(err, errDied) {
			t.Fatalf("archive = %v, want that the node died", err)
		}
		folder := "v1/events/" + time.Now().UTC().Format(time.DateOnly) + "/"
		left, err := target.List(t.Context(), folder)
		w.ok(err)
		if len(left) != 2 || len(w.parts()) != 0 {
			t.Fatalf("the dead node has left %v and recorded %v, want an object and its manifest, and nothing", left, w.parts())
		}
		w.ok(all(t.Context(), dying, store.OldEvents)) // the lease is the same node's; another one would wait for its end
		names, err := target.List(t.Context(), folder)
		w.ok(err)
		if parts := w.parts(); len(names) != 2*len(parts) || slices.Contains(names, left[0]) {
			t.Errorf("for %d parts there are the objects and manifests %v; want none of %v", len(parts), names, left)
		}
		if n := w.forget(store.OldEvents); n != 10 {
			t.Errorf("%d events were deleted, want 10", n)
		}
	})
}

func TestRowsAddedBehindAPartAreArchivedWithTheirDayAgain(t *testing.T) {
	t.Parallel()
	targets(t, func(t *testing.T, target archive.Target) {
		w := newWorld(t)
		e := w.accounts[0]
		w.publish(e, []byte(`{}`))
		w.attempt(e, postrider.LaneFirst, postrider.Transition{To: postrider.Pending, Step: 1})
		w.deliver(1, 3)
		a := w.open(target, archive.Options{PartBytes: 1})
		w.archiveAll(a)
		old := w.parts()
		w.attempt(e, postrider.LaneRetry, postrider.Transition{To: postrider.Delivered})
		if n := w.forget(store.OldBodies); n == 4 {
			t.Error("the bodies of the late attempt were deleted and not archived")
		}
		w.archiveAll(a)
		for _, kind := range kinds[:2] {
			w.forget(kind)
		}
		records, _ := w.search(a, archive.Query{Account: e.Account})
		if len(records) < 5 {
			t.Errorf("%d records, want an event, two attempts, two bodies", len(records))
		}
		if left := w.rows(store.OldAttempts) + w.rows(store.OldBodies); left != 0 {
			t.Errorf("%d rows are left of attempts and bodies", left)
		}
		for _, p := range old[:1] {
			if _, err := a.Verify(t.Context(), p); !errors.Is(err, archive.ErrDamaged) {
				t.Errorf("the old part %s is there still (%v)", p.Object, err)
			}
		}
	})
}

// rows counts what is stored of a kind.
func (w *world) rows(kind store.Kind) (n int) {
	w.Helper()
	w.ok(w.ArchiveRows(w.Context(), store.ArchiveRows{Kind: kind, Day: store.DayOf(time.Now())}, func(store.ArchivedRow) bool {
		n++
		return true
	}))
	return n
}

func TestExpungeMakesOneAccountUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 3)
	w.deliver(1, 3)
	a := w.open(archive.Folder(t.TempDir()), archive.Options{})
	w.archiveAll(a)
	for _, want := range []bool{true, false} {
		if there, err := w.DeleteArchiveKey(t.Context(), w.accounts[0].Account); err != nil || there != want {
			t.Errorf("expunge = %v, %v, want %v", there, err, want)
		}
	}
	for _, p := range w.parts() {
		if v, err := a.Verify(t.Context(), p); err != nil || v.Destroyed != 1 || v.Accounts != 1 {
			t.Errorf("verify %s: %+v, %v, want one account of two", p.Object, v, err)
		}
	}
	w.deliver(0, 1) // gets a new key
	w.archiveAll(a)
	readable, expunged := w.search(a, archive.Query{Account: w.accounts[0].Account})
	if len(readable) != 5 || expunged != 15 {
		t.Errorf("%d records are read, and %d are not; want the 5 of the new key, and 15", len(readable), expunged)
	}
	if others, _ := w.search(a, archive.Query{Account: w.accounts[1].Account}); len(others) != 15 {
		t.Errorf("%d records of the other account, want 15", len(others))
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 3)
	folder := t.TempDir()
	a := w.open(archive.Folder(folder), archive.Options{})
	w.ok(all(t.Context(), a, store.OldEvents))
	part := w.parts()[0]
	object := filepath.Join(folder, part.Object)
	manifest := strings.TrimSuffix(object, ".bin") + ".json"
	whole, err := os.ReadFile(object)
	w.ok(err)
	described, err := os.ReadFile(manifest)
	w.ok(err)
	for name, damage := range map[string]func() error{
		"cut":     func() error { return os.WriteFile(object, whole[:len(whole)-1], 0o600) },
		"changed": func() error { return os.WriteFile(object, append(bytes.Clone(whole[:len(whole)-1]), 0), 0o600) },
		"gone":    func() error { return os.Remove(object) },
		"other manifest": func() error {
			return os.WriteFile(manifest, bytes.ReplaceAll(described, []byte("events"), []byte("bodies")), 0o600)
		},
		"no manifest": func() error { return os.Remove(manifest) },
		"not JSON":    func() error { return os.WriteFile(manifest, []byte("{"), 0o600) },
	} {
		w.ok(damage())
		if _, err := a.Verify(t.Context(), part); !errors.Is(err, archive.ErrDamaged) {
			t.Errorf("%s: verify = %v, want damage", name, err)
		}
		w.ok(errors.Join(os.WriteFile(object, whole, 0o600), os.WriteFile(manifest, described, 0o600)))
	}
	if _, err := a.Verify(t.Context(), part); err != nil {
		t.Errorf("verify the whole part: %v", err)
	}
}

func TestAFolderThatIsNotThereIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 1)
	folder := filepath.Join(t.TempDir(), "not-mounted")
	if err := all(t.Context(), w.open(archive.Folder(folder), archive.Options{}), store.OldEvents); err == nil ||
		!strings.Contains(err.Error(), "the archive is away") {
		t.Errorf("archive = %v, want that the archive is away", err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was made (%v)", err)
	}
}
