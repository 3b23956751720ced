package api

import (
	"sync"
	"time"
)

// cacheSize bounds each cache, in entries.
const cacheSize = 4096

// ttlCache keeps values of the store for a time. Any goroutine may use it. When
// it is full, a new entry replaces any other one.
//
// A value that was read before [ttlCache.forget] must not be kept after it: the
// read may have missed the change that forget is called for. So get returns an
// epoch, and put ignores a value of an older epoch.
type ttlCache[K comparable, V any] struct {
	ttl time.Duration

	mu      sync.Mutex
	epoch   int // counts the calls of forget
	entries map[K]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value  V
	readAt time.Time // by this machine's clock
}

func newTTLCache[K comparable, V any](ttl time.Duration) *ttlCache[K, V] {
	return &ttlCache[K, V]{ttl: ttl, entries: map[K]cacheEntry[V]{}}
}

// get returns the value of the key, and whether there is one. If there is none,
// the caller reads the store and passes the epoch to put.
func (c *ttlCache[K, V]) get(key K, now time.Time) (value V, ok bool, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[key]
	if !ok || now.Sub(entry.readAt) >= c.ttl {
		return value, false, c.epoch
	}
	return entry.value, true, c.epoch
}

// put keeps a value that was read at now, in the epoch.
func (c *ttlCache[K, V]) put(key K, value V, now time.Time, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch == c.epoch {
		c.add(key, value, now)
	}
}

// putIfAbsent keeps the value unless the key has one, and reports whether it
// kept it.
func (c *ttlCache[K, V]) putIfAbsent(key K, value V, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.entries[key]; ok && now.Sub(entry.readAt) < c.ttl {
		return false
	}
	c.add(key, value, now)
	return true
}

// add needs c.mu.
func (c *ttlCache[K, V]) add(key K, value V, now time.Time) {
	if len(c.entries) >= cacheSize {
		for other := range c.entries {
			delete(c.entries, other)
			break
		}
	}
	c.entries[key] = cacheEntry[V]{value, now}
}

// forget drops all entries.
func (c *ttlCache[K, V]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	clear(c.entries)
}
