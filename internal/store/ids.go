package store

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// IDs makes ids that sort by the time when they were made. Within one IDs the order is strict, so
// new rows go to the right end of every btree. Its use is safe from any goroutine.
type IDs struct {
	now  func() time.Time
	node uint32

	mu     sync.Mutex
	random *rand.ChaCha8
	last   int64 // time of the last id, in 1/4096 ms
}

// NewIDs returns a source of ids. Each id has the time that the function now returns when the id
// is made. The seed sets the random bits; if it is nil, the system draws a seed.
func NewIDs(now func() time.Time, seed *[32]byte) *IDs {
	if seed == nil {
		seed = new([32]byte)
		crand.Read(seed[:]) // never fails, as its documentation promises
	}
	random := rand.NewChaCha8(*seed)
	return &IDs{now: now, node: 1 + uint32(random.Uint64()%(1<<31-1)), random: random}
}

// Node returns the number of this source, of 31 bits and never 0. It is in the ids of its events. It
// is random. The dispatcher registers it as the incarnation of its node, and the store refuses a
// second living node with the same.
func (s *IDs) Node() uint32 { return s.node }

// NewID returns the source's next id.
func NewID[I ~[16]byte](s *IDs) I {
	s.mu.Lock()
	defer s.mu.Unlock()

	at, fraction := s.next()
	var random [10]byte
	binary.BigEndian.PutUint16(random[:], fraction)
	binary.BigEndian.PutUint64(random[2:], s.random.Uint64())
	return postrider.MakeID[I](at, random)
}

// NewEventID returns the source's next id for an event.
func NewEventID(s *IDs) postrider.EventID {
	s.mu.Lock()
	defer s.mu.Unlock()

	at, fraction := s.next()
	return postrider.MakeEventID(at, fraction, s.node)
}

// EventTime returns when the id of an event was made, to the microsecond.
func EventTime(id postrider.EventID) time.Time {
	fraction := int64(binary.BigEndian.Uint16(id[6:]) & 0xfff) // see next
	return id.Time().Add(time.Duration(fraction * 1e6 >> 12))
}

// OldestID is how much older than its delivery an id may be. The poll for new deliveries of other
// nodes looks so much further back.
const OldestID = time.Second

// NewDeliveryIDs returns the function that makes the ids of the deliveries of an event. They carry the
// event, unless it is older than OldestID because its publish had to wait. The ordinals begin anywhere
// and are an odd number apart, modulo 2^24. Both are random, so an id does not tell how many endpoints
// got the event.
func NewDeliveryIDs(s *IDs, event postrider.EventID) func() postrider.DeliveryID {
	if s.now().Sub(event.Time()) > OldestID {
		return func() postrider.DeliveryID { return NewID[postrider.DeliveryID](s) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	random := s.random.Uint64()
	ordinal, step := uint32(random), uint32(random>>32)|1
	return func() postrider.DeliveryID {
		ordinal += step
		return postrider.DeliveryOf(event, ordinal)
	}
}

// next returns the time of the next id, to the millisecond, and the fraction of the millisecond.
//
// RFC 9562, section 6.2, method 3: the 12 bits after the milliseconds are the fraction of the
// millisecond. If the clock has not moved since the last id, the fraction grows by one. The caller has
// the lock.
func (s *IDs) next() (at time.Time, fraction uint16) {
	now := s.now()
	tick := now.UnixMilli()<<12 | int64(now.Nanosecond()%1e6)<<12/1e6
	s.last = max(tick, s.last+1)
	return time.UnixMilli(s.last >> 12), uint16(s.last & 0xfff)
}

// NamedEvent returns the event that the row of a delivery must name. It is zero if the id of the
// delivery carries the event.
func NamedEvent(delivery postrider.DeliveryID, event postrider.EventID) postrider.EventID {
	if postrider.EventOf(delivery) == event {
		return postrider.EventID{}
	}
	return event
}
