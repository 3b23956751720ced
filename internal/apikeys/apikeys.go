// Package apikeys makes API keys and checks them, for every API that a server has.
//
// It promises:
//
//   - A check with a cached key costs a hash and a lookup in memory, and no allocation.
//   - A revoked key works for at most [Fresh] on other nodes. It stops working at once on
//     the node that called [Checker.Forget].
//   - A text that was never issued as a key costs no query, unless somebody computed its
//     checksum. At most two such queries run at a time.
//   - The store has only hashes of keys. No error says why a key was refused.
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
	// Touched is the precision of LastUsedAt. Each node writes LastUsedAt of a key at most once in
	// this time.
	Touched = time.Minute
	// TouchTime is the longest time that a request waits for the write of LastUsedAt.
	TouchTime = time.Second
	// MaxToken is the longest token of an Authorization header, in bytes.
	MaxToken = 256
)

// ErrUnauthorized means that a request has no valid key. It does not say why.
var ErrUnauthorized = errors.New("no valid key")

// Store is the part of the store that has the keys.
type Store interface {
	// Keys is the method of store.Access.
	Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error)
	// TouchKey is the method of store.Access.
	TouchKey(ctx context.Context, id postrider.KeyID, at time.Time) error
}

// Options has the settings of a [Checker].
type Options struct {
	// Within is the time limit for the lookup of a key in the store.
	Within time.Duration
	// TooLate is the error of a lookup that exceeded Within.
	TooLate error
	// Log receives a warning if the use of a key could not be recorded.
	Log *slog.Logger
}

// Checker authenticates requests by their API keys. A check with a cached key takes microseconds.
type Checker struct {
	// Lookups limits the lookups of unknown keys. Package sessions uses the same limit for its
	// secrets.
	Lookups

	store Store
	// clock decides whether a key has expired.
	clock *store.Clock
	log   *slog.Logger

	// found has the keys that exist, by hash. It may have expired keys, so Check tests the expiry
	// on each request.
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

// Key is an API key together with the caller that it stands for.
type Key struct {
	postrider.APIKey

	// Caller is shared by all requests with the key, and never modified.
	Caller postrider.Caller
}

// Check returns the caller for the key in the request's Authorization header. If there is no active
// key, it returns ErrUnauthorized, which is the same for an unknown and an expired key. Expiry is
// tested with the store's clock, so that all nodes agree. The result belongs to the cache and must
// not be modified.
func (k *Checker) Check(ctx context.Context, header http.Header) (*postrider.Caller, error) {
	token, ok := bearer(header["Authorization"])
	if !ok {
		return nil, ErrUnauthorized
	}
	key, err := k.Find(ctx, token, time.Now())
	if err != nil {
		return nil, err
	}
	// A key may expire while it is cached, so its expiry is tested on every request.
	now := k.clock.Wall()
	if !key.ActiveAt(now) {
		return nil, ErrUnauthorized
	}
	k.touch(ctx, &key.APIKey, now)
	return &key.Caller, nil
}

// bearer returns the token of the Authorization header. It returns false if there are several
// headers, or if the token has a byte that is not visible ASCII. The scheme may have any case, and
// one or more spaces follow it (RFC 9110, 11.1 and 11.4).
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

// Find returns the key with the text, from the cache or from the store. It does not cache errors of
// the store. It looks a key up by its hash and not by its text, so the time of a lookup does not
// reveal how much of a guessed key is right. text must have at most MaxToken bytes.
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

// touch records the use of a key, at most once in Touched. The write is part of the request, so no
// background work is left when the server stops. A failed write is logged and does not fail the
// request, because LastUsedAt is only a hint for people. The next request after Touched tries
// again.
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

// Forget empties the caches of known and unknown keys. It is called after a key was revoked, so that
// this node sees the change at once; other nodes see it after Fresh. After an account was deleted, all
// nodes call it.
func (k *Checker) Forget() { k.found.Forget() }
