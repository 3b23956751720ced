package store

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"github.com/postrider/postrider"
)

// The sizes of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 250
)

// Paging asks for one page of a list.
type Paging struct {
	Limit  int    // 0: DefaultLimit; at most MaxLimit
	Cursor string // the [Page.Next] of the page before; empty for the first page

	// OldestFirst reverses the order of Events, Deliveries, DeadLetters and Notices. Other lists
	// ignore it.
	OldestFirst bool
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T
	Next  string // the cursor of the next page; empty if this is the last one
}

// Size returns the greatest number of items of the page.
func (p Paging) Size() int {
	if p.Limit <= 0 {
		return DefaultLimit
	}
	return min(p.Limit, MaxLimit)
}

// Key returns the key that the cursor holds; the page starts after the item with that key. The
// key is empty if there is no cursor. A cursor that [Cut] did not make is a
// [postrider.InvalidError].
func (p Paging) Key() (string, error) {
	if p.Cursor == "" {
		return "", nil
	}
	key, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || len(key) == 0 || len(key) > 256 {
		return "", errCursor
	}
	return string(key), nil
}

// IDKey returns the id that the cursor holds, and whether there is a cursor.
func IDKey[I ~[16]byte](p Paging) (id I, ok bool, err error) {
	key, err := p.Key()
	if err != nil || key == "" {
		return id, false, err
	}
	if len(key) != len(id) {
		return id, false, errCursor
	}
	return I([]byte(key)), true, nil
}

// AttemptKey returns the key of an attempt for [Cut]: 16 bytes of the delivery and
// 4 of the attempt's number.
func AttemptKey(a postrider.Attempt) string {
	return string(binary.BigEndian.AppendUint32(a.Delivery[:], uint32(a.Number)))
}

// AttemptCursor returns the cursor of the page that starts after the attempt with this number.
func AttemptCursor(delivery postrider.DeliveryID, number int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(AttemptKey(postrider.Attempt{Delivery: delivery, Number: number})))
}

// AttemptsAfter returns where a page of attempts begins: with the attempts of delivery that have
// a greater number, followed by the attempts of older deliveries. Without a cursor the id is
// greater than that of any delivery.
func AttemptsAfter(p Paging) (delivery postrider.DeliveryID, number int, err error) {
	key, err := p.Key()
	switch {
	case err != nil:
		return delivery, 0, err
	case key == "":
		for i := range delivery {
			delivery[i] = 0xff
		}
		return delivery, math.MaxInt32, nil
	case len(key) != len(delivery)+4:
		return delivery, 0, errCursor
	}
	copy(delivery[:], key)
	return delivery, int(binary.BigEndian.Uint32([]byte(key[len(delivery):]))), nil
}

// HealthKey returns the key of a change of health for [Cut]: its number.
func HealthKey(h postrider.EndpointHealth) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(h.Number)))
}

// HealthBelow returns a number. The page has the changes of health with lower numbers. Without a
// cursor the number is greater than any.
func HealthBelow(p Paging) (number int64, err error) {
	key, err := p.Key()
	switch {
	case err != nil:
		return 0, err
	case key == "":
		return math.MaxInt64, nil
	case len(key) != 8:
		return 0, errCursor
	}
	return int64(binary.BigEndian.Uint64([]byte(key))), nil
}

// NextID returns the least id that is greater than the given one.
func NextID[I ~[16]byte](id I) I {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// Later returns the greater of two ids.
func Later[I ~[16]byte](a, b I) I {
	if string(a[:]) < string(b[:]) {
		return b
	}
	return a
}

// Cut makes a page from items. The caller fetches one item more than the page may have; if that
// item is there, a further page exists. The function key returns an item's key for the cursor.
func Cut[T any](items []T, p Paging, key func(T) string) Page[T] {
	size := p.Size()
	if len(items) <= size {
		return Page[T]{Items: items}
	}
	return Page[T]{Items: items[:size], Next: EncodeCursor(key(items[size-1]))}
}

// EncodeCursor returns the cursor of the page that starts after the item with this key.
func EncodeCursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

var errCursor error = &postrider.InvalidError{Field: "cursor", Reason: "must be a next_cursor of the same list"}

// First returns the only item of a page that was queried by id or name, and
// postrider.ErrNotFound if the page is empty.
func First[T any](p Page[T], err error) (item T, _ error) {
	switch {
	case err != nil:
		return item, err
	case len(p.Items) == 0:
		return item, postrider.ErrNotFound
	}
	return p.Items[0], nil
}
