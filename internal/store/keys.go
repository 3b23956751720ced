package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/postrider/postrider"
)

// Key is an idempotency key: it means the same event only within its account.
type Key struct {
	Account postrider.AccountID
	Key     string
}

// KeyHolder is what an idempotency key stands for.
type KeyHolder struct {
	Event postrider.EventID
	Hash  [32]byte
}

// ContentHash returns the SHA-256 of what makes two publishes the same: the
// account, the type, the bytes of data and the ordering key.
func ContentHash(e postrider.Event) [32]byte {
	hash := sha256.New()
	for _, part := range [][]byte{e.Account[:], []byte(e.Type), e.Data, []byte(e.OrderingKey)} {
		var size [8]byte // lengths keep the parts apart
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		hash.Write(size[:])
		hash.Write(part)
	}
	return [32]byte(hash.Sum(nil))
}

// Keys returns the distinct idempotency keys of the batches, sorted, so that
// transactions that take them in this order never wait for each other in a
// circle.
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

// Accepted is the outcome of [Accept].
type Accepted struct {
	Published []Published       // one for each batch; sequences are still to be given
	Fresh     []*NewEvent       // the events to store, in their order
	Taken     map[Key]KeyHolder // the keys to store
}

// Accept decides which events of the batches are new, given who holds their
// idempotency keys already. An event that holds its own key, because this
// publish is repeated, is fresh.
func Accept(batches []Batch, held map[Key]KeyHolder) Accepted {
	a := Accepted{Taken: map[Key]KeyHolder{}}
	for _, batch := range batches {
		a.Published = append(a.Published, a.batch(batch, held))
	}
	return a
}

func (a *Accepted) batch(batch Batch, held map[Key]KeyHolder) Published {
	p := Published{Conflict: -1}
	taken := map[Key]KeyHolder{} // by this batch, which may yet be refused
	var fresh []*NewEvent
	for i := range batch {
		e := &batch[i]
		id := e.Event.ID
		if e.Event.IdempotencyKey != "" {
			key, holder := Key{e.Event.Account, e.Event.IdempotencyKey}, KeyHolder{id, ContentHash(e.Event)}
			first := firstHolder(key, holder, held, a.Taken, taken)
			if first.Hash != holder.Hash {
				return Published{Conflict: i}
			}
			taken[key], id = first, first.Event
		}
		p.Events = append(p.Events, PublishedEvent{ID: id, Duplicate: id != e.Event.ID})
		if id == e.Event.ID {
			fresh = append(fresh, e)
		}
	}
	a.Fresh = append(a.Fresh, fresh...)
	for _, e := range fresh {
		if e.Event.IdempotencyKey != "" {
			key := Key{e.Event.Account, e.Event.IdempotencyKey}
			a.Taken[key] = taken[key]
		}
	}
	return p
}

func firstHolder(key Key, otherwise KeyHolder, holders ...map[Key]KeyHolder) KeyHolder {
	for _, h := range holders {
		if holder, ok := h[key]; ok {
			return holder
		}
	}
	return otherwise
}
