package archive

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// expungeStep is for how long a step of an expunge begins with further days.
const expungeStep = time.Second

// Expunge removes the records of an event or endpoint from the archive: those of the days from
// e.Archive.Day on, for about a second. It stores how far it has got, and returns that. It waits
// for the part that this node archives, and does nothing while another node archives.
//
// An object with such records is replaced: by a new one with a manifest, both read back, which
// the store then records in its place in one step; then the old one is deleted. So after a crash
// the store knows one of them. The other is deleted when its day is looked at again, and a day
// is done only when that has succeeded.
func (a *Archive) Expunge(ctx context.Context, e postrider.Expunge) (postrider.Expunge, error) {
	until := time.Now().Add(expungeStep)
	for e.InArchive() && time.Now().Before(until) {
		did, err := a.expungeDay(ctx, e)
		switch {
		case errors.Is(err, errArchiving):
			return e, nil
		case err != nil:
			return e, fmt.Errorf("remove records of %s from the archive: %w", dayText(e.Archive.Day), err)
		}
		e = did
	}
	return e, nil
}

// expungeDay looks at the objects of the next day. An object at a time is bounded by PartTime.
func (a *Archive) expungeDay(ctx context.Context, e postrider.Expunge) (postrider.Expunge, error) {
	for _, kind := range []store.Kind{store.OldEvents, store.OldAttempts, store.OldBodies} {
		if kind == store.OldEvents && (e.Event.IsZero() || !store.DayOf(e.Event.Time()).Equal(e.Archive.Day)) {
			continue
		}
		x := expunging{Archive: a, of: e, kind: kind}
		if err := a.bounded(ctx, x.list); err != nil {
			return e, err
		}
		for _, object := range x.objects {
			if err := a.bounded(ctx, func(ctx context.Context) error { return x.object(ctx, object) }); err != nil {
				return e, err
			}
		}
		e.Archive.Held = e.Archive.Held || x.away()
	}
	now, err := a.store.Now(ctx)
	if err != nil {
		return e, err
	}
	e.Archive.Day, e.Archive.Fault = e.Archive.Day.AddDate(0, 0, 1), ""
	e.Archive.Done = e.Archive.Day.After(now)
	return e, a.store.NoteExpunge(ctx, e)
}

// expunging is the work on a kind and day.
type expunging struct {
	*Archive

	of      postrider.Expunge
	kind    store.Kind
	objects []string                     // that have a manifest, by name, when the work began
	there   map[string]bool              // likewise, now
	parts   map[string]store.ArchivePart // that the store knows now, by object
}

// list reads what the archive and the store have of the day. It deletes objects without a
// manifest that no part has: a node has died before it wrote the manifest, or after it deleted
// it.
func (x *expunging) list(ctx context.Context) error {
	if err := x.listParts(ctx); err != nil {
		return err
	}
	x.there = map[string]bool{}
	names, err := x.target.List(ctx, folderOf(x.kind, x.of.Archive.Day))
	if err = cmp.Or(err, x.lease.held()); err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, objectSuffix) {
			continue
		}
		_, known := x.parts[name]
		switch {
		case slices.Contains(names, manifestName(name)):
			x.objects, x.there[name] = append(x.objects, name), true
		case !known:
			if err := x.target.Delete(ctx, name); err != nil {
				return fmt.Errorf("delete %s: %w", name, err)
			}
		}
	}
	return nil
}

// listParts reads what the store has of the day.
func (x *expunging) listParts(ctx context.Context) error {
	x.parts = map[string]store.ArchivePart{}
	day := x.of.Archive.Day
	for q := (store.ArchiveParts{Kind: x.kind, From: day, To: day.AddDate(0, 0, 1), Limit: partsPage}); ; {
		page, err := x.store.ArchiveParts(ctx, q)
		if err != nil {
			return err
		}
		for _, p := range page {
			x.parts[p.Object] = p
		}
		if len(page) < partsPage {
			return nil
		}
		q.After = page[len(page)-1]
	}
}

// away reports whether a part is not in the archive.
func (x *expunging) away() bool {
	for name := range x.parts {
		if !x.there[name] {
			return true
		}
	}
	return false
}

// object removes the records from an object, or the object if it is in excess. One that no
// part has is treated as others are: a store that was restored may not know it.
func (x *expunging) object(ctx context.Context, name string) error {
	m, err := x.manifest(ctx, x.kind, name)
	if err != nil {
		return err
	}
	p, known := x.parts[name]
	if !known {
		inExcess, err := x.adoptTwin(ctx, m)
		switch {
		case err != nil:
			return err
		case inExcess:
			return x.remove(ctx, name)
		}
		if p, known = x.parts[name]; !known {
			p = store.ArchivePart{Kind: x.kind, Object: name}
		}
	}
	if !slices.ContainsFunc(m.Segments, func(s segment) bool { return s.Account == x.of.Account }) {
		return nil
	}
	m, content, err := x.load(ctx, p)
	if err != nil {
		return err
	}
	next, kept, err := x.without(ctx, m, content)
	if err != nil || next.Rows == m.Rows {
		return err
	}
	if next.Rows > 0 {
		if err := x.putBoth(ctx, next, kept); err != nil {
			return err
		}
	}
	if known {
		if err := x.replace(ctx, p, next, m.Rows-next.Rows); err != nil {
			return err
		}
	}
	return x.remove(ctx, name)
}

// adoptTwin looks for the part that has the rows of an object which no part has: one of both
// objects was written in place of the other. If the part's object is whole, the other is in
// excess: a node has died before it recorded it, or before it deleted it. If the part's object is
// gone, because the store was restored from an older backup, the other takes its place.
func (x *expunging) adoptTwin(ctx context.Context, m manifest) (inExcess bool, err error) {
	if err := x.listParts(ctx); err != nil { // the archiver may have adopted it meanwhile
		return false, err
	}
	if _, known := x.parts[m.Object]; known {
		return false, nil
	}
	for _, p := range x.parts {
		if p.Number != m.Number || textOf(x.kind, p.After) != m.After || textOf(x.kind, p.Last) != m.Last {
			continue
		}
		_, _, err := x.load(ctx, p)
		if err == nil || !errors.Is(err, ErrDamaged) {
			return err == nil, err
		}
		if _, _, err := x.load(ctx, store.ArchivePart{Kind: x.kind, Object: m.Object}); err != nil {
			return false, err
		}
		if err := x.replace(ctx, p, m, max(p.Rows-m.Rows, 0)); err != nil {
			return false, err
		}
		return false, x.remove(ctx, p.Object)
	}
	return false, nil
}

// replace records an object in place of a part's, which has so many records more. If no record
// is left, the part is forgotten.
func (x *expunging) replace(ctx context.Context, p store.ArchivePart, next manifest, fewer int64) error {
	r := store.ReplaceArchivePart{Part: p, Fewer: fewer, Expunge: x.of.ID}
	if next.Rows > 0 {
		var err error
		if r.With, err = next.part(); err != nil {
			return err
		}
	}
	if x.there[next.Object] { // it was adopted: another expunge has counted these records
		r.Expunge = postrider.ExpungeID{}
	}
	if err := x.lease.held(); err != nil {
		return err
	}
	if err := x.store.ReplaceArchivePart(ctx, r); err != nil {
		return err
	}
	delete(x.parts, p.Object)
	if next.Rows > 0 {
		x.parts[next.Object], x.there[next.Object] = r.With, true
	}
	return nil
}

// remove deletes a manifest and then its object: list deletes an object that is left alone.
func (a *Archive) remove(ctx context.Context, name string) error {
	for _, name := range []string{manifestName(name), name} {
		if err := a.target.Delete(ctx, name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// without returns the manifest and the content of a new object without the records. It has the
// segments of others byte for byte. A segment of which nothing is left is left out; one that
// nobody can read, because its key was destroyed, stays.
func (x *expunging) without(ctx context.Context, m manifest, content []byte) (next manifest, kept []byte, err error) {
	var random [4]byte
	rand.Read(random[:])
	next = m
	next.Object, next.Rows, next.Segments = fmt.Sprintf("%s%x%s", partPrefix(x.kind, x.of.Archive.Day, m.Number), random, objectSuffix), 0, nil
	for _, s := range m.Segments {
		from := s
		s.Offset = int64(len(kept))
		left, err := x.segment(ctx, m, &s, content)
		switch {
		case err != nil:
			return next, nil, err
		case s.Rows == from.Rows:
			s.Object = cmp.Or(s.Object, m.Object)
			kept = append(kept, content[from.Offset:from.Offset+from.Bytes]...)
		case s.Rows > 0:
			changed, err := x.reseal(ctx, left, s.Account, next.Object)
			if err != nil {
				return next, nil, err
			}
			s.Object, s.Bytes = "", int64(len(changed))
			kept = append(kept, changed...)
		}
		if s.Rows > 0 {
			next.Rows, next.Segments = next.Rows+s.Rows, append(next.Segments, s)
		}
	}
	sum := sha256.Sum256(kept)
	next.Bytes, next.SHA256 = int64(len(kept)), fmt.Sprintf("%x", sum)
	now, err := x.store.Now(ctx)
	next.MadeAt = now.UTC().Truncate(time.Second)
	return next, kept, err
}

// segment returns the other records of a segment, and sets s.Rows to their number. A segment that
// cannot be read, or is another account's, keeps its number.
func (x *expunging) segment(ctx context.Context, m manifest, s *segment, content []byte) ([]byte, error) {
	if s.Account != x.of.Account {
		return nil, nil
	}
	records, err := x.records(ctx, m, *s, content)
	if errors.Is(err, postrider.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var left bytes.Buffer
	rows := int64(0)
	for line := range bytes.Lines(records) {
		r, err := decodeRecord(x.kind, line)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w: %w", m.Object, ErrDamaged, err)
		}
		if x.of.Event == r.Event && !x.of.Event.IsZero() || x.of.Endpoint == r.Endpoint && !x.of.Endpoint.IsZero() {
			continue
		}
		rows++
		left.Write(line)
	}
	s.Rows = rows
	return left.Bytes(), nil
}

// reseal compresses and encrypts records of an account, with its key as it is.
func (a *Archive) reseal(ctx context.Context, records []byte, account postrider.AccountID, object string) ([]byte, error) {
	key, err := a.keys.open(ctx, account)
	if err != nil {
		return nil, err
	}
	aead, err := cipherOf(key)
	if err != nil {
		return nil, err
	}
	compressor, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer compressor.Close()
	return encrypt(nil, aead, compressor.EncodeAll(records, nil), authenticated(object, account)), nil
}
