package api

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
	"github.com/postrider/postrider/internal/store"
)

const (
	// keyFresh is how long a key is used from the cache. A key that another
	// node revoked works here for at most this time.
	keyFresh = 5 * time.Second
	// noKeyFresh is how long an unknown key is refused from the cache. It is
	// short, so that a new key soon works on every node.
	noKeyFresh = time.Second
	// keyTouched is the precision of LastUsedAt. Each node writes it at most
	// once in this time for a key.
	keyTouched = time.Minute
	// touchTime is the longest time that a request waits for the write of
	// LastUsedAt.
	touchTime = time.Second
	// issuedFor is how long a key or a session that was found is known to exist, so
	// that it is read again without a turn of lookups.
	issuedFor = time.Hour
	// maxLookups is how many keys, sessions and codes that were never found are looked
	// up at a time. It bounds the connections that strangers use.
	maxLookups = 2
	// maxToken is the longest token of an Authorization header, in bytes.
	maxToken = 256
)

// The prefixes of secrets tell them apart. A code is a part of a URL and has none.
const (
	keyPrefix     = "pr_"
	sessionPrefix = "prs_"
	codePrefix    = ""
)

// MakeKey returns a new API key and its hash.
func MakeKey() (key string, hash [32]byte) { return makeSecret(keyPrefix) }

// makeSecret returns a new secret and its hash. The secret is the prefix and the base64
// of 256 random bits and a checksum. The store keeps only the hash: with that many random
// bits a fast hash without salt cannot be reversed by guessing.
//
// The checksum makes a text that was never issued cost no query. It keeps nobody out who
// computes it; see [lookups].
func makeSecret(prefix string) (text string, hash [32]byte) {
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

// issuable reports whether makeSecret could have made the text.
func issuable(prefix, text string) bool {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok || len(encoded) != base64.RawURLEncoding.EncodedLen(36) {
		return false
	}
	random, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return err == nil && len(random) == 36 && binary.BigEndian.Uint32(random[32:]) == checksum(prefix, random[:32])
}

// lookups reads keys, sessions and codes by their hashes. A stranger can compute the
// checksum of a guess, and each guess would be a query. So secrets that were never found
// take turns.
type lookups struct {
	// turns is a semaphore of maxLookups.
	turns chan struct{}
	// issued has the hashes that were found lately, even if their secrets have ended.
	issued *ttlCache[[32]byte, struct{}]
}

// newLookups returns lookups that have found nothing.
func newLookups() lookups {
	return lookups{turns: make(chan struct{}, maxLookups), issued: newTTLCache[[32]byte, struct{}](issuedFor)}
}

// look calls read, which reads the secret with the hash from the store. The caller bounds
// the time by ctx.
func (l lookups) look(ctx context.Context, hash [32]byte, read func(context.Context) error) error {
	now := time.Now()
	if _, issued, _ := l.issued.get(hash, now); issued {
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
		l.issued.putIfAbsent(hash, struct{}{}, now)
	}
	return err
}

// keyring authenticates requests by their API keys. With a cached key a check
// takes microseconds. Unknown keys have a cache of their own, so that guessed
// keys cannot evict the keys in use.
type keyring struct {
	store Store
	// answerTime is the time limit for the lookup of a key in the store.
	answerTime time.Duration
	log        *slog.Logger

	// known has the keys that exist, by hash. Expired keys are among them, so
	// check tests the expiry each time. Cached keys are shared and never
	// modified.
	known *ttlCache[[32]byte, *knownKey]
	// unknown has the hashes that no key has.
	unknown *ttlCache[[32]byte, struct{}]
	// lookups reads the store.
	lookups lookups
	// touched has the keys whose LastUsedAt this node wrote within keyTouched.
	touched *ttlCache[postrider.KeyID, struct{}]
}

// newKeyring returns a keyring with empty caches over the store.
func newKeyring(s Store, opts Options) *keyring {
	return &keyring{
		store:      s,
		answerTime: opts.AnswerTime,
		log:        opts.Log,
		known:      newTTLCache[[32]byte, *knownKey](keyFresh),
		unknown:    newTTLCache[[32]byte, struct{}](noKeyFresh),
		lookups:    newLookups(),
		touched:    newTTLCache[postrider.KeyID, struct{}](keyTouched),
	}
}

// knownKey is a key with the caller that it makes.
type knownKey struct {
	postrider.APIKey

	caller postrider.Caller
}

// nobody is the caller of an unauthenticated request. It has no scopes.
var nobody postrider.Caller

// check returns the caller with the key of the request's Authorization header if the
// key is active, and errUnauthorized otherwise. The response does not tell an unknown key from
// an expired one. Expiry is tested with the store's clock, so that all nodes
// agree. The result belongs to the cache and must not be modified.
func (k *keyring) check(ctx context.Context, header http.Header) (*postrider.Caller, error) {
	token, ok := bearer(header["Authorization"])
	if !ok {
		return nil, errUnauthorized
	}
	key, err := k.find(ctx, token, time.Now())
	if err != nil {
		return nil, err
	}
	// A cached key may expire while it is in the cache, so expiry is checked on
	// every request.
	now := k.store.Clock().Wall()
	if !key.ActiveAt(now) {
		return nil, errUnauthorized
	}
	k.touch(ctx, &key.APIKey, now)
	return &key.caller, nil
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
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", false
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return "", false
		}
	}
	return token, true
}

// find returns the key with the text, from a cache or the store. An error of the store is
// not cached. The lookup is by the hash and not by the text, so the time that it takes tells
// nothing about how much of a guessed key is right. A text of maxToken bytes at most is one.
func (k *keyring) find(ctx context.Context, text string, now time.Time) (*knownKey, error) {
	var bytes [maxToken]byte // on the stack: a conversion to []byte would allocate
	hash := sha256.Sum256(bytes[:copy(bytes[:], text)])
	key, ok, epoch := k.known.get(hash, now)
	if ok {
		return key, nil
	}
	if !issuable(keyPrefix, text) {
		return nil, errUnauthorized
	}
	_, ok, unknownEpoch := k.unknown.get(hash, now)
	if ok {
		return nil, errUnauthorized
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.answerTime, errStoreTimeout)
	defer cancel()
	var found postrider.APIKey
	err := k.lookups.look(ctx, hash, func(ctx context.Context) (err error) {
		found, err = first(k.store.Keys(ctx, store.KeyQuery{Hash: hash}))
		return err
	})
	switch {
	case errors.Is(err, postrider.ErrNotFound):
		k.unknown.put(hash, struct{}{}, now, unknownEpoch)
		return nil, errUnauthorized
	case err != nil:
		return nil, err
	}
	key = &knownKey{found, found.Caller()}
	k.known.put(hash, key, now, epoch)
	return key, nil
}

// touch records the use of a key, at most once per keyTouched. The write is
// part of the request, so no background work is left when the server stops. A
// failure is logged and does not fail the request: LastUsedAt is a hint for people,
// and the next request writes it after keyTouched.
func (k *keyring) touch(ctx context.Context, key *postrider.APIKey, now time.Time) {
	if now.Sub(key.LastUsedAt) < keyTouched || !k.touched.putIfAbsent(key.ID, struct{}{}, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, touchTime)
	defer cancel()
	if err := k.store.TouchKey(ctx, key.ID, now); err != nil {
		k.log.WarnContext(ctx, "last use of a key was not recorded", "key", *key, "error", err)
	}
}

// forget empties the caches of known and unknown keys. It is called after a key
// was revoked or an account was deleted, so that this node sees the change at
// once. Other nodes see it after keyFresh.
func (k *keyring) forget() {
	k.known.forget()
	k.unknown.forget()
}
