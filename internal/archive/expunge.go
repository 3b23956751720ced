package archive

import (
	"bytes"
	"cmp"
	"context"
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

// expungeStep is the time after which a step of an expunge begins with no further day.
const expungeStep = time.Second

// Expunge removes the records of an event or endpoint from the archive. It begins at the day
// e.Archive.Day and works for about a second. It stores its progress in e.Archive, and returns
// the changed e. It waits while this node archives a part. While another node archives, it does
// nothing.
//
// Expunge replaces an object that has such records. It writes a new object with a manifest and
// reads both back; the store records the new object in place of the old one in one step; then the
// old object is deleted. So after a crash the store knows exactly one of the two. The other one
// is deleted when Expunge works on the day again. A day is done only after all its objects are.
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

// expungeDay works on the objects of the next day. The limit for one object is PartTime.
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

// expunging is the work of an expunge on one kind and day.
type expunging struct {
	*Archive

	of        postrider.Expunge
	kind      store.Kind
	objects   []string                     // names of the objects that have a manifest, sorted, when list ran
	there     map[string]bool              // the objects that have a manifest now
	parts     map[string]store.ArchivePart // the recorded parts that the store knows now, by the name of their object
	announced []store.ArchivePart          // the others
}

// list reads the objects and the parts of the day. It deletes an object of an announced part: the
// node that made it has died, and the next one makes another object. It also deletes an object that
// has no manifest and no part: a node died before it wrote the manifest, or after it deleted the
// manifest.
func (x *expunging) list(ctx context.Context) error {
	if err := x.listParts(ctx); err != nil {
		return err
	}
	for _, p := range x.announced {
		if err := x.store.ReplaceArchivePart(ctx, store.ReplaceArchivePart{Part: p}); err != nil { // nobody can record it now
			return err
		}
	}
	x.removeOld(ctx, x.announced)
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

// listParts reads the parts of the day from the store.
func (x *expunging) listParts(ctx context.Context) error {
	x.parts, x.announced = map[string]store.ArchivePart{}, nil
	day := x.of.Archive.Day
	for q := (store.ArchiveParts{Kind: x.kind, From: day, To: day.AddDate(0, 0, 1), Announced: true, Limit: partsPage}); ; {
		page, err := x.store.ArchiveParts(ctx, q)
		if err != nil {
			return err
		}
		for _, p := range page {
			if p.IsAnnounced() {
				x.announced = append(x.announced, p)
			} else {
				x.parts[p.Object] = p
			}
		}
		if len(page) < partsPage {
			return nil
		}
		q.After = page[len(page)-1]
	}
}

// away reports whether the archive lacks the object of a part.
func (x *expunging) away() bool {
	for name := range x.parts {
		if !x.there[name] {
			return true
		}
	}
	return false
}

// object removes the records from an object. If a node left the object behind when it died,
// object deletes it. An object that no part has is treated like the others, because the store may
// have been restored from a backup that does not know the object.
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

// adoptTwin handles an object that no part has. It looks for the part with the same rows: one of
// the two objects was written to replace the other. If the part's object is whole, the object of
// m is in excess, because a node died before it recorded the new object or before it deleted the
// old one. If the part's object is gone or damaged, because the store was restored from an older
// backup, the object of m takes its place.
func (x *expunging) adoptTwin(ctx context.Context, m manifest) (inExcess bool, err error) {
	if err := x.listParts(ctx); err != nil { // an earlier object may have been recorded in place of a part's
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

// replace records the object of next in place of the object of p. p's object has `fewer` records
// more than next. If next has no records, the store forgets the part.
func (x *expunging) replace(ctx context.Context, p store.ArchivePart, next manifest, fewer int64) error {
	r := store.ReplaceArchivePart{Part: p, Fewer: fewer, Expunge: x.of.ID}
	if next.Rows > 0 {
		var err error
		if r.With, err = next.part(); err != nil {
			return err
		}
	}
	if x.there[next.Object] { // adoptTwin found the object: another expunge has counted these records
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

// remove deletes a manifest and then its object. If only the object is left, list deletes it.
func (a *Archive) remove(ctx context.Context, name string) error {
	for _, name := range []string{manifestName(name), name} {
		if err := a.target.Delete(ctx, name); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// without returns the manifest and the content of a new object without the expunged records. The
// segments of other accounts keep their bytes. A segment without records is left out. A segment
// whose key was destroyed stays, because nobody can read it.
func (x *expunging) without(ctx context.Context, m manifest, content []byte) (next manifest, kept []byte, err error) {
	next = m
	next.Object, next.Rows, next.Segments = newObject(x.kind, x.of.Archive.Day, m.Number), 0, nil
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

// segment returns the records of a segment that stay, and sets s.Rows to their number. If the
// segment cannot be read, or belongs to another account, s.Rows does not change.
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

// reseal compresses and encrypts records of an account with its existing key.
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
