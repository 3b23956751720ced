package store

import (
	"bytes"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// MaxAcceptedHead is the greatest size, in bytes, of an accepted response's head that is stored
// in the row of its attempt. A longer head is not stored.
const MaxAcceptedHead = 512

// headIDSize is the size of a reference to a head: the id of a delivery. A head of exactly this
// size is not stored, because a reader would take it for a reference.
const headIDSize = len(postrider.DeliveryID{})

const (
	// headAge is the greatest time between a stored head and an attempt that refers to it. When a
	// delivery is expunged, or deleted before its day, the attempts that refer to its head lose the
	// head. headAge limits the number of such attempts.
	headAge = time.Hour
	// maxHeads is the greatest number of endpoints whose heads Heads remembers.
	maxHeads = 10_000
)

// InOneRow reports whether the attempt is stored completely in one row. It is if the attempt was
// accepted with a response body of at most [MaxAcceptedBody] bytes. Nearly every attempt is.
func InOneRow(a *postrider.Attempt) bool {
	return a.Outcome == postrider.OutcomeAccepted && len(a.ResponseBody) <= MaxAcceptedBody
}

// AcceptedHead returns the response head that is stored for an attempt that is [InOneRow], or nil
// if none is stored.
func AcceptedHead(a *postrider.Attempt) []byte {
	if n := len(a.ResponseHead); n == 0 || n > MaxAcceptedHead || n == headIDSize {
		return nil
	}
	return a.ResponseHead
}

// Heads encodes the response heads of accepted attempts for their rows. An endpoint nearly always
// answers with the same head. So most rows have no head, and refer to an equal one by 16 bytes:
// the id of another delivery of the same endpoint and day. The zero Heads is ready for use, from
// any goroutine.
type Heads struct {
	mu   sync.Mutex
	last map[postrider.EndpointID]*storedHead
}

// storedHead is a head, and the delivery whose attempt's row has it.
type storedHead struct {
	delivery postrider.DeliveryID
	head     []byte
}

// serves reports whether the row of an attempt of delivery d with this head may refer to h.
func (h *storedHead) serves(d postrider.DeliveryID, head []byte) bool {
	if h == nil || !bytes.Equal(h.head, head) {
		return false
	}
	at, stored := d.Time(), h.delivery.Time()
	return at.Sub(stored).Abs() <= headAge && DayOf(at).Equal(DayOf(stored))
}

// Encode returns the value for the row of each settlement; nil stands for null. The caller must
// store the settlements in one transaction and call stored after its commit.
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

// remember notes heads that are stored. The head of an older delivery does not replace that of a
// newer one.
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
			for other := range h.last { // removes any one endpoint
				delete(h.last, other)
				break
			}
		}
		h.last[endpoint] = head
	}
}
