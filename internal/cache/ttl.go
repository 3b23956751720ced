package cache

import (
	"sync"
	"time"
)

// ttlLimit is the limit of each cache, in entries. It bounds the memory that
// requests with ever new keys or names can take.
const ttlLimit = 4096

// TTL caches values of the store for a limited time. It is safe for
// concurrent use. When it is full, a new entry evicts an arbitrary one.
//
// A value that was read before [TTL.Forget] must not be cached after it,
// because the read may have missed the change that Forget announces. So Get
// returns an epoch, and Put ignores a value with an older epoch.
type TTL[K comparable, V any] struct {
	// ttl is how long an entry is used after it was read from the store. It is
	// also the longest time for which another node's change is not seen.
	ttl time.Duration

	// mu guards the fields below. No call holds it during a read of the store.
	mu sync.Mutex
	// epoch counts the calls of Forget.
	epoch int
	// entries has at most ttlLimit entries. Expired ones stay until they are
	// replaced or evicted.
	entries map[K]cacheEntry[V]
}

// cacheEntry is one cached value and its age.
type cacheEntry[V any] struct {
	value V
	// readAt is the time before the read, by this machine's clock. The age is
	// therefore never underestimated.
	readAt time.Time
}

// NewTTL returns an empty cache whose entries are valid for ttl.
func NewTTL[K comparable, V any](ttl time.Duration) *TTL[K, V] {
	return &TTL[K, V]{ttl: ttl, entries: map[K]cacheEntry[V]{}}
}

// Get returns the value of the key and whether the cache has it. If it does
// not, the caller reads the store and passes the epoch to Put. The epoch must
// come from before that read.
func (c *TTL[K, V]) Get(key K, now time.Time) (value V, ok bool, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[key]
	if !ok || now.Sub(entry.readAt) >= c.ttl {
		return value, false, c.epoch
	}
	return entry.value, true, c.epoch
}

// Put caches a value that was read from the store. The time now and the epoch come from the Get
// before the read. If Forget was called in between, Put does nothing.
func (c *TTL[K, V]) Put(key K, value V, now time.Time, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch == c.epoch {
		c.add(key, value, now)
	}
}

// PutIfAbsent caches the value unless the key has a valid one, and reports
// whether it did. Of several concurrent callers exactly one gets true.
func (c *TTL[K, V]) PutIfAbsent(key K, value V, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.entries[key]; ok && now.Sub(entry.readAt) < c.ttl {
		return false
	}
	c.add(key, value, now)
	return true
}

// add stores an entry, and evicts an arbitrary one if the cache is full. Map
// iteration picks the victim without any bookkeeping. It needs c.mu.
func (c *TTL[K, V]) add(key K, value V, now time.Time) {
	if len(c.entries) >= ttlLimit {
		for other := range c.entries {
			delete(c.entries, other)
			break
		}
	}
	c.entries[key] = cacheEntry[V]{value, now}
}

// Forget drops all entries and starts a new epoch. Call it after the change is
// committed.
func (c *TTL[K, V]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	clear(c.entries)
}
