package archive_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/store"
)

const (
	aDay    = 24 * time.Hour
	forever = 1 << 30
)

// server is a node with retention, an archive and expunges. It dies at one of its
// operations, and stays dead until it is run again.
type server struct {
	*world
	archive.Target

	left   atomic.Int64       // operations until it dies
	die    context.CancelFunc // of the run
	during func()             // called once, while an object is written
}

func newServer(t *testing.T) *server {
	t.Helper()
	w := newWorld(t)
	w.ok(w.PutAccount(t.Context(), postrider.Account{
		ID: w.accounts[1].Account, Name: "Brief", Revision: 1,
		Retention: postrider.AccountRetention{Events: 1, Attempts: 1, Bodies: 1},
	}))
	w.deliver(0, 4)
	w.deliver(1, 2)
	s := &server{world: w, Target: archive.Folder(t.TempDir())}
	s.left.Store(forever)
	return s
}

// lives counts an operation. The chores of a node run at the same time.
func (s *server) lives() error {
	if s.left.Add(-1) < 0 {
		s.die()
		return errDied
	}
	return nil
}

// run runs the node for d of virtual time, or until it dies.
func (s *server) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	s.die = cancel
	m := &deadly{s.Store, s}
	a := archive.New(s, of(m), s.vault, archive.Options{PartBytes: 4 << 10})
	j := janitor.New(janitor.Store{
		Upkeep: m, Retention: m, Health: m, Time: m, Queue: m, Directory: m, History: m, NoticeLog: m, Rollups: m, OutboxRows: m,
	}, janitor.Options{Every: time.Hour, Archive: a, Keep: janitor.Keep{Events: 3 * aDay, Attempts: 3 * aDay, Bodies: 3 * aDay}})
	r := expunge.New(expunge.Store{
		Expunges: m, Ledger: m, Directory: m, Archived: m, Audit: m, Time: m,
	}, expunge.Options{Every: 10 * time.Minute, Archive: a})
	var all sync.WaitGroup
	for _, work := range []func(context.Context) error{j.Run, r.Run} {
		all.Go(func() { s.ok(work(ctx)) })
	}
	all.Wait()
}

// Write writes an object, before or after the death of the node.
func (s *server) Write(ctx context.Context, name string, content []byte) error {
	if err := s.lives(); err != nil {
		return err
	}
	if during := s.during; during != nil && strings.Contains(name, "v1/events/") {
		s.during = nil
		during()
	}
	return errors.Join(s.Target.Write(ctx, name, content), s.lives())
}

// Delete deletes an object.
func (s *server) Delete(ctx context.Context, name string) error {
	if err := s.lives(); err != nil {
		return err
	}
	return s.Target.Delete(ctx, name)
}

// deadly is the store of a server. At a verb that changes counts the node dies before it, or when it is
// done and nobody has heard of it. A verb that finds nothing is no operation.
type deadly struct {
	store.Store

	server *server
}

func dying[R any](d *deadly, do func() (R, error)) (r R, err error) {
	if err := d.server.lives(); err != nil {
		return r, err
	}
	r, err = do()
	return r, errors.Join(err, d.server.lives())
}

func (d *deadly) PutArchivePart(ctx context.Context, p store.ArchivePart) error {
	_, err := dying(d, func() (int, error) { return 0, d.Store.PutArchivePart(ctx, p) })
	return err
}

func (d *deadly) ReplaceArchivePart(ctx context.Context, r store.ReplaceArchivePart) error {
	_, err := dying(d, func() (int, error) { return 0, d.Store.ReplaceArchivePart(ctx, r) })
	return err
}

func (d *deadly) RedoArchiveDay(ctx context.Context, kind store.Kind, day time.Time) ([]store.ArchivePart, error) {
	return dying(d, func() ([]store.ArchivePart, error) { return d.Store.RedoArchiveDay(ctx, kind, day) })
}

func (d *deadly) DeleteOld(ctx context.Context, f store.DeleteOld) (int, error) {
	n, err := d.Store.DeleteOld(ctx, f)
	if n > 0 && f.Archived {
		err = errors.Join(err, d.server.lives())
	}
	return n, err
}

func (d *deadly) DeleteRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (int, error) {
	return dying(d, func() (int, error) { return d.Store.DeleteRows(ctx, kind, rows) })
}

func (d *deadly) ExpungeRows(ctx context.Context, r store.ExpungeRows) (postrider.Expunge, error) {
	e, err := d.Store.ExpungeRows(ctx, r)
	if e.EmptySince.IsZero() {
		err = errors.Join(err, d.server.lives())
	}
	return e, err
}

// storedOf counts the stored rows of the first day.
func (s *server) storedOf(kind store.Kind, day time.Time) (n int64) {
	s.Helper()
	s.ok(s.world.ArchiveRows(s.Context(), store.ArchiveRows{Kind: kind, Day: day}, func(store.ArchivedRow) bool {
		n++
		return true
	}))
	return n
}

// checks fails the test unless all rows of the first day went, and are archived but for those of
// the expunged event, each once. With a death, single rows may be archived twice.
func (s *server) checks(e postrider.Expunge, day time.Time, died bool) {
	s.Helper()
	for _, kind := range kinds {
		if n := s.storedOf(kind, day); n != 0 {
			s.Errorf("%s: %d rows are stored", kind, n)
		}
	}
	for _, p := range s.parts() {
		if p.Left != 0 {
			s.Errorf("%d rows of %s are left", p.Left, p.Object)
		}
	}
	if e = s.stored(e.ID); e.EndedAt.IsZero() || e.Archive.Held {
		s.Errorf("the expunge is %+v, want that it has ended", e)
	}
	a := s.open(s.Target, archive.Options{})
	s.verifyParts(a)
	for account, want := range []int{3 * 5, 2 * 5} {
		found, _ := s.search(a, archive.Query{Account: s.accounts[account].Account})
		names := map[string]bool{}
		for _, r := range found {
			names[store.RestoredKey(r)] = true
			if r.Event == e.Event {
				s.Errorf("%s of the expunged event are archived", r.Kind)
			}
		}
		if again := len(found) - len(names); len(names) != want || again > 0 && (account == 0 || !died) {
			s.Errorf("account %d: %d records are archived, and %d of them again, want %d", account, len(names), again, want)
		}
	}
}

// TestDaysOfRetention has a server live through the days in which a day of rows is archived and
// deleted. An event is expunged before, while or after that.
func TestDaysOfRetention(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{
		"an expunge before it is archived":       time.Hour,
		"an expunge while it is archived":        0,
		"an expunge after it was deleted":        5 * aDay,
		"an expunge between a kind and the next": 4*aDay + time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, day := newServer(t), store.DayOf(time.Now())
				e := s.newExpunge(s.events[0][3], postrider.EndpointID{})
				begin := func() { s.ok(s.PutExpunge(t.Context(), e)) }
				if after == 0 {
					s.during = func() { s.expunge(e) }
				}
				for begun := after == 0; time.Since(day) < 6*aDay; s.run(time.Hour) {
					if !begun && time.Since(day) >= after {
						begin()
						begun = true
					}
					for _, kind := range kinds { // no part has more rows left than are stored
						left := store.ArchiveDay{Parts: s.partsOf(kind)}.Left()
						if n := s.storedOf(kind, day); left > n {
							t.Errorf("%s: %d rows are left of parts, and %d are stored", kind, left, n)
						}
					}
				}
				s.checks(e, day, false)
			})
		})
	}
}

func (s *server) partsOf(kind store.Kind) []store.ArchivePart {
	s.Helper()
	parts, err := s.world.ArchiveParts(s.Context(), store.ArchiveParts{Kind: kind, Limit: 1000})
	s.ok(err)
	return parts
}

// TestDaysOfRetentionWithDeaths has the server die at each of its operations, once before the
// operation and once after it, and another one go on.
func TestDaysOfRetentionWithDeaths(t *testing.T) {
	t.Parallel()
	for n, died := 0, true; died; n++ {
		synctest.Test(t, func(t *testing.T) {
			s, day := newServer(t), store.DayOf(time.Now())
			e := s.newExpunge(s.events[0][3], postrider.EndpointID{})
			s.during = func() { s.ok(s.PutExpunge(t.Context(), e)) } // the expunge removes rows while the day is archived
			s.left.Store(int64(n))
			for died = false; time.Since(day) < 6*aDay; {
				s.run(6 * aDay)
				died = died || s.left.Load() < 0
				s.left.Store(forever)
			}
			s.checks(e, day, died)
			if t.Failed() {
				t.Fatalf("it died at operation %d", n)
			}
		})
		if n > 300 || !died && n < 40 {
			t.Fatalf("the last death was at operation %d", n-1)
		}
	}
}
