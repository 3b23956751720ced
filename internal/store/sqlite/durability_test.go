package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// childDir is an environment variable. It is set in the processes that tests kill.
const childDir = "POSTRIDER_TEST_CHILD_DIR"

// TestChild runs as the other process of the tests below; otherwise it does nothing. It publishes
// until it is killed, and prints what was acknowledged.
func TestChild(t *testing.T) {
	dir, ok := os.LookupEnv(childDir)
	if !ok {
		return
	}
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		fmt.Fprintln(os.Stdout, "error", err)
		return
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dir, sqlite.Options{})
	for {
		p, settlements := r.batch(3, 2000)
		_, err := r.Publish(t.Context(), p)
		r.ok(err)
		for _, s := range settlements {
			fmt.Fprintln(os.Stdout, "stored", s.Claimed.Event.ID, s.Claimed.ID)
		}
	}
}

// child starts the other process on the directory, and returns its output as words.
func child(t *testing.T, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// killed lets another process publish to the directory, kills it, and returns the ids that it had
// acknowledged.
func killed(t *testing.T, dir string) (events []postrider.EventID, deliveries []postrider.DeliveryID) {
	t.Helper()
	cmd, lines := child(t, dir)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 || words[0] != "stored" {
			t.Fatalf("the other process says %q", lines.Text())
		}
		event, err := postrider.ParseID[postrider.EventID](words[1])
		if err != nil {
			break // the kill cut off this line
		}
		delivery, err := postrider.ParseID[postrider.DeliveryID](words[2])
		if err != nil {
			break
		}
		events, deliveries = append(events, event), append(deliveries, delivery)
		if len(events) == 150 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(events) < 150 {
		t.Fatalf("the other process ended by itself after %d events: %v", len(events), err)
	}
	return events, deliveries
}

func TestPromise1WhatWasAcknowledgedOutlastsAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log bytes.Buffer
	for range 3 {
		events, _ := killed(t, dir)
		s := open(t, dir, sqlite.Options{Log: textLog(&log)})
		for _, id := range events {
			page, err := s.Events(t.Context(), store.EventQuery{ID: id})
			if err != nil || len(page.Items) != 1 || len(page.Items[0].Data) != 2000 {
				t.Fatalf("event %s was acknowledged and is %+v, %v", id, page.Items, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "the store was not closed"); n != 3 {
		t.Errorf("%d of 3 unclean stops were noticed:\n%s", n, log.String())
	}
}

func TestLeasesOfADeadProcessAreTakenOverAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, deliveries := killed(t, dir)
	lost := 0
	s := open(t, dir, sqlite.Options{OnLost: func(n int) { lost += n }})
	page, err := s.Deliveries(t.Context(), store.DeliveryQuery{ID: deliveries[0]})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("the first delivery is %+v, %v", page.Items, err)
	}
	claims, err := s.Claim(t.Context(), store.Claim{Token: 7, Wants: []store.Want{
		{Endpoint: page.Items[0].Endpoint, Lane: postrider.LaneFirst, N: 100_000, Lease: 1e9},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if lost != len(claims.Items) {
		t.Errorf("%d lost attempts were reported, want one for each of %d leases", lost, len(claims.Items))
	}
	claimed := map[postrider.DeliveryID]postrider.Claimed{}
	for _, c := range claims.Items {
		claimed[c.ID] = c
	}
	for _, id := range deliveries {
		if c := claimed[id]; c.Attempt != 2 || c.Losses != 1 {
			t.Fatalf("delivery %s was claimed as %+v, want attempt 2 after one loss", id, c)
		}
	}
	attempts, err := s.Attempts(t.Context(), store.AttemptQuery{Account: page.Items[0].Account, Delivery: deliveries[0]})
	if err != nil || len(attempts.Items) != 1 || attempts.Items[0].Outcome != postrider.OutcomeLost {
		t.Errorf("recorded %+v, %v; want the lost attempt", attempts.Items, err)
	}
}

// TestPromise8AReplayJobOfADeadProcessIsDueAtOnce leaves a leased job behind.
func TestPromise8AReplayJobOfADeadProcessIsDueAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	job := postrider.ReplayJob{
		ID: postrider.ReplayID{1}, Action: postrider.ActionReplay, PerSecond: 1, CreatedAt: time.Now(),
		Filter: postrider.ReplayFilter{Statuses: []postrider.Status{postrider.Dead}},
	}
	s := open(t, dir, sqlite.Options{})
	if err := s.PutReplayJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	for process := range 2 {
		jobs, err := s.ClaimReplayJobs(t.Context(), store.ClaimReplayJobs{Max: 1, Token: 7, Lease: time.Hour})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("process %d claimed %v, %v; want the job", process, jobs, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, sqlite.Options{})
	}
}

func TestAWhatIfOfADeadProcessIsDueAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	if err := s.PutWhatIf(t.Context(), store.WhatIf{Account: postrider.AccountID{1}, Document: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	for process := range 2 {
		if _, err := s.ClaimWhatIf(t.Context(), 7, time.Hour); err != nil {
			t.Fatalf("process %d: %v, want the job", process, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, sqlite.Options{})
	}
}

func TestADirectoryBelongsToOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	want := "data directory " + dir + " is in use by another process"
	if second, err := sqlite.Open(t.Context(), dir, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a second Open = %v, %v; want %q", second, err, want)
	}
	cmd, lines := child(t, dir)
	if lines.Scan(); !strings.Contains(lines.Text(), want) {
		t.Errorf("another process says %q, want %q", lines.Text(), want)
	}
	for lines.Scan() { // read to the end, which Wait needs
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, sqlite.Options{})
}

// commits returns the number of transactions in the database's log. It counts the frames that
// have the size of the file after the commit (sqlite.org/fileformat2.html, 4.1).
func commits(t *testing.T, dir string) (n int) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "postrider.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	const header, frame = 32, 24
	size := int(binary.BigEndian.Uint32(log[8:]))
	for at := header; at+frame+size <= len(log); at += frame + size {
		if binary.BigEndian.Uint32(log[at+4:]) != 0 && bytes.Equal(log[at+8:at+16], log[16:24]) {
			n++
		}
	}
	return n
}

// openRaw opens the database beside the store, on one connection.
func openRaw(t *testing.T, dir string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// This test locks the database, so that the first commit waits until all calls have arrived.
// Otherwise a slow machine would spread them over many commits.
func TestCallsAtHandShareACommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	defer func() { r.ok(r.Close()) }()
	before := commits(t, dir)
	other := openRaw(t, dir)
	if _, err := other.ExecContext(t.Context(), "begin immediate"); err != nil {
		t.Fatal(err)
	}
	var stored atomic.Int32
	var called, publishers sync.WaitGroup
	called.Add(200)
	for i := range 200 {
		p, _ := r.batch(1, 100)
		p.Version += int64(i % 2)
		publishers.Go(func() {
			called.Done()
			_, err := r.Publish(t.Context(), p)
			switch {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, store.ErrMoved):
				t.Errorf("Publish = %v", err)
			}
		})
	}
	called.Wait()
	if _, err := other.ExecContext(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	publishers.Wait()
	if stored.Load() != 100 {
		t.Errorf("%d publishes were stored, want the 100 of the right version", stored.Load())
	}
	if n := commits(t, dir) - before; n < 1 || n > 50 {
		t.Errorf("100 publishes took %d commits, want far fewer", n)
	}
}

func TestACallThatFailsTakesNoOtherWithIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), sqlite.Options{})
	defer func() { r.ok(r.Close()) }()
	taken := r.endpoint
	taken.ID, taken.Revision, taken.UID = store.NewID[postrider.EndpointID](r.ids), 0, "taken"
	_, err := r.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: taken})
	r.ok(err)
	var callers sync.WaitGroup
	for i := range 100 {
		e := taken
		e.ID = store.NewID[postrider.EndpointID](r.ids)
		if i%2 == 0 {
			e.UID = fmt.Sprint(i)
		}
		callers.Go(func() {
			// the failing call has already raised the version
			_, err := r.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e})
			if want := i%2 != 0; errors.Is(err, postrider.ErrConflict) != want {
				t.Errorf("PutEndpoint = %v, want a conflict: %t", err, want)
			}
		})
	}
	callers.Wait()
	changes, err := r.Changes(t.Context(), r.version, 1000)
	r.ok(err)
	if len(changes.Endpoints) != 51 || changes.Version != r.version+51 {
		t.Errorf("%d endpoints changed up to version %d, want 51 up to %d", len(changes.Endpoints), changes.Version, r.version+51)
	}
}

func TestACallWhoseContextEndedDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), sqlite.Options{})
	defer func() { r.ok(r.Close()) }()
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	p, _ := r.batch(1, 10)
	if _, err := r.Publish(ctx, p); !errors.Is(err, cause) {
		t.Errorf("Publish = %v, want %v", err, cause)
	}
}

func TestAfterCloseEveryChangeIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), sqlite.Options{})
	r.ok(r.Close())
	r.ok(r.Close())
	p, _ := r.batch(1, 10)
	if _, err := r.Publish(t.Context(), p); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("Publish = %v, want ErrBusy", err)
	}
}

func TestAFullDiskIsBusyAndPasses(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), sqlite.Options{MaxBytes: 2 << 20})
	defer func() { r.ok(r.Close()) }()
	publish := func() (store.Publish, error) {
		p, _ := r.batch(20, 100)
		for _, batch := range p.Batches {
			batch[0].Event.IdempotencyKey = batch[0].Event.ID.String() + strings.Repeat("k", 4000)
		}
		_, err := r.Publish(t.Context(), p)
		return p, err
	}
	for range 100 {
		p, err := publish()
		if err == nil {
			continue
		}
		if !errors.Is(err, postrider.ErrBusy) {
			t.Fatalf("Publish to a full disk = %v, want ErrBusy", err)
		}
		page, err := r.Events(t.Context(), store.EventQuery{ID: p.Batches[0][0].Event.ID})
		if err != nil || len(page.Items) != 0 {
			t.Fatalf("the refused event is %+v, %v", page.Items, err)
		}
		if n, err := r.ForgetKeys(t.Context(), 0, 1000); n == 0 || err != nil {
			t.Fatalf("ForgetKeys = %d, %v", n, err)
		}
		if _, err := publish(); err != nil {
			t.Errorf("Publish once there is room = %v", err)
		}
		return
	}
	t.Error("the disk was never full")
}

// damage overwrites the page of the row that every publish reads.
func damage(t *testing.T, dir string) {
	t.Helper()
	root := texts(t, raw(t, dir), `select rootpage from sqlite_schema where name = 'subscriptions'`)[0]
	var page int64
	if _, err := fmt.Sscan(root, &page); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "postrider.db"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(bytes.Repeat([]byte{0xff}, 4096), (page-1)*4096); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedFileIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	r.ok(r.Close())
	damage(t, dir)

	var fatal []error
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{OnFatal: func(err error) { fatal = append(fatal, err) }})
	r.ok(err)
	p, _ := r.batch(1, 10)
	if _, err := s.Publish(t.Context(), p); err == nil || errors.Is(err, postrider.ErrBusy) {
		t.Errorf("Publish to a damaged file = %v, want an error that is no ErrBusy", err)
	}
	const want = "the database file can no longer be trusted"
	err = s.PutEventType(t.Context(), postrider.EventType{Name: "order.created"})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the next change = %v, want %q", err, want)
	}
	r.ok(s.Close())
	if len(fatal) != 1 || !strings.Contains(fatal[0].Error(), want) {
		t.Errorf("OnFatal was told %v, want it once", fatal)
	}
	if _, err := sqlite.Open(t.Context(), dir, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Open of the damaged file = %v, want a refusal", err)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	r.ok(r.Close())
	_, err := raw(t, dir).ExecContext(t.Context(), `insert into postrider_migrations (version_id, is_applied) values (999, 1)`)
	r.ok(err)
	if _, err := sqlite.Open(t.Context(), dir, sqlite.Options{}); err == nil || !strings.Contains(err.Error(), "a newer program") {
		t.Errorf("Open = %v, want a refusal", err)
	}
}

// TestAStoreThatWasClosedCanBeOpenedWhileAProcessIsStarted lets other goroutines start processes
// all the time. Until such a process runs its program, it has a copy of every open file.
func TestAStoreThatWasClosedCanBeOpenedWhileAProcessIsStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for ctx.Err() == nil {
				if err := exec.CommandContext(ctx, "true").Run(); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		if err := open(t, dir, sqlite.Options{}).Close(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	starters.Wait()
}

func TestTablesOfAnotherContentAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	r.ok(r.Close())
	for _, tt := range []struct{ change, undo, why string }{
		{"create index more on accounts (name)", "", ""},
		{"alter table accounts add column note text not null default ''", "", ""},
		{"create table mine (id integer primary key)", "", ""},
		{
			"alter table subscriptions rename column version to other", "alter table subscriptions rename column other to version",
			"no column subscriptions.version integer",
		},
		{
			"update tables_noted set fingerprint = fingerprint || 'x'", "update tables_noted set fingerprint = rtrim(fingerprint, 'x')",
			"other content",
		},
		{"alter table tables_noted rename to gone", "alter table gone rename to tables_noted", "do not say of which content"},
	} {
		db := raw(t, dir)
		_, err := db.ExecContext(t.Context(), tt.change)
		r.ok(err)
		opened, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
		if tt.why == "" {
			r.ok(err)
			r.ok(opened.Close())
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: Open = %v, want %q", tt.change, err, tt.why)
		}
		if unlike := sqlite.Examine(t.Context(), dir).Tables.Unlike; unlike == nil || !strings.Contains(unlike.Error(), tt.why) {
			t.Errorf("%s: doctor says %v", tt.change, unlike)
		}
		_, err = db.ExecContext(t.Context(), tt.undo)
		r.ok(err)
	}
}
