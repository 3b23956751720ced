package receiver

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"sync"
	"time"
)

// MemoryOptions are the limits of a [Memory].
type MemoryOptions struct {
	// How long a processed event is remembered; default 8 days, a day more than Postrider repeats
	// an event.
	MaxAge    time.Duration
	MaxEvents int // how many processed events are remembered, the newest ones; default 100,000, about 30 MB
}

func (o MemoryOptions) withDefaults() MemoryOptions {
	o.MaxAge = cmp.Or(o.MaxAge, 8*24*time.Hour)
	o.MaxEvents = cmp.Or(o.MaxEvents, 100_000)
	return o
}

// Memory is a [Store] in the memory of this process. Its content is lost when the process ends, so
// an event that is repeated after a restart is processed again. Its methods never block. They
// return no error except ErrProcessed and ErrProcessing.
type Memory struct {
	opts MemoryOptions

	mu        sync.Mutex
	claims    map[string]lease
	processed map[string]bool
	order     *list.List // elements are of type record, sorted by time
}

type lease struct {
	token string
	end   time.Time
}

type record struct {
	key string
	at  time.Time
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory(opts MemoryOptions) *Memory {
	return &Memory{
		opts: opts.withDefaults(), claims: map[string]lease{}, processed: map[string]bool{}, order: list.New(),
	}
}

// Claim claims the event, see [Store].
func (m *Memory) Claim(_ context.Context, key string, leased time.Duration) (Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.forgetLocked(now.Add(-m.opts.MaxAge))
	if m.processed[key] {
		return Claim{}, ErrProcessed
	}
	if held, ok := m.claims[key]; ok && now.Before(held.end) {
		return Claim{}, ErrProcessing
	}
	c := Claim{Key: key, Token: rand.Text()}
	m.claims[key] = lease{token: c.Token, end: now.Add(leased)}
	return c, nil
}

// Record records that the event is processed, see [Store].
func (m *Memory) Record(_ context.Context, c Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, c.Key)
	if m.processed[c.Key] {
		return nil
	}
	m.processed[c.Key] = true
	m.order.PushBack(record{key: c.Key, at: time.Now()})
	for m.order.Len() > m.opts.MaxEvents {
		m.forgetOldestLocked()
	}
	return nil
}

// Release ends the claim, see [Store].
func (m *Memory) Release(_ context.Context, c Claim) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claims[c.Key].token == c.Token {
		delete(m.claims, c.Key)
	}
	return nil
}

// Purge deletes the events that were processed, and the claims whose lease ended, longer than age
// ago. It returns their number. A Memory also deletes events without it, according to its options.
func (m *Memory) Purge(_ context.Context, age time.Duration) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := time.Now().Add(-age)
	purged := m.forgetLocked(before)
	for key, held := range m.claims {
		if held.end.Before(before) {
			delete(m.claims, key)
			purged++
		}
	}
	return purged, nil
}

func (m *Memory) forgetLocked(before time.Time) (forgotten int64) {
	for oldest := m.order.Front(); oldest != nil && recordOf(oldest).at.Before(before); oldest = m.order.Front() {
		m.forgetOldestLocked()
		forgotten++
	}
	return forgotten
}

func (m *Memory) forgetOldestLocked() {
	oldest := m.order.Front()
	delete(m.processed, recordOf(oldest).key)
	m.order.Remove(oldest)
}

func recordOf(e *list.Element) record {
	r, _ := e.Value.(record) // the list has only records
	return r
}
