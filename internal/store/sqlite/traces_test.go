package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// deliverMarked publishes events of the rig's endpoint with a text in each payload, head and body,
// of many sizes. Each is delivered at the first attempt.
func (r *rig) deliverMarked(n int, text string) {
	r.Helper()
	p, settlements := r.batch(n, 0)
	for i := range n {
		mark := fmt.Sprintf(`{"%s":%d,"rest":"%s"}`, text, i, strings.Repeat("x", i*i*37%6000))
		e := &p.Batches[i][0].Event
		e.Data, e.IdempotencyKey = []byte(mark), fmt.Sprintf("%s key %s", text, e.ID)
		s := &settlements[i]
		s.Claimed.Event = e
		s.Attempt.Outcome, s.Attempt.StatusCode, s.Transition = postrider.OutcomeGone, 410,
			postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonGone}
		s.Attempt.RequestHead = fmt.Appendf(nil, "POST / HTTP/1.1\r\nX-Mark: %s %d", text, i)
		s.Attempt.ResponseHead = fmt.Appendf(nil, "HTTP/1.1 410\r\nX-Mark: %s %d", text, i)
		s.Attempt.ResponseBody = []byte(mark[:min(len(mark), 3000)])
	}
	_, err := r.Publish(r.Context(), p)
	r.ok(err)
	_, err = r.Settle(r.Context(), settlements)
	r.ok(err)
}

// found counts a text in all files of a folder.
func found(t *testing.T, dir, text string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(content, []byte(text))
	}
	return n
}

// TestAnExpungeLeavesNothingInTheFiles has retention delete a part of an account's rows, and then
// an expunge the rest, beside the rows of another account.
func TestAnExpungeLeavesNothingInTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := time.Now().Add(-40 * 24 * time.Hour)
	r := newRig(t, dir, sqlite.Options{Now: func() time.Time { return at }})
	r.ids = store.NewIDs(func() time.Time { return at }, nil)
	t.Cleanup(func() { r.ok(r.Close()) })
	gone := r.endpoint
	other := postrider.Account{ID: store.NewID[postrider.AccountID](r.ids), Name: "Beta"}
	r.ok(r.PutAccount(t.Context(), other))
	stays, err := r.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](r.ids), Account: other.ID, URL: "https://beta.example/hooks", EventTypes: []postrider.Pattern{"*"},
		Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	r.ok(err)
	changes, err := r.Changes(t.Context(), 0, 1000)
	r.ok(err)
	r.version = changes.Version
	const secret, kept = "canary-of-the-expunged", "rows-of-somebody-else"
	for range 2 { // days
		for i := range 25 {
			r.endpoint = gone
			r.deliverMarked(20, secret)
			r.endpoint = stays
			r.deliverMarked(7+i%3, kept)
		}
		at = at.Add(20 * 24 * time.Hour)
	}
	if n := found(t, dir, secret); n < 2000 {
		t.Fatalf("%d canaries before", n)
	}
	for _, kind := range []store.Kind{store.OldBodies, store.OldAttempts} {
		for n := 1; n > 0; {
			n, err = r.DeleteOld(t.Context(), store.DeleteOld{Kind: kind, Before: at.AddDate(0, 0, -30), Limit: 500})
			r.ok(err)
		}
	}
	for n := 1; n > 0; {
		n, err = r.Shrink(t.Context(), 100)
		r.ok(err)
	}
	e := postrider.Expunge{ID: store.NewID[postrider.ExpungeID](r.ids), Account: gone.Account, By: "test", CreatedAt: at}
	r.ok(r.PutExpunge(t.Context(), e))
	r.ok(r.DeleteAccount(t.Context(), gone.Account))
	_, err = r.DeleteEndpoints(t.Context(), 100)
	r.ok(err)
	for e.EmptySince.IsZero() {
		e, err = r.ExpungeRows(t.Context(), store.ExpungeRows{ID: e.ID, Limit: 500, Settled: time.Minute})
		r.ok(err)
	}
	r.ok(r.Scrub(t.Context()))
	if n := found(t, dir, secret); n != 0 || e.Removed.Events != 1000 || e.Removed.Attempts != 500 || e.Removed.DeadLetters != 1000 {
		t.Errorf("%d canaries are left in the files; removed %+v", n, e.Removed)
	}
	if n := found(t, dir, kept); n == 0 {
		t.Error("the rows of the other account are gone")
	}
}

// TestScrubTakesNoLockWhileAReaderHoldsTheLog has another connection take the lock of the writer again and
// again, while a reader keeps Scrub from its end.
func TestScrubTakesNoLockWhileAReaderHoldsTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db")+"?_pragma=busy_timeout(0)")
	r.ok(err)
	defer db.Close()
	reader, err := db.Conn(t.Context())
	r.ok(err)
	defer reader.Close()
	_, err = reader.ExecContext(t.Context(), "begin")
	r.ok(err)
	var n int
	r.ok(reader.QueryRowContext(t.Context(), "select count(*) from events").Scan(&n))
	r.publish(1, 100) // the reader does not see it
	writer, err := db.Conn(t.Context())
	r.ok(err)
	defer writer.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	var scrubs sync.WaitGroup
	var scrubbed error
	scrubs.Go(func() { scrubbed = r.Scrub(ctx) })
	took, refused := 0, 0
	for ctx.Err() == nil {
		if _, err := writer.ExecContext(t.Context(), "begin immediate"); err != nil {
			refused++
			continue
		}
		_, err := writer.ExecContext(t.Context(), "rollback")
		r.ok(err)
		took++
	}
	scrubs.Wait()
	if refused > 0 || took == 0 || scrubbed == nil {
		t.Errorf("the lock was taken %d times and refused %d times; Scrub: %v", took, refused, scrubbed)
	}
}
