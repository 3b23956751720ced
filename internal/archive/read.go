package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Parts lists the parts that the store knows, by kind, day and number.
func (a *Archive) Parts(ctx context.Context, q store.ArchiveParts) ([]store.ArchivePart, error) {
	return a.store.ArchiveParts(ctx, q)
}

// ErrDamaged is [store.ErrArchiveDamaged].
var ErrDamaged = store.ErrArchiveDamaged

// Query is [store.ArchiveQuery].
type Query = store.ArchiveQuery

// Found is [store.ArchiveFound].
type Found = store.ArchiveFound

// Verified is [store.ArchiveVerified].
type Verified = store.ArchiveVerified

// Verify reads a part, compares its checksum, decrypts every segment whose key still exists and
// counts the records. If the part differs from what was written, the error is ErrDamaged.
func (a *Archive) Verify(ctx context.Context, p store.ArchivePart) (v Verified, err error) {
	m, content, err := a.load(ctx, p)
	if err != nil {
		return v, err
	}
	for _, s := range m.Segments {
		records, err := a.records(ctx, m, s, content)
		if errors.Is(err, postrider.ErrNotFound) {
			v.Destroyed, v.Expunged = v.Destroyed+1, v.Expunged+s.Rows
			continue
		}
		if err != nil {
			return v, fmt.Errorf("verify %s: %w", p.Object, err)
		}
		if n := int64(bytes.Count(records, []byte("\n"))); n != s.Rows {
			return v, fmt.Errorf("verify %s: %w: a segment has %d records in place of %d", p.Object, ErrDamaged, n, s.Rows)
		}
		v.Accounts, v.Rows = v.Accounts+1, v.Rows+s.Rows
	}
	return v, nil
}

// load returns the manifest and the object of a part. It compares them with each other and with
// the part that the store knows. If the part has only an Object, load skips the second
// comparison.
func (a *Archive) load(ctx context.Context, p store.ArchivePart) (m manifest, content []byte, err error) {
	if m, err = a.manifest(ctx, p.Kind, p.Object); err != nil {
		return m, nil, err
	}
	if content, err = a.target.Read(ctx, p.Object); isGone(err) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return m, nil, fmt.Errorf("read %s: %w", p.Object, err)
	}
	sum := sha256.Sum256(content)
	switch {
	case int64(len(content)) != m.Bytes:
		err = fmt.Errorf("it has %d bytes in place of %d", len(content), m.Bytes)
	case hex.EncodeToString(sum[:]) != m.SHA256, p.SHA256 != [32]byte{} && p.SHA256 != sum:
		err = errors.New("its checksum is another one")
	case p.Left > 0 && p.Rows != m.Rows: // at Left == 0, RedoArchiveDay may have given some rows to other parts
		err = fmt.Errorf("its manifest says %d rows in place of %d", m.Rows, p.Rows)
	}
	if err != nil {
		return m, nil, fmt.Errorf("read %s: %w: %w", p.Object, ErrDamaged, err)
	}
	return m, content, nil
}

// manifest returns the manifest of an object.
func (a *Archive) manifest(ctx context.Context, kind store.Kind, object string) (m manifest, err error) {
	text, err := a.target.Read(ctx, manifestName(object))
	if isGone(err) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w", object, err)
	}
	if m, err = decodeManifest(text); err == nil && (m.Object != object || m.Kind != kind) {
		err = errors.New("its manifest is that of another object")
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w: %w", object, ErrDamaged, err)
	}
	return m, nil
}

// records decrypts a segment. If the key of the account was destroyed, the error matches
// postrider.ErrNotFound.
func (a *Archive) records(ctx context.Context, m manifest, s segment, content []byte) ([]byte, error) {
	key, err := a.keys.open(ctx, s.Account)
	if err != nil {
		return nil, err
	}
	if keyName(key) != s.Key {
		return nil, postrider.ErrNotFound // the account has a new key since its old key was destroyed
	}
	records, err := s.open(m.Object, content, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return records, nil
}

// searchTime is the time after which a step of a search reads no further part.
const searchTime = 5 * time.Second

// Search reads the parts that may have records of the query, until it has found q.Limit records
// or has worked for 5 s. With Found.Next as q.Cursor the next call continues.
func (a *Archive) Search(ctx context.Context, q Query) (Found, error) {
	at, err := parsePosition(q.Cursor)
	if err != nil {
		return Found{}, err
	}
	s := search{archive: a, query: withDefaults(q), at: at}
	return s.run(ctx)
}

// Events reads archived events as Search does, and calls yield with each. It reads only whole parts, so
// that Found.Next begins at a part. It has no limit, and Found has no records. It rests nine times as long
// as it works. The events and their bytes belong to yield.
func (a *Archive) Events(ctx context.Context, q Query, yield func(*postrider.Event)) (Found, error) {
	at, err := parsePosition(q.Cursor)
	if err != nil {
		return Found{}, err
	}
	s := search{archive: a, query: withDefaults(q), at: at, yield: yield, pace: pace{begun: time.Now()}}
	s.query.Kind = store.OldEvents
	return s.run(ctx)
}

// run makes one step of a search.
func (s *search) run(ctx context.Context) (Found, error) {
	until := time.Now().Add(searchTime)
	for {
		parts, err := s.archive.store.ArchiveParts(ctx, store.ArchiveParts{
			Kind: s.query.Kind, From: s.query.From, To: s.query.To, After: s.at.ArchivePart,
			Limit: partsPage,
		})
		if err != nil {
			return Found{}, err
		}
		for _, p := range parts {
			full := len(s.found.Records) >= s.query.Limit || time.Now().After(until)
			if !full && s.mayHave(p) {
				if full, err = s.part(ctx, p); err != nil {
					return Found{}, err
				}
			}
			if full {
				s.found.Next = s.at.String()
				return s.found, nil
			}
			s.at = position{ArchivePart: p}
		}
		if len(parts) < partsPage {
			return s.found, nil
		}
	}
}

// AccountOf returns the account of an archived event, or postrider.ErrNotFound.
func (a *Archive) AccountOf(ctx context.Context, event postrider.EventID) (postrider.AccountID, error) {
	for q := (Query{Kind: store.OldEvents, Event: event, Limit: 1}); ; {
		found, err := a.Search(ctx, q)
		switch {
		case err != nil:
			return postrider.AccountID{}, err
		case len(found.Records) > 0:
			return found.Records[0].Account, nil
		case found.Next == "":
			return postrider.AccountID{}, fmt.Errorf("event %s: %w", event, postrider.ErrNotFound)
		}
		q.Cursor = found.Next
	}
}

// partsPage is how many parts one call of the store returns at most.
const partsPage = 100

// search is the state of one step of a search.
type search struct {
	archive *Archive
	query   Query
	at      position
	found   Found

	yield func(*postrider.Event) // nil: the records go to found, up to the limit of the query
	pace  pace                   // with yield
}

// withDefaults limits the days of a search for an event by its id. Except for replays, the
// deliveries of an event are created within a day.
func withDefaults(q Query) Query {
	if q.Limit <= 0 {
		q.Limit = store.DefaultLimit
	}
	if !q.Event.IsZero() && q.From.IsZero() {
		q.From = q.Event.Time()
	}
	if !q.Event.IsZero() && q.To.IsZero() {
		q.To = q.Event.Time().Add(24 * time.Hour)
	}
	if !q.From.IsZero() {
		q.From = store.DayOf(q.From)
	}
	return q
}

// mayHave reports whether a part can have a record of the query.
func (s *search) mayHave(p store.ArchivePart) bool {
	q := s.query
	id := store.RowID(q.Event)
	switch {
	case p.Kind != store.OldEvents || q.Event.IsZero():
		return p.Kind != store.OldEvents || q.Endpoint.IsZero()
	case bytes.Compare(id[:], p.After[:]) <= 0 || bytes.Compare(id[:], p.Last[:]) > 0:
		return false
	}
	return q.Endpoint.IsZero()
}

// matches reports whether the query selects a record.
func (s *search) matches(r store.RestoredRecord) bool {
	q := s.query
	return (q.Event.IsZero() || r.Event == q.Event) && (q.Endpoint.IsZero() || r.Endpoint == q.Endpoint) &&
		(q.Type == "" || r.Type == q.Type)
}

// part adds the matching records of a part to the result. If the result is full, part returns
// true, and s.at says how many matching records the next step has to skip.
func (s *search) part(ctx context.Context, p store.ArchivePart) (full bool, err error) {
	m, content, err := s.archive.load(ctx, p)
	if err != nil {
		return false, err
	}
	s.found.Parts++
	if s.yield != nil {
		s.pace.rest(ctx)
	}
	matched := 0
	for _, segment := range m.Segments {
		if !s.query.Account.IsZero() && segment.Account != s.query.Account {
			continue
		}
		records, err := s.archive.records(ctx, m, segment, content)
		if errors.Is(err, postrider.ErrNotFound) {
			s.found.Expunged += segment.Rows
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", p.Object, err)
		}
		for line := range bytes.Lines(records) {
			r, err := decodeRecord(p.Kind, bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				return false, fmt.Errorf("read %s: %w: %w", p.Object, ErrDamaged, err)
			}
			if !s.matches(r) {
				continue
			}
			if s.yield != nil {
				if err := s.event(ctx, r.Record); err != nil {
					return false, fmt.Errorf("read %s: %w", p.Object, err)
				}
				continue
			}
			if matched++; matched <= s.at.skip {
				continue
			}
			if len(s.found.Records) == s.query.Limit {
				s.at.skip = matched - 1
				return true, nil
			}
			s.found.Records = append(s.found.Records, r)
		}
	}
	return false, nil
}

// event calls yield with the event of a record, and rests.
func (s *search) event(ctx context.Context, record []byte) error {
	e, err := decodeEvent(record)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	s.yield(e)
	s.pace.rest(ctx)
	return context.Cause(ctx)
}

// position is the place where the next step of a search begins. That is after the embedded part,
// and there behind the first skip matching records.
type position struct {
	store.ArchivePart

	skip int
}

// String returns the position as a cursor.
func (p position) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %s %d %d", p.Kind, dayText(p.Day), p.Number, p.skip))
}

func parsePosition(cursor string) (p position, err error) {
	if cursor == "" {
		return p, nil
	}
	wrong := &postrider.InvalidError{Field: "cursor", Reason: "must be a next_cursor of the same list"}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	fields := strings.Split(string(text), " ")
	if err != nil || len(fields) != 4 {
		return p, wrong
	}
	var errs [3]error
	p.Kind = store.Kind(fields[0])
	p.Day, errs[0] = time.Parse(time.DateOnly, fields[1])
	p.Number, errs[1] = strconv.Atoi(fields[2])
	p.skip, errs[2] = strconv.Atoi(fields[3])
	if errors.Join(errs[:]...) != nil || p.skip < 0 {
		return p, wrong
	}
	return p, nil
}

// Restore copies the records of a step of a search into the store, where
// [store.Restored] lists them. Nothing sends them.
func (a *Archive) Restore(ctx context.Context, q Query) (Found, error) {
	found, err := a.Search(ctx, q)
	if err != nil || len(found.Records) == 0 {
		return found, err
	}
	now, err := a.store.Now(ctx)
	if err != nil {
		return Found{}, err
	}
	for i := range found.Records {
		found.Records[i].At = now
	}
	return found, a.store.PutRestored(ctx, found.Records)
}
