package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/postrider/postrider"
)

// Key is an idempotency key of an account. The same text of another account is another key.
type Key struct {
	Account postrider.AccountID
	Key     string
}

// KeyOwner is the event that an idempotency key stands for, with the [ContentHash] of that event.
// Publish writes the KeyOwner together with the event, and ForgetKeys deletes it.
type KeyOwner struct {
	Event postrider.EventID
	Hash  [32]byte
}

// ContentHash returns a SHA-256. Two publishes have the same content if their hashes are equal.
// The hash covers the account, the type, the bytes of data, the ordering key, MaxAttempts, and what the
// event says of itself and its endpoints, if it has one of them. It does not cover when the event occurred.
func ContentHash(e postrider.Event) [32]byte {
	e.OccurredAt, e.Row = time.Time{}, postrider.OutboxID{}
	last := strconv.AppendInt(nil, int64(e.MaxAttempts), 10)
	if says(&e) {
		last = appendAbout(append(last, '\n'), &e)
	}
	hash := sha256.New()
	for _, part := range [][]byte{e.Account[:], []byte(e.Type), e.Data, []byte(e.OrderingKey), last} {
		var size [8]byte // the length of a part marks where it ends
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		hash.Write(size[:])
		hash.Write(part)
	}
	return [32]byte(hash.Sum(nil))
}

// Keys returns the distinct idempotency keys of the batches, sorted. Transactions that lock keys
// in this order cannot deadlock.
func Keys(batches []Batch) []Key {
	var keys []Key
	for _, batch := range batches {
		for _, e := range batch {
			if e.Event.IdempotencyKey != "" {
				keys = append(keys, Key{e.Event.Account, e.Event.IdempotencyKey})
			}
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(a.Account.Compare(b.Account), cmp.Compare(a.Key, b.Key))
	})
	return slices.Compact(keys)
}

// ReadRow is a row of an outbox, with the event that was read from it.
type ReadRow struct {
	ID    postrider.OutboxID
	Event postrider.EventID
}

// ReadRows returns the distinct rows of the batches, sorted as [Keys] are, each with the first event
// that has it.
func ReadRows(batches []Batch) []ReadRow {
	var rows []ReadRow
	for _, batch := range batches {
		for i := range batch {
			if e := &batch[i].Event; !e.Row.IsZero() {
				rows = append(rows, ReadRow{e.Row, e.ID})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b ReadRow) int { return a.ID.Compare(b.ID) })
	return slices.CompactFunc(rows, func(a, b ReadRow) bool { return a.ID == b.ID })
}

// Deduped is the result of [Dedupe].
type Deduped struct {
	Published []Published      // one result for each batch; the store sets the sequences
	New       []*NewEvent      // the events to store, in the order of the batches
	NewKeys   map[Key]KeyOwner // the idempotency keys of the events in New
	NewRows   Recorded         // the rows to record; nil: none
}

// Recorded has rows of outboxes that are recorded, with their events.
type Recorded map[postrider.OutboxID]postrider.EventID

// Dedupe decides which events of the batches are new. The parameter owners has the stored owners
// of their idempotency keys, and recorded the stored records of their rows.
//
// An event whose row is recorded for another event is a duplicate, and the caller gets the other's id.
// Its idempotency key does not matter.
//
// For an event with a key there are three cases:
//
//   - The key has no owner. The event is new and becomes the owner.
//   - The owner has the same content. The event is a duplicate, and the caller gets the owner's
//     id.
//   - The owner has other content. The whole batch is refused: none of its events is stored, and
//     none of its keys gets an owner.
//
// Batches are decided in their order, so an event of an earlier batch can own the key of a later
// one.
//
// An event that already owns its key is new. That happens when a publish is repeated after its
// reply was lost. The store then skips the rows that it has.
func Dedupe(batches []Batch, owners map[Key]KeyOwner, recorded Recorded) Deduped {
	d := Deduped{NewKeys: map[Key]KeyOwner{}}
	for _, batch := range batches {
		d.Published = append(d.Published, d.batch(batch, owners, recorded))
	}
	return d
}

func (d *Deduped) batch(batch Batch, owners map[Key]KeyOwner, recorded Recorded) Published {
	p := Published{Conflict: -1}
	own := map[Key]KeyOwner{} // not yet in NewKeys, because the batch can still be refused
	var rows Recorded         // not yet in NewRows; nil: the batch has no new row
	var events []*NewEvent
	for i := range batch {
		e := &batch[i]
		id, read := firstOfRow(&e.Event, recorded, d.NewRows, rows)
		if e.Event.IdempotencyKey != "" && id == e.Event.ID {
			key, owner := Key{e.Event.Account, e.Event.IdempotencyKey}, KeyOwner{id, ContentHash(e.Event)}
			first := firstOwner(key, owner, owners, d.NewKeys, own)
			if first.Hash != owner.Hash {
				return Published{Conflict: i}
			}
			own[key], id = first, first.Event
		}
		if !e.Event.Row.IsZero() && !read {
			if rows == nil {
				rows = Recorded{}
			}
			rows[e.Event.Row] = id
		}
		p.Events = append(p.Events, PublishedEvent{ID: id, Duplicate: id != e.Event.ID})
		if id == e.Event.ID {
			events = append(events, e)
		}
	}
	d.New = append(d.New, events...)
	for _, e := range events {
		if e.Event.IdempotencyKey != "" {
			key := Key{e.Event.Account, e.Event.IdempotencyKey}
			d.NewKeys[key] = own[key]
		}
	}
	if d.NewRows == nil {
		d.NewRows = rows
	} else {
		maps.Copy(d.NewRows, rows)
	}
	return p
}

// firstOfRow returns the event for which the row of e is recorded, and true. If e has no row, or the row
// is not recorded, it returns the event itself, and false.
func firstOfRow(e *postrider.Event, records ...Recorded) (id postrider.EventID, read bool) {
	if e.Row.IsZero() {
		return e.ID, false
	}
	for _, r := range records {
		if first, ok := r[e.Row]; ok {
			return first, true
		}
	}
	return e.ID, false
}

// firstOwner returns the key's owner from the first map that has the key, or otherwise.
func firstOwner(key Key, otherwise KeyOwner, maps ...map[Key]KeyOwner) KeyOwner {
	for _, m := range maps {
		if owner, ok := m[key]; ok {
			return owner
		}
	}
	return otherwise
}
