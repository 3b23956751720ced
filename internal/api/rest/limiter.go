package rest

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter limits how often something may happen. Each key has its own limit, and each node counts
// separately.
type Limiter[K comparable] struct {
	// every is the time after which one more use is allowed when the burst is used up.
	every time.Duration
	// burst is the number of uses that are allowed at once.
	burst int
	// detail is the text of the 429.
	detail string

	// mu guards the field of.
	mu sync.Mutex
	// of has the keys that have used part of their burst. When a new key is added, the keys whose
	// burst is full again are removed.
	of map[K]*rate.Limiter
}

// NewLimiter returns a limiter that has counted nothing.
func NewLimiter[K comparable](every time.Duration, burst int, detail string) *Limiter[K] {
	return &Limiter[K]{every: every, burst: burst, detail: detail, of: map[K]*rate.Limiter{}}
}

// Spent reports whether the limit of the key is reached. It counts nothing.
func (l *Limiter[K]) Spent(key K) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, known := l.of[key]
	return known && own.Tokens() < 1
}

// Allow counts one use by the key. If the limit is reached, it returns a 429 with the time to wait.
// A refused use does not count, so a client that keeps asking is accepted again after that time.
func (l *Limiter[K]) Allow(key K) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, known := l.of[key]
	if !known {
		// A full limiter behaves like a new one, so it can be removed.
		maps.DeleteFunc(l.of, func(_ K, other *rate.Limiter) bool { return other.Tokens() >= float64(l.burst) })
		own = rate.NewLimiter(rate.Every(l.every), l.burst)
		l.of[key] = own
	}
	use := own.Reserve()
	if wait := use.Delay(); wait > 0 {
		use.Cancel()
		return &Error{Class: errTooOften, Detail: l.detail, after: wait}
	}
	return nil
}
