// Package cache has maps with a limit: [Cache], and [TTL] for values that become old.
//
// A [Cache] keeps values that can be computed again. It never holds more than its limit: in a full
// cache, a new key replaces an arbitrary other key. The cache does not record when an entry was
// used, so a read takes only a shared lock and one lookup. If the limit is large enough for all
// keys that are in use at a time, a cache of this kind is as good as any other. It suits values
// that take microseconds to milliseconds to make.
package cache

import "sync"

// Cache is a map with a limited number of entries. It may be used from any goroutine.
type Cache[K comparable, V any] struct {
	limit int

	mu      sync.RWMutex
	entries map[K]V
}

// New returns an empty cache of at most limit entries. The limit must be at least 1.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, entries: map[K]V{}}
}

// Get returns the value of the key; false: there is none.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	value, ok := c.entries[key]
	return value, ok
}

// Update stores the result of choose and returns it. choose gets the value that is stored now, or
// false if there is none. So two goroutines that computed the same value at the same time can agree
// on one of them. choose runs under the cache's lock, so it must be quick and must not use the
// cache.
func (c *Cache[K, V]) Update(key K, choose func(stored V, ok bool) V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	stored, ok := c.entries[key]
	if !ok && len(c.entries) >= c.limit {
		c.dropOneLocked()
	}
	value := choose(stored, ok)
	c.entries[key] = value
	return value
}

func (c *Cache[K, V]) dropOneLocked() {
	for key := range c.entries {
		delete(c.entries, key)
		return
	}
}
