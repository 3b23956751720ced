package api

import (
	"sync"

	"github.com/postrider/postrider"
)

// bodies bounds the memory that the bodies of requests take, for the whole
// server and for each key, and knows those that are being read.
//
// Bytes count from their arrival until the request is answered: first as the
// body, then as the events that were made of it. What was only announced does
// not count, so a client that announces much and sends little takes nothing from
// others.
//
// When all of a key's bytes are taken by bodies that are each half read, none
// of them could ever finish. So the last part of its share, enough for the
// largest body, is for one body at a time: the first that asks for it, until it
// is read. The same holds for the whole budget.
type bodies struct {
	whole   int64 // bytes of all keys together
	most    int64 // bytes of one key: a quarter of whole
	largest int64 // bytes at the end of whole, and of most, for one body at a time
	reserve int64 // bytes of whole that only keys with little use: at most modest
	modest  int64

	mu      sync.Mutex
	held    int64
	last    *intake // which has the last part of whole; nil: no body
	keys    map[postrider.KeyID]*share
	reading map[*intake]struct{}
	ended   bool
}

// share is what one key holds.
type share struct {
	held int64
	last *intake // which has the last part of the share; nil: no body
}

// newBodies returns a budget of whole bytes for bodies of at most largest.
func newBodies(whole, largest int64) *bodies {
	most := whole / 4
	return &bodies{
		whole: whole, most: most, largest: min(largest, most*3/4), reserve: whole / 8, modest: most / 16,
		keys: map[postrider.KeyID]*share{}, reading: map[*intake]struct{}{},
	}
}

// begin notes that a body is about to be read. It refuses the body when the
// server ends, and when there is no room for a byte of it.
func (b *bodies) begin(in *intake) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		in.end()
		return errDraining
	}
	fits := b.fits(in, 1)
	b.leave(in) // it has taken nothing yet, so it keeps no last part from others
	if !fits {
		return errNoRoom
	}
	b.reading[in] = struct{}{}
	return nil
}

// take counts n more bytes of a body that is being read, or returns errNoRoom.
func (b *bodies) take(in *intake, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(in, n) {
		return errNoRoom
	}
	in.held += n
	b.held += n
	b.share(in.key).held += n
	return nil
}

// fits reports whether n more bytes of the body may be in memory.
func (b *bodies) fits(in *intake, n int64) bool {
	s := b.share(in.key)
	own, all := s.held+n, b.held+n
	if own > b.most || all > b.whole {
		return false
	}
	if own > b.most-b.largest && !claim(&s.last, in) {
		return false
	}
	if own <= b.modest {
		return true
	}
	return all <= b.whole-b.reserve-b.largest || all <= b.whole-b.reserve && claim(&b.last, in)
}

// claim gives a last part to the body, if no other has it.
func claim(last **intake, in *intake) bool {
	if *last == nil {
		*last = in
	}
	return *last == in
}

// share returns what the key holds. Keys that hold nothing are forgotten when
// there are many.
func (b *bodies) share(key postrider.KeyID) *share {
	s := b.keys[key]
	if s != nil {
		return s
	}
	if len(b.keys) >= cacheSize {
		for other, idle := range b.keys {
			if *idle == (share{}) {
				delete(b.keys, other)
			}
		}
	}
	s = &share{}
	b.keys[key] = s
	return s
}

// finish notes that a body is not read any more; its bytes still count.
func (b *bodies) finish(in *intake) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, in)
	b.leave(in)
}

// leave lets other bodies have the last parts.
func (b *bodies) leave(in *intake) {
	if s := b.share(in.key); s.last == in {
		s.last = nil
	}
	if b.last == in {
		b.last = nil
	}
}

// release gives the bytes of an answered request back.
func (b *bodies) release(in *intake) {
	if in.held == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= in.held
	b.share(in.key).held -= in.held
	in.held = 0
}

// end stops the reading of every body that has not arrived, and refuses those
// that follow.
func (b *bodies) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for in := range b.reading {
		in.end()
	}
}
