package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// forgotten makes a store in dir with one event that is forty days old, archives the event to
// folder, and deletes it.
func forgotten(t *testing.T, dir, folder string) postrider.EventID {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	ok(err)
	vault, err := secrets.Open(t.Context(), secrets.Location{File: filepath.Join(dir, "secrets.key"), Create: true}, s,
		slog.New(slog.DiscardHandler))
	ok(err)
	ids := store.NewIDs(func() time.Time { return time.Now().AddDate(0, 0, -40) }, nil)
	account := postrider.Account{ID: store.NewID[postrider.AccountID](ids), Name: "Acme"}
	ok(s.PutAccount(t.Context(), account))
	event := postrider.Event{ID: store.NewID[postrider.EventID](ids), Account: account.ID, Type: "order.created", Data: []byte(`{"n": 1}`)}
	_, err = s.Publish(t.Context(), store.Publish{Batches: []store.Batch{{{Event: event}}}})
	ok(err)
	roles := archive.Store{Archive: s, ArchiveKeys: s, Restored: s, Time: s, Progress: s}
	a, before := archive.New(archive.Folder(folder), roles, vault.Vault, archive.Options{}), time.Now().AddDate(0, 0, -30)
	for more := true; more; {
		more, err = a.Archive(t.Context(), store.OldEvents, before)
		ok(err)
	}
	if _, err := s.DeleteOld(t.Context(), store.DeleteOld{Kind: store.OldEvents, Before: before, Limit: 10, Archived: true}); err != nil {
		t.Fatal(err)
	}
	left, err := s.Events(t.Context(), store.EventQuery{ID: event.ID})
	ok(err)
	if len(left.Items) != 0 {
		t.Fatal("the event was not deleted")
	}
	ok(s.Close())
	return event.ID
}

// caller runs commands of the group archive, each with the same flags.
type caller struct {
	*testing.T

	words, flags []string
}

func (c *caller) call(want int, args ...string) (out, hints string) {
	c.Helper()
	var stdout, stderr bytes.Buffer
	args = slices.Concat([]string{"archive"}, c.words, args, c.flags)
	if got := run(c.Context(), args, terminal{strings.NewReader(""), &stdout, &stderr}); got != want {
		c.Fatalf("%v exits with %d, want %d: %s%s", args, got, want, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

func (c *caller) contains(what, text string, parts ...string) {
	c.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			c.Errorf("%s is %q, want %q in it", what, text, part)
		}
	}
}

// reads lists, verifies and searches an archive of one event. Then it damages the archive and does
// so again. It returns the output of a search.
func (c *caller) reads(event postrider.EventID, folder string) (found string) {
	c.Helper()
	day := event.Time().UTC().Format(time.DateOnly)
	list, _ := c.call(0, "list")
	c.contains("the list", list, "KIND", "events", day, "0001-")
	list, _ = c.call(0, "list", "--json", "--from", day)
	c.contains("the list as JSON", list, `"rows": 1`, `"rows_deleted": 1`)
	if none, _ := c.call(0, "list", "--json", "--to", day); strings.TrimSpace(none) != "{\n  \"data\": [],\n  \"next_cursor\": null\n}" {
		c.Errorf("the list of the days before is %s", none)
	}
	verified, hint := c.call(0, "verify")
	c.contains("what verify prints", verified, "whole, 1 rows of 1 accounts, 0 rows expunged")
	c.contains("its hint", hint, "1 parts are whole")
	found, hint = c.call(0, "search", "--event", event.String())
	c.contains("what search prints", found, `{"kind":"events","record":{"id":"`+event.String(), `"type":"order.created"`)
	c.contains("its hint", hint, "1 records found in 1 parts")

	objects, err := filepath.Glob(filepath.Join(folder, "v1", "events", day, "*.bin"))
	if err != nil || len(objects) != 1 {
		c.Fatalf("the objects are %v (%v), want one", objects, err)
	}
	whole, err := os.ReadFile(objects[0])
	if err != nil {
		c.Fatal(err)
	}
	if err := os.Truncate(objects[0], 10); err != nil {
		c.Fatal(err)
	}
	damaged, hint := c.call(1, "verify")
	c.contains("what verify prints of damage", damaged, "the archive is damaged", "10 bytes")
	c.contains("its error", hint, "1 of 1 parts are not whole")
	_, hint = c.call(1, "search")
	c.contains("the error of a search", hint, "10 bytes")
	if err := os.WriteFile(objects[0], whole, 0o600); err != nil {
		c.Fatal(err)
	}
	return found
}

func TestAnArchiveIsReadWithoutAServer(t *testing.T) {
	t.Parallel()
	dir, folder := t.TempDir(), t.TempDir()
	event := forgotten(t, dir, folder)
	c := &caller{t, []string{"offline"}, []string{"--data-dir", dir, "--archive", "file://" + folder}}
	c.reads(event, folder)
	_, hint := c.call(2, "search", "--account", "acme")
	c.contains("the error of a uid", hint, "acc_")
}

// served starts a server with an archive, and returns the flags that call it.
func served(t *testing.T, dir, folder string) []string {
	t.Helper()
	config := (&demoCmd{Listen: "127.0.0.1:0"}).config(t.TempDir())
	config.DataDir, config.Archive = dir, "file://"+folder
	config.KeepEvents, config.KeepAttempts = 30*24*time.Hour, 90*24*time.Hour // as by default
	server, err := app.New(t.Context(), config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return server.Run(ctx) })
	t.Cleanup(func() {
		end()
		if err := group.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	select {
	case <-server.Opened():
	case <-time.After(time.Minute):
		t.Fatal("the server does not open its store")
	}
	return []string{"--url", "http://" + server.Addr().String(), "--key-file", filepath.Join(dir, "admin.key")}
}

func TestAnArchiveIsReadAndRestoredByAServer(t *testing.T) {
	t.Parallel()
	dir, folder := t.TempDir(), t.TempDir()
	event := forgotten(t, dir, folder)
	c := &caller{t, nil, served(t, dir, folder)}
	found := c.reads(event, folder)
	if restored, _ := c.call(0, "restored"); restored != "" {
		t.Errorf("restored before restore: %s", restored)
	}
	for range 2 { // the second time changes nothing
		_, hint := c.call(0, "restore", "--event", event.String())
		c.contains("the hint of restore", hint, "1 records restored in 1 parts")
	}
	if restored, _ := c.call(0, "restored", "--event", event.String()); restored != found {
		t.Errorf("restored are %s, want %s", restored, found)
	}
	if other, _ := c.call(0, "list", "--kind", "bodies", "--json"); !strings.Contains(other, `"data": []`) {
		t.Errorf("the parts of bodies are %s, want none", other)
	}
}

// TestAReplayOfWhatIsArchivedNamesTheSearch runs the search command from the hint of a replay.
func TestAReplayOfWhatIsArchivedNamesTheSearch(t *testing.T) {
	t.Parallel()
	dir, folder := t.TempDir(), t.TempDir()
	event := forgotten(t, dir, folder)
	flags := served(t, dir, folder)
	call := func(args ...string) (out, hints string) {
		var stdout, stderr bytes.Buffer
		if got := run(t.Context(), slices.Concat(args, flags), terminal{strings.NewReader(""), &stdout, &stderr}); got != 0 {
			t.Fatalf("%v exits with %d: %s%s", args, got, &stdout, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	c, from := &caller{T: t}, event.Time().UTC().Format(time.DateOnly)
	archived := []string{"replays", "create", "--status", "delivered", "--from", from}
	out, hints := call(append(archived, "--dry-run")...)
	c.contains("the count", out, "0 deliveries match")
	c.contains("the hint of a dry run", hints, "may be deleted", "postrider archive search --from "+from+" --to ", "docs/operate/archive.md")
	_, after, _ := strings.Cut(hints, "postrider ")
	command, _, _ := strings.Cut(after, "\n")
	found, _ := call(strings.Fields(command)...)
	c.contains("what the search of the hint finds", found, event.String())

	out, hints = call(archived...)
	c.contains("the hint of a replay", hints, command)
	id, _, _ := strings.Cut(out[strings.Index(out, "rpl_"):], " ")
	_, hints = call("replays", "get", id)
	c.contains("the hint of the replay as it is shown", hints, command)
	if _, hints = call("replays", "create", "--dry-run"); hints != "" {
		t.Errorf("a replay of the dead letters that are not resolved says %q", hints)
	}
}

// TestAnEventWithoutItsDataNamesTheSearch prints an event that retention has deleted.
func TestAnEventWithoutItsDataNamesTheSearch(t *testing.T) {
	t.Parallel()
	e := apitypes.Event{ID: postrider.EventID{1}}
	search := "postrider archive search --event " + e.ID.String()
	for _, tt := range []struct {
		data   string
		asJSON bool
		want   bool // the search must be named
	}{{"", false, true}, {"", true, false}, {"{}", false, false}} {
		if e.Data = nil; tt.data != "" {
			e.Data = []byte(tt.data)
		}
		var out, hints bytes.Buffer
		if err := printEvent(terminal{nil, &out, &hints}, tt.asJSON, e); err != nil || strings.Contains(hints.String(), search) != tt.want {
			t.Errorf("of the data %q, JSON %v: %q, %v", tt.data, tt.asJSON, &hints, err)
		}
	}
}

func TestAnArchiveCommandNeedsAnArchive(t *testing.T) {
	t.Parallel()
	var out, hints bytes.Buffer
	if code := run(t.Context(), []string{"archive", "offline", "list", "--data-dir", t.TempDir()},
		terminal{strings.NewReader(""), &out, &hints}); code != 1 {
		t.Errorf("it exits with %d, want 1", code)
	}
	if !strings.Contains(hints.String(), "--archive") {
		t.Errorf("the error is %q, want it to name --archive", hints.String())
	}
}
