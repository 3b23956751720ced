// Package cache has maps with a bound: [Cache], and [TTL] for values that get old.
//
// A [Cache] keeps values that can be computed again. It never holds more than
// its limit: a new key in a full cache takes the place of an arbitrary other
// one. No order of use is kept, so a read takes a shared lock and one lookup,
// and a cache that is large enough for what is in use at a time behaves like
// any other. It suits values that cost microseconds to milliseconds to make.
package cache

import "sync"

// Cache is a map of at most a number of entries. It may be used from any
// goroutine.
type Cache[K comparable, V any] struct {
	limit int

	mu      sync.RWMutex
	entries map[K]V
}

// New returns an empty cache of at most limit entries; limit is at least 1.
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

// Update stores what choose returns and returns it. choose gets the value that
// is stored now, with false if there is none: two goroutines that computed the
// same value at the same time can agree on one of them. It runs under the lock
// of the cache, so it must be quick and must not use the cache.
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
