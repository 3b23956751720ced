package store

import (
	"bytes"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// MaxAcceptedHead is how many bytes of the head of an accepted response are stored in the
// attempt's own row. A longer one is not stored.
const MaxAcceptedHead = 512

// headIDSize is the size of a reference: the id of a delivery. A head of this size is not
// stored, because it would be read as one.
const headIDSize = len(postrider.DeliveryID{})

const (
	// headAge is how long a stored head is referred to. What refers to a head of a delivery
	// that was expunged, or deleted before its day, has none; headAge bounds how many do.
	headAge = time.Hour
	// maxHeads is how many endpoints Heads remembers.
	maxHeads = 10_000
)

// InOneRow reports whether all that is kept of an attempt is in its own row: it was accepted
// with a body of at most [MaxAcceptedBody] bytes. Nearly every attempt is.
func InOneRow(a *postrider.Attempt) bool {
	return a.Outcome == postrider.OutcomeAccepted && len(a.ResponseBody) <= MaxAcceptedBody
}

// AcceptedHead returns what is stored of the head of an attempt that is [InOneRow]. Nil:
// nothing.
func AcceptedHead(a *postrider.Attempt) []byte {
	if n := len(a.ResponseHead); n == 0 || n > MaxAcceptedHead || n == headIDSize {
		return nil
	}
	return a.ResponseHead
}

// Heads encodes the heads of accepted responses for the rows of attempts. An endpoint answers
// nearly always with the same head, so a row has either a head or, in 16 bytes, the id of a
// delivery of the same endpoint and day whose row has an equal one. The zero value is ready;
// it is used from any goroutine.
type Heads struct {
	mu   sync.Mutex
	last map[postrider.EndpointID]*storedHead
}

// storedHead is a head that the row of an attempt of the delivery has.
type storedHead struct {
	delivery postrider.DeliveryID
	head     []byte
}

// serves reports whether the row of an attempt with the head may refer to h.
func (h *storedHead) serves(d postrider.DeliveryID, head []byte) bool {
	if h == nil || !bytes.Equal(h.head, head) {
		return false
	}
	at, stored := d.Time(), h.delivery.Time()
	return at.Sub(stored).Abs() <= headAge && DayOf(at).Equal(DayOf(stored))
}

// Encode returns what the row of each settlement gets, nil for null. The settlements must be
// stored in one transaction; the caller calls stored once it is committed.
func (h *Heads) Encode(settlements []Settlement) (heads [][]byte, stored func()) {
	heads = make([][]byte, len(settlements))
	fresh := map[postrider.EndpointID]*storedHead{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range settlements {
		a, c := &settlements[i].Attempt, &settlements[i].Claimed
		if !InOneRow(a) {
			continue
		}
		head := AcceptedHead(a)
		if head == nil {
			continue
		}
		if known := h.last[c.Endpoint]; known.serves(c.ID, head) {
			heads[i] = known.delivery[:]
			continue
		}
		if known := fresh[c.Endpoint]; known.serves(c.ID, head) {
			heads[i] = known.delivery[:]
			continue
		}
		heads[i], fresh[c.Endpoint] = head, &storedHead{c.ID, head}
	}
	return heads, func() { h.remember(fresh) }
}

// remember notes heads that are stored. A retry of an older day does not take the place of the
// head of today.
func (h *Heads) remember(fresh map[postrider.EndpointID]*storedHead) {
	if len(fresh) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = map[postrider.EndpointID]*storedHead{}
	}
	for endpoint, head := range fresh {
		known, ok := h.last[endpoint]
		if ok && known.delivery.Compare(head.delivery) > 0 {
			continue
		}
		if !ok && len(h.last) >= maxHeads {
			for other := range h.last { // any: the map has no order of use
				delete(h.last, other)
				break
			}
		}
		h.last[endpoint] = head
	}
}
