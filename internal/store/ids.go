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
	now func() time.Time

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
	return &IDs{now: now, random: rand.NewChaCha8(*seed)}
}

// NewID returns the source's next id.
func NewID[I ~[16]byte](s *IDs) I {
	s.mu.Lock()
	defer s.mu.Unlock()

	// RFC 9562, section 6.2, method 3: the 12 bits after the milliseconds are the fraction of the
	// millisecond. If the clock has not moved since the last id, the fraction grows by one.
	at := s.now()
	tick := at.UnixMilli()<<12 | int64(at.Nanosecond()%1e6)<<12/1e6
	s.last = max(tick, s.last+1)

	var random [10]byte
	binary.BigEndian.PutUint16(random[:], uint16(s.last&0xfff))
	binary.BigEndian.PutUint64(random[2:], s.random.Uint64())
	return postrider.MakeID[I](time.UnixMilli(s.last>>12), random)
}
