// Package archive copies events, attempts and bodies into an archive before retention deletes
// them. An archive is a folder, or a bucket of an S3-compatible server.
//
//	a := archive.New(target, store, vault, archive.Options{})
//	more, err := a.Archive(ctx, store.OldEvents, before) // a part of a day
//
// A day of a kind (events, attempts, bodies) becomes parts of about 16 MiB of JSON. A part is an
// object and its manifest, a JSON document. The object has a segment for each account: the
// account's records as NDJSON, compressed with zstd and encrypted with AES-256-GCM under the
// account's own key. docs/operate/archive.md describes the format, so that other programs can
// read it.
//
// The package promises:
//
//   - An archive announces a part in the store before it reads the rows. It records the part after it
//     has written the object and the manifest, read both back and compared them. If rows were removed
//     in between, the part is made again. [store.Retention.DeleteOld] deletes only rows that a
//     recorded part has.
//   - Rows that are deleted one by one, before their day, get parts of their own ([Archive.ArchiveRows]).
//   - If a node dies while it makes a part, the next node deletes the object that may be left, and
//     makes the part again. A node records only objects that it has written itself.
//   - One node at a time archives, under a lease (lease.go). A node holds one part in memory. It
//     sleeps 9 ms for each ms of work on a part, and after a part for as long as the part took.
//   - If the archive is unreachable, full or hangs, the work on a part ends within PartTime, with
//     an error that says which. Nothing is deleted then, and nothing else waits.
//   - An expunge also removes records from existing objects ([Archive.Expunge]). It replaces each
//     object by one without the expunged records; the other records keep their bytes. Exactly one
//     of the old and the new object is recorded.
//   - The store counts the rows of each part that are still stored. All that deletes rows keeps the
//     count true ([store.ArchiveDay]).
//   - Without the key of an account nobody can read the segments of this account. The segments of
//     other accounts stay readable. An expunge of an account calls store.DeleteArchiveKey.
package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

// Target is the place of the objects. If an object does not exist, the error of Read matches
// [fs.ErrNotExist].
type Target interface {
	// Write stores a whole object and replaces an object of the same name. After an error, a part
	// of the object or all of it may be stored.
	Write(ctx context.Context, name string, content []byte) error
	// Read returns an object.
	Read(ctx context.Context, name string) ([]byte, error)
	// List returns the names of the objects that begin with the prefix, which ends with a slash.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete deletes an object. If the object does not exist, Delete returns nil.
	Delete(ctx context.Context, name string) error
}

// Vault makes and decrypts the keys of accounts; secrets.Vault implements it.
type Vault interface {
	// NewArchiveKey returns a new key, and the encrypted key to store.
	NewArchiveKey(ctx context.Context, account postrider.AccountID) (key [32]byte, encrypted []byte, err error)
	// DecryptArchiveKey returns the key that NewArchiveKey encrypted.
	DecryptArchiveKey(ctx context.Context, account postrider.AccountID, encrypted []byte) (key [32]byte, err error)
}

// Store has the roles of a store that an archive works with.
type Store struct {
	store.Archive
	store.ArchiveKeys
	store.Restored
	store.Time
	Progress
}

// Progress is what an archive needs of [store.Expunges].
type Progress interface {
	// NoteExpunge is [store.Expunges]'s.
	NoteExpunge(ctx context.Context, e postrider.Expunge) error
}

// Options tunes an [Archive]. The zero value is the production default.
type Options struct {
	PartBytes int           // JSON bytes of a part, which bounds the memory; default 16 MiB
	PartTime  time.Duration // limit for the work on one part; default 2 minutes
	Log       *slog.Logger  // default: discard
}

func (o Options) withDefaults() Options {
	o.PartBytes = cmp.Or(o.PartBytes, 16<<20)
	o.PartTime = cmp.Or(o.PartTime, 2*time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Archive writes and reads the archive of a store. Its methods may be called from any
// goroutine.
type Archive struct {
	target Target
	store  Store
	keys   keys
	opts   Options
	work   sync.Mutex // held while objects are written, for a part or for an expunge
	lease  lease      // of this node; held during the work

	mu   sync.Mutex
	days map[store.Kind]*day // by kind; an entry goes when its day is done, and after an error
}

// day is a day that is being archived.
type day struct {
	store.ArchiveDay

	redone bool // finish has forgotten the day's parts once
}

// New returns the archive of a store.
func New(target Target, s Store, vault Vault, opts Options) *Archive {
	return &Archive{
		target: target, store: s, keys: keys{store: s, vault: vault}, lease: newLease(s),
		opts: opts.withDefaults(), days: map[store.Kind]*day{},
	}
}

// Archive archives the next part of a kind: of the oldest day that ended at before or earlier and is
// not complete. It reports whether there may be more. If so, Archive has slept for as long as the part
// took. If another node archives, Archive sleeps and returns true, because that node may die and
// leave rows.
func (a *Archive) Archive(ctx context.Context, kind store.Kind, before time.Time) (more bool, err error) {
	begun := time.Now()
	err = a.bounded(ctx, func(ctx context.Context) (err error) {
		more, err = a.next(ctx, kind, before)
		return err
	})
	if err != nil {
		a.forget(kind)
	}
	if errors.Is(err, errArchiving) {
		batch.SleepOr(ctx, leaseRenewed, nil)
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("archive %s: %w", kind, err)
	}
	if more {
		batch.SleepOr(ctx, time.Since(begun), nil)
	}
	return more, nil
}

// errSlow is the cause when a part takes longer than PartTime.
var errSlow = errors.New("the archive is too slow")

// bounded runs do within PartTime, and under the lease, so that one node at a time works. If
// another node has the lease, bounded returns errArchiving.
func (a *Archive) bounded(ctx context.Context, do func(context.Context) error) error {
	a.work.Lock()
	defer a.work.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, a.opts.PartTime, errSlow)
	defer cancel()
	err := a.lease.run(ctx, do)
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return fmt.Errorf("%w: %w", errSlow, err)
	}
	return err
}

func (a *Archive) forget(kind store.Kind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.days, kind)
}

// next archives the next part of a day, or finishes the day if it has no more rows.
func (a *Archive) next(ctx context.Context, kind store.Kind, before time.Time) (more bool, err error) {
	d, err := a.day(ctx, kind, before)
	if err != nil || d == nil {
		return false, err
	}
	part, p, err := a.begin(ctx, &d.ArchiveDay, store.ArchiveRows{Kind: kind, Day: d.Day, After: d.After()})
	if err != nil {
		return false, err
	}
	if len(p.rows) == 0 {
		return true, a.finish(ctx, kind, d)
	}
	if part, err = a.write(ctx, part, p); err != nil {
		return false, err
	}
	part.Left = part.Rows
	return true, a.note(ctx, &d.ArchiveDay, part)
}

// begin announces the next part of a day, and reads its rows. If there are none, begin withdraws the
// part. If a part was announced before and not recorded, because a node died or failed, begin deletes
// the object that may be left.
func (a *Archive) begin(ctx context.Context, d *store.ArchiveDay, q store.ArchiveRows) (part store.ArchivePart, p *pending, err error) {
	now, err := a.store.Now(ctx)
	if err != nil {
		return part, nil, err
	}
	part = store.ArchivePart{
		Kind: q.Kind, Day: d.Day, Number: d.Next(), Object: newObject(q.Kind, d.Day, d.Next()), After: d.After(),
		MadeAt: now.UTC().Truncate(time.Second),
	}
	abandoned := slices.DeleteFunc(slices.Clone(d.Parts), func(p store.ArchivePart) bool { return !p.IsAnnounced() })
	if err := a.note(ctx, d, part); err != nil {
		return part, nil, err
	}
	a.removeOld(ctx, abandoned) // from now on, no node can record them
	if p, err = a.read(ctx, q); err == nil && len(p.rows) == 0 {
		err = a.store.ReplaceArchivePart(ctx, store.ReplaceArchivePart{Part: part})
	}
	return part, p, err
}

// note announces or records a part in the store and in d.
func (a *Archive) note(ctx context.Context, d *store.ArchiveDay, p store.ArchivePart) error {
	if err := a.lease.held(); err != nil {
		return err
	}
	if err := a.store.PutArchivePart(ctx, p); err != nil {
		return err
	}
	return d.Put(p)
}

// day returns the day of a kind that is being archived. Nil: no day is due.
func (a *Archive) day(ctx context.Context, kind store.Kind, before time.Time) (*day, error) {
	a.mu.Lock()
	d := a.days[kind]
	a.mu.Unlock()
	if d != nil {
		return d, nil
	}
	found, err := a.store.ArchiveDay(ctx, kind, before)
	if err != nil || found.Day.IsZero() {
		return nil, err
	}
	d = &day{ArchiveDay: found}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.days[kind] = d
	return d, nil
}

// finish ends the work on a day that has no more rows to archive. If the day is not complete, rows
// were added after the part with their ids was made: the attempts of a delivery that was still
// pending. Then finish makes the store forget the parts, and deletes their objects; the day is
// archived again. If the day is incomplete a second time, finish returns an error, so that the work
// ends.
func (a *Archive) finish(ctx context.Context, kind store.Kind, d *day) error {
	now, err := a.store.ArchiveDay(ctx, kind, d.Day.AddDate(0, 0, 1))
	if err != nil {
		return err
	}
	if !now.Day.Equal(d.Day) {
		a.forget(kind)
		return nil
	}
	if d.redone {
		return fmt.Errorf("%s of %s have changed again while they were archived", kind, dayText(d.Day))
	}
	forgotten, err := a.store.RedoArchiveDay(ctx, kind, d.Day)
	if err != nil {
		return err
	}
	a.opts.Log.InfoContext(ctx, "a day is archived again, because rows were added to it", "kind", kind, "day", dayText(d.Day))
	a.removeOld(ctx, forgotten)
	if now, err = a.store.ArchiveDay(ctx, kind, d.Day.AddDate(0, 0, 1)); err != nil {
		return err
	}
	d.ArchiveDay, d.redone = now, true
	return nil
}

// removeOld deletes the objects of parts that the store has forgotten. If an object cannot be deleted,
// it stays, and nothing reads it.
func (a *Archive) removeOld(ctx context.Context, parts []store.ArchivePart) {
	for _, p := range parts {
		if err := a.remove(ctx, p.Object); err != nil {
			a.opts.Log.WarnContext(ctx, "an old object of the archive stays", "object", p.Object, "error", err)
		}
	}
}

// write stores the object of a part and its manifest, and reads both back. It returns the part with
// what it has of the rows. The caller sets Left.
func (a *Archive) write(ctx context.Context, part store.ArchivePart, p *pending) (store.ArchivePart, error) {
	part.Rows, part.Last = int64(len(p.rows)), p.last
	object, segments, err := a.seal(ctx, part.Object, p)
	if err != nil {
		return part, err
	}
	part.Bytes, part.SHA256 = int64(len(object)), sha256.Sum256(object)
	return part, a.putBoth(ctx, newManifest(part, segments), object)
}

// putBoth writes an object and its manifest, and reads both back.
func (a *Archive) putBoth(ctx context.Context, m manifest, content []byte) error {
	if err := a.put(ctx, m.Object, content); err != nil {
		return err
	}
	return a.put(ctx, manifestName(m.Object), m.encode())
}

// put writes an object, reads it back and compares the two.
func (a *Archive) put(ctx context.Context, name string, content []byte) error {
	if err := a.target.Write(ctx, name, content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	back, err := a.target.Read(ctx, name)
	if err != nil {
		return fmt.Errorf("read %s back: %w", name, err)
	}
	if !bytes.Equal(back, content) {
		return fmt.Errorf("read %s back: it has other bytes than were written", name)
	}
	return nil
}

// isGone reports whether the archive is reachable and the object does not exist.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errAway) }
