// Package apikeys makes API keys and checks them, for every API that a server has.
//
// It promises:
//
//   - A check with a known key costs a hash and a lookup in memory, and no allocation.
//   - A key that was revoked works for at most [Fresh] on other nodes, and no longer on the
//     node that called [Checker.Forget].
//   - A text that was never issued as a key costs no query, unless somebody computed its
//     checksum; of those queries at most two run at a time.
//   - The store has only hashes, and no error says why a key was refused.
package apikeys

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/cache"
	"github.com/postrider/postrider/internal/store"
)

const (
	// Touched is the precision of LastUsedAt. Each node writes it at most
	// once in this time for a key.
	Touched = time.Minute
	// TouchTime is the longest time that a request waits for the write of
	// LastUsedAt.
	TouchTime = time.Second
	// MaxToken is the longest token of an Authorization header, in bytes.
	MaxToken = 256
)

// ErrUnauthorized says that a request has no valid key, and not why.
var ErrUnauthorized = errors.New("no valid key")

// Store is the part of the store that has the keys.
type Store interface {
	// Keys is the method of store.Access.
	Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error)
	// TouchKey is the method of store.Access.
	TouchKey(ctx context.Context, id postrider.KeyID, at time.Time) error
}

// Options say how long a check may take.
type Options struct {
	// Within is the time limit for the lookup of a key in the store.
	Within time.Duration
	// TooLate is the error of a lookup that took longer.
	TooLate error
	// Log receives the uses of keys that could not be recorded.
	Log *slog.Logger
}

// Checker authenticates requests by their API keys. With a cached key a check
// takes microseconds.
type Checker struct {
	// Lookups reads the store, for other secrets too: strangers share its turns.
	Lookups

	store Store
	// clock decides whether a key has expired.
	clock *store.Clock
	log   *slog.Logger

	// found has the keys that exist, by hash. Expired keys are among them, so
	// Check tests the expiry each time.
	found Found[Key]
	// touched has the keys whose LastUsedAt this node wrote within Touched.
	touched *cache.TTL[postrider.KeyID, struct{}]
}

// New returns a checker with empty caches over the store.
func New(s Store, clock *store.Clock, opts Options) *Checker {
	lookups := newLookups(opts)
	return &Checker{
		Lookups: lookups, store: s, clock: clock, log: opts.Log, touched: cache.NewTTL[postrider.KeyID, struct{}](Touched),
		found: NewFound(lookups, func(ctx context.Context, hash [32]byte) (Key, error) {
			key, err := store.First(s.Keys(ctx, store.KeyQuery{Hash: hash}))
			return Key{key, key.Caller()}, err
		}),
	}
}

// Key is a key with the caller that it makes.
type Key struct {
	postrider.APIKey

	// Caller is shared and never modified.
	Caller postrider.Caller
}

// Check returns the caller with the key of the request's Authorization header if the
// key is active, and ErrUnauthorized otherwise. The response does not tell an unknown key from
// an expired one. Expiry is tested with the store's clock, so that all nodes
// agree. The result belongs to the cache and must not be modified.
func (k *Checker) Check(ctx context.Context, header http.Header) (*postrider.Caller, error) {
	token, ok := bearer(header["Authorization"])
	if !ok {
		return nil, ErrUnauthorized
	}
	key, err := k.Find(ctx, token, time.Now())
	if err != nil {
		return nil, err
	}
	// A cached key may expire while it is in the cache, so expiry is checked on
	// every request.
	now := k.clock.Wall()
	if !key.ActiveAt(now) {
		return nil, ErrUnauthorized
	}
	k.touch(ctx, &key.APIKey, now)
	return &key.Caller, nil
}

// bearer returns the token of the Authorization header. It fails if there are
// several headers, or if the token has a byte outside of visible ASCII. The
// scheme is matched in any case, and one or more spaces follow it (RFC 9110,
// 11.1 and 11.4).
func bearer(headers []string) (string, bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > MaxToken {
		return "", false
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return "", false
		}
	}
	return token, true
}

// Find returns the key with the text, from a cache or the store. An error of the store is
// not cached. The lookup is by the hash and not by the text, so the time that it takes tells
// nothing about how much of a guessed key is right. A text of MaxToken bytes at most is one.
func (k *Checker) Find(ctx context.Context, text string, now time.Time) (*Key, error) {
	var bytes [MaxToken]byte // on the stack: a conversion to []byte would allocate
	hash := sha256.Sum256(bytes[:copy(bytes[:], text)])
	if key := k.found.Known(hash, now); key != nil {
		return key, nil
	}
	if !Issuable(prefix, text) {
		return nil, ErrUnauthorized
	}
	key, err := k.found.Find(ctx, hash, now)
	if errors.Is(err, postrider.ErrNotFound) {
		return nil, ErrUnauthorized
	}
	return key, err
}

// touch records the use of a key, at most once per Touched. The write is
// part of the request, so no background work is left when the server stops. A
// failure is logged and does not fail the request: LastUsedAt is a hint for people,
// and the next request writes it after Touched.
func (k *Checker) touch(ctx context.Context, key *postrider.APIKey, now time.Time) {
	if now.Sub(key.LastUsedAt) < Touched || !k.touched.PutIfAbsent(key.ID, struct{}{}, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, TouchTime)
	defer cancel()
	if err := k.store.TouchKey(ctx, key.ID, now); err != nil {
		k.log.WarnContext(ctx, "last use of a key was not recorded", "key", *key, "error", err)
	}
}

// Forget empties the caches of known and unknown keys. It is called after a key
// was revoked or an account was deleted, so that this node sees the change at
// once. Other nodes see it after Fresh.
func (k *Checker) Forget() { k.found.Forget() }
