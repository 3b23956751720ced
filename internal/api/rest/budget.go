package rest

import (
	"sync"

	"github.com/postrider/postrider"
)

// bodies limits the memory that request bodies use, for the whole server and for each API key. It
// also tracks the bodies that are being read, so that a stop of the server can abort them.
//
// A byte counts from its arrival until the response: first as part of the body, later as part of
// the events decoded from the body. An announced Content-Length does not count. So a client that
// announces much and sends little takes nothing from other clients.
//
// Without a further rule, many half-read bodies could use up a key's whole share, and none of them
// could finish. So the last part of the share is reserved for one body at a time, and it is large
// enough for the largest body. The first body that needs the last part keeps it until that body is
// read. The same rule holds for the whole budget.
type bodies struct {
	// whole is the limit for all keys together, in bytes.
	whole int64
	// most is the limit for one key, in bytes: a quarter of whole.
	most int64
	// largest is the size of the last part, in bytes: the last part of whole, and also of each
	// key's share. One body at a time may use a last part.
	largest int64
	// reserve is the part of whole that only modest keys may use, in bytes. It keeps a few busy
	// keys from blocking all other keys.
	reserve int64
	// modest is the number of bytes up to which a key is modest. For a modest key only the limit
	// whole applies.
	modest int64

	// mu guards the fields below and the field held of every intake.
	mu sync.Mutex
	// held counts the bytes of all keys.
	held int64
	// last is the body that has the last part of whole; nil: no body.
	last *intake
	// keys has the share of each key that sent a body. See share for its limit.
	keys map[Payer]*share
	// reading has the bodies between begin and finish.
	reading map[*intake]struct{}
	// ended is true after end: no further body is read.
	ended bool
}

// Payer identifies a caller for the budget: the session or, without a session, the API key.
type Payer [16]byte

// PayerOf returns the payer of the bodies that the caller sends.
func PayerOf(c *postrider.Caller) Payer {
	if !c.Session.IsZero() {
		return Payer(c.Session)
	}
	return Payer(c.Key)
}

// maxShares is the number of shares at which the shares without bytes are removed.
const maxShares = 4096

// share is the use of the budget by one key or session.
type share struct {
	// held is the number of bytes that the key uses now. A byte counts until the response to its
	// request.
	held int64
	// last is the body that has the last part of the share; nil: no body.
	last *intake
}

// newBodies returns a budget of whole bytes for bodies of at most largest
// bytes. A last part is at most three quarters of a key's share, so that small
// bodies of the key are read beside a large one.
func newBodies(whole, largest int64) *bodies {
	most := whole / 4
	return &bodies{
		whole: whole, most: most, largest: min(largest, most*3/4), reserve: whole / 8, modest: most / 16,
		keys: map[Payer]*share{}, reading: map[*intake]struct{}{},
	}
}

// begin registers a body before its first read. It returns errDraining if the
// server is stopping, and errOverBudget if the budget cannot hold one more byte. That
// check refuses a request before its body uses the network.
func (b *bodies) begin(in *intake) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		in.end()
		return errDraining
	}
	fits := b.fits(in, 1)
	b.leave(in) // fits may have claimed a last part, which charge claims again when needed
	if !fits {
		return errOverBudget
	}
	b.reading[in] = struct{}{}
	return nil
}

// charge adds n more bytes to the budget, or returns errOverBudget and charges
// nothing.
func (b *bodies) charge(in *intake, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(in, n) {
		return errOverBudget
	}
	in.held += n
	b.held += n
	b.share(in.payer).held += n
	return nil
}

// fits reports whether n more bytes of the body fit into the budget. It may claim a last part for
// the body. The caller must hold b.mu. The defaults are 48 MiB for all keys, and bodies of up to 8
// MiB:
//
//	a key, 12 MiB    │ 4 MiB for any of its bodies │ 8 MiB for one of its bodies │
//	all keys, 48 MiB │ 34 MiB for any │ 8 MiB for one body │ 6 MiB for modest keys │
//
// A key is modest while it holds at most 768 KiB. A modest key may use the whole 48 MiB, however
// much other keys hold. So a few busy publishers cannot shut out a key that sends an event now and
// then.
func (b *bodies) fits(in *intake, n int64) bool {
	s := b.share(in.payer)
	own, all := s.held+n, b.held+n
	// No claim exceeds these hard limits.
	if own > b.most || all > b.whole {
		return false
	}
	// Above this number of bytes, the body needs the last part of the key's share.
	if own > b.most-b.largest && !claim(&s.last, in) {
		return false
	}
	if own <= b.modest {
		return true
	}
	// Keys that are not modest leave the reserve free. The part before the reserve is the last part
	// of the whole budget, for one body at a time.
	return all <= b.whole-b.reserve-b.largest || all <= b.whole-b.reserve && claim(&b.last, in)
}

// claim reserves a last part for the body if the part is free. It reports whether the body has the
// part.
func claim(last **intake, in *intake) bool {
	if *last == nil {
		*last = in
	}
	return *last == in
}

// share returns the share of the key, and creates it if necessary. If there are maxShares shares,
// it first removes those without bytes and without a last part. The caller must hold b.mu.
func (b *bodies) share(key Payer) *share {
	s := b.keys[key]
	if s != nil {
		return s
	}
	if len(b.keys) >= maxShares {
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

// finish ends the read of a body, whether it succeeded or not. The body's bytes
// still count until release.
func (b *bodies) finish(in *intake) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, in)
	b.leave(in)
}

// leave frees the last parts that the body has. The caller must hold b.mu.
func (b *bodies) leave(in *intake) {
	if s := b.share(in.payer); s.last == in {
		s.last = nil
	}
	if b.last == in {
		b.last = nil
	}
}

// release returns the bytes of an answered request to the budget. A repeated
// call does nothing.
func (b *bodies) release(in *intake) {
	if in.held == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= in.held
	b.share(in.payer).held -= in.held
	in.held = 0
}

// end aborts every body that is being read, and makes begin refuse later ones.
// Bodies that have been read are not affected: their requests get a response.
func (b *bodies) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for in := range b.reading {
		in.end()
	}
}
