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
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/cache"
	"github.com/postrider/postrider/internal/store"
)

const (
	// Fresh is how long a key is used from the cache. A key that another
	// node revoked works here for at most this time.
	Fresh = 5 * time.Second
	// UnknownFresh is how long an unknown key is refused from the cache. It is
	// short, so that a new key soon works on every node.
	UnknownFresh = time.Second
	// Touched is the precision of LastUsedAt. Each node writes it at most
	// once in this time for a key.
	Touched = time.Minute
	// TouchTime is the longest time that a request waits for the write of
	// LastUsedAt.
	TouchTime = time.Second
	// issuedFor is how long a key or a session that was found is known to exist, so
	// that it is read again without a turn of lookups.
	issuedFor = time.Hour
	// maxLookups is how many keys, sessions and codes that were never found are looked
	// up at a time. It bounds the connections that strangers use.
	maxLookups = 2
	// MaxToken is the longest token of an Authorization header, in bytes.
	MaxToken = 256
)

// prefix tells API keys from other secrets.
const prefix = "pr_"

// ErrUnauthorized says that a request has no valid key, and not why.
var ErrUnauthorized = errors.New("no valid key")

// Make returns a new API key and its hash.
func Make() (key string, hash [32]byte) { return MakeSecret(prefix) }

// MakeSecret returns a new secret and its hash. The secret is the prefix and the base64
// of 256 random bits and a checksum. The store keeps only the hash: with that many random
// bits a fast hash without salt cannot be reversed by guessing.
//
// The checksum makes a text that was never issued cost no query. It keeps nobody out who
// computes it; see [Lookups].
func MakeSecret(prefix string) (text string, hash [32]byte) {
	var random [36]byte
	rand.Read(random[:32]) // never fails, by its documentation
	binary.BigEndian.PutUint32(random[32:], checksum(prefix, random[:32]))
	text = prefix + base64.RawURLEncoding.EncodeToString(random[:])
	return text, sha256.Sum256([]byte(text))
}

// checksum returns the CRC-32 of a secret's prefix and random bits.
func checksum(prefix string, random []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(prefix)), crc32.IEEETable, random)
}

// Issuable reports whether MakeSecret could have made the text.
func Issuable(prefix, text string) bool {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(encoded) != base64.RawURLEncoding.EncodedLen(36) {
		return false
	}
	random, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return err == nil && len(random) == 36 && binary.BigEndian.Uint32(random[32:]) == checksum(prefix, random[:32])
}

// Lookups reads keys, sessions and codes by their hashes. A stranger can compute the
// checksum of a guess, and each guess would be a query. So secrets that were never found
// take turns.
type Lookups struct {
	// turns is a semaphore of maxLookups.
	turns chan struct{}
	// issued has the hashes that were found lately, even if their secrets have ended.
	issued *cache.TTL[[32]byte, struct{}]
}

// newLookups returns Lookups that have found nothing.
func newLookups() Lookups {
	return Lookups{turns: make(chan struct{}, maxLookups), issued: cache.NewTTL[[32]byte, struct{}](issuedFor)}
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
// takes microseconds. Unknown keys have a cache of their own, so that guessed
// keys cannot evict the keys in use.
type Checker struct {
	// Lookups reads the store, for other secrets too: strangers share its turns.
	Lookups

	store Store
	// clock decides whether a key has expired.
	clock *store.Clock
	opts  Options

	// known has the keys that exist, by hash. Expired keys are among them, so
	// Check tests the expiry each time. Cached keys are shared and never
	// modified.
	known *cache.TTL[[32]byte, *Key]
	// unknown has the hashes that no key has.
	unknown *cache.TTL[[32]byte, struct{}]
	// touched has the keys whose LastUsedAt this node wrote within Touched.
	touched *cache.TTL[postrider.KeyID, struct{}]
}

// New returns a checker with empty caches over the store.
func New(s Store, clock *store.Clock, opts Options) *Checker {
	return &Checker{
		Lookups: newLookups(), store: s, clock: clock, opts: opts,
		known:   cache.NewTTL[[32]byte, *Key](Fresh),
		unknown: cache.NewTTL[[32]byte, struct{}](UnknownFresh),
		touched: cache.NewTTL[postrider.KeyID, struct{}](Touched),
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
	key, ok, epoch := k.known.Get(hash, now)
	if ok {
		return key, nil
	}
	if !Issuable(prefix, text) {
		return nil, ErrUnauthorized
	}
	_, ok, unknownEpoch := k.unknown.Get(hash, now)
	if ok {
		return nil, ErrUnauthorized
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.opts.Within, k.opts.TooLate)
	defer cancel()
	var found postrider.APIKey
	err := k.Look(ctx, hash, func(ctx context.Context) (err error) {
		found, err = store.First(k.store.Keys(ctx, store.KeyQuery{Hash: hash}))
		return err
	})
	switch {
	case errors.Is(err, postrider.ErrNotFound):
		k.unknown.Put(hash, struct{}{}, now, unknownEpoch)
		return nil, ErrUnauthorized
	case err != nil:
		return nil, err
	}
	key = &Key{found, found.Caller()}
	k.known.Put(hash, key, now, epoch)
	return key, nil
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
		k.opts.Log.WarnContext(ctx, "last use of a key was not recorded", "key", *key, "error", err)
	}
}

// Forget empties the caches of known and unknown keys. It is called after a key
// was revoked or an account was deleted, so that this node sees the change at
// once. Other nodes see it after Fresh.
func (k *Checker) Forget() {
	k.known.Forget()
	k.unknown.Forget()
}
