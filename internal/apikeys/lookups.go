package apikeys

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/cache"
)

const (
	// Fresh is the time for which a key is used from the cache. A key that another node revoked
	// works here for at most this time.
	Fresh = 5 * time.Second
	// UnknownFresh is the time for which an unknown key is refused from the cache. The time is
	// short, so that a new key soon works on every node.
	UnknownFresh = time.Second
	// issuedFor is the time for which a found key, session or code counts as issued. While it does,
	// it is read again without waiting for a turn.
	issuedFor = time.Hour
	// maxLookups is the number of lookups that may run at a time for keys, sessions and codes that
	// were never found. It limits the database connections that strangers can use.
	maxLookups = 2
)

// Lookups limits the lookups of keys, sessions and codes by their hashes. A stranger can compute
// the checksum of a guessed secret, so that each guess needs a query. To limit these queries,
// secrets that were never found take turns.
type Lookups struct {
	// turns is a semaphore with maxLookups places.
	turns chan struct{}
	opts  Options
	// issued has the hashes of secrets that were found within issuedFor. The secrets may have ended
	// since.
	issued *cache.TTL[[32]byte, struct{}]
}

// newLookups returns Lookups with an empty cache.
func newLookups(opts Options) Lookups {
	return Lookups{opts: opts, turns: make(chan struct{}, maxLookups), issued: cache.NewTTL[[32]byte, struct{}](issuedFor)}
}

// Look calls read, which reads the secret with the hash from the store. If the secret was never
// found, Look first waits for a turn. The deadline of ctx limits the wait.
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

// Found caches the secrets that were found lately, and the hashes of secrets that were not found.
// There are two caches, so that guesses cannot evict the secrets in use. Found values are shared
// and never modified.
type Found[V any] struct {
	lookups Lookups
	read    func(ctx context.Context, hash [32]byte) (V, error)
	known   *cache.TTL[[32]byte, *V]
	// unknown has the hashes for which the store has no secret.
	unknown *cache.TTL[[32]byte, struct{}]
}

// NewFound returns empty caches. read reads a secret from the store by its hash.
func NewFound[V any](l Lookups, read func(ctx context.Context, hash [32]byte) (V, error)) Found[V] {
	return Found[V]{l, read, cache.NewTTL[[32]byte, *V](Fresh), cache.NewTTL[[32]byte, struct{}](UnknownFresh)}
}

// Known returns the secret with the hash from the cache; nil: it is not in the cache.
func (f Found[V]) Known(hash [32]byte, now time.Time) *V {
	value, _, _ := f.known.Get(hash, now)
	return value
}

// Find returns the secret with the hash, from a cache or from the store, or postrider.ErrNotFound.
// It does not cache errors of the store.
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

// Forget empties both caches, so that this node no longer accepts secrets that ended.
func (f Found[V]) Forget() {
	f.known.Forget()
	f.unknown.Forget()
}
