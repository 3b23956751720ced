package store

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// IDs makes ids that order by the time they were made, strictly within one
// source, so that rows land at the right end of every btree. It may be used
// from any goroutine.
type IDs struct {
	now func() time.Time

	mu     sync.Mutex
	random *rand.ChaCha8
	last   int64 // in 1/4096 ms
}

// NewIDs returns a source whose ids carry the time of now. Its random bits
// come from seed; nil draws one from the system.
func NewIDs(now func() time.Time, seed *[32]byte) *IDs {
	if seed == nil {
		seed = new([32]byte)
		crand.Read(seed[:]) // never fails, by its documentation
	}
	return &IDs{now: now, random: rand.NewChaCha8(*seed)}
}

// NewID returns the source's next id.
func NewID[I ~[16]byte](s *IDs) I {
	s.mu.Lock()
	defer s.mu.Unlock()

	// RFC 9562, 6.2, method 3: the 12 bits after the millisecond are its
	// fraction, moved on by one where the clock did not.
	at := s.now()
	tick := at.UnixMilli()<<12 | int64(at.Nanosecond()%1e6)<<12/1e6
	s.last = max(tick, s.last+1)

	var random [10]byte
	binary.BigEndian.PutUint16(random[:], uint16(s.last&0xfff))
	binary.BigEndian.PutUint64(random[2:], s.random.Uint64())
	return postrider.MakeID[I](time.UnixMilli(s.last>>12), random)
}
