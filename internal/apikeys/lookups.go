package apikeys

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/cache"
)

const (
	// Fresh is how long a key is used from the cache. A key that another
	// node revoked works here for at most this time.
	Fresh = 5 * time.Second
	// UnknownFresh is how long an unknown key is refused from the cache. It is
	// short, so that a new key soon works on every node.
	UnknownFresh = time.Second
	// issuedFor is how long a key or a session that was found is known to exist, so
	// that it is read again without a turn of lookups.
	issuedFor = time.Hour
	// maxLookups is how many keys, sessions and codes that were never found are looked
	// up at a time. It bounds the connections that strangers use.
	maxLookups = 2
)

// Lookups reads keys, sessions and codes by their hashes. A stranger can compute the
// checksum of a guess, and each guess would be a query. So secrets that were never found
// take turns.
type Lookups struct {
	// turns is a semaphore of maxLookups.
	turns chan struct{}
	opts  Options
	// issued has the hashes that were found lately, even if their secrets have ended.
	issued *cache.TTL[[32]byte, struct{}]
}

// newLookups returns Lookups that have found nothing.
func newLookups(opts Options) Lookups {
	return Lookups{opts: opts, turns: make(chan struct{}, maxLookups), issued: cache.NewTTL[[32]byte, struct{}](issuedFor)}
}

// Look calls read, which reads the secret with the hash from the store. The caller bounds
// the time by ctx.
func (l Lookups) Look(ctx context.Context, hash [32]byte, read func(context.Context) error) error {
	now := time.Now()
	if _, issued, _ := l.issued.Get(hash, now); issued {
		return read(ctx)
	}
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := read(ctx)
	if err == nil {
		l.issued.PutIfAbsent(hash, struct{}{}, now)
	}
	return err
}

// Found has the secrets that were found lately, and those that were not. Those that were not have
// a cache of their own, so that guesses cannot evict the secrets in use. What it returns is
// shared and never modified.
type Found[V any] struct {
	lookups Lookups
	read    func(ctx context.Context, hash [32]byte) (V, error)
	known   *cache.TTL[[32]byte, *V]
	// unknown has the hashes that no secret has.
	unknown *cache.TTL[[32]byte, struct{}]
}

// NewFound returns empty caches. read reads a secret from the store by its hash.
func NewFound[V any](l Lookups, read func(ctx context.Context, hash [32]byte) (V, error)) Found[V] {
	return Found[V]{l, read, cache.NewTTL[[32]byte, *V](Fresh), cache.NewTTL[[32]byte, struct{}](UnknownFresh)}
}

// Known returns what was found within Fresh; nil: nothing was.
func (f Found[V]) Known(hash [32]byte, now time.Time) *V {
	value, _, _ := f.known.Get(hash, now)
	return value
}

// Find returns what has the hash, from a cache or the store, or postrider.ErrNotFound. An error
// of the store is not cached.
func (f Found[V]) Find(ctx context.Context, hash [32]byte, now time.Time) (*V, error) {
	value, ok, epoch := f.known.Get(hash, now)
	if ok {
		return value, nil
	}
	_, ok, unknownEpoch := f.unknown.Get(hash, now)
	if ok {
		return nil, postrider.ErrNotFound
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.lookups.opts.Within, f.lookups.opts.TooLate)
	defer cancel()
	var found V
	err := f.lookups.Look(ctx, hash, func(ctx context.Context) (err error) {
		found, err = f.read(ctx, hash)
		return err
	})
	if errors.Is(err, postrider.ErrNotFound) {
		f.unknown.Put(hash, struct{}{}, now, unknownEpoch)
	}
	if err != nil {
		return nil, err
	}
	f.known.Put(hash, &found, now, epoch)
	return &found, nil
}

// Forget empties the caches, so that this node sees at once that secrets ended.
func (f Found[V]) Forget() {
	f.known.Forget()
	f.unknown.Forget()
}
