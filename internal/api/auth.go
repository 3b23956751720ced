package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const (
	keyFresh   = 5 * time.Second // how long a key that was read is believed
	noKeyFresh = time.Second     // and that there is none
	keyTouched = time.Minute     // how exact LastUsedAt is
	touchTime  = time.Second     // that noting the use of a key may take of a request
	keysCached = 4096            // of each sort
	maxToken   = 256             // in bytes
)

// MakeKey returns a new API key, pr_ and 256 random bits, and the hash that
// stands for it in the store.
func MakeKey() (key string, hash [32]byte) {
	var random [32]byte
	rand.Read(random[:]) // never fails, by its documentation
	key = "pr_" + base64.RawURLEncoding.EncodeToString(random[:])
	return key, sha256.Sum256([]byte(key))
}

// keyring checks keys. What the store said of a key is kept for some seconds,
// so that a check costs microseconds; both caches are bounded, and strangers'
// guesses cannot push out the keys that are in use.
type keyring struct {
	store      Store
	answerTime time.Duration // for the store to look a key up
	log        *slog.Logger

	mu      sync.Mutex
	epoch   int                     // counts forget, so that what was read before it is not kept after it
	known   map[[32]byte]*cachedKey // the values are never changed
	unknown map[[32]byte]time.Time
	touched map[postrider.KeyID]time.Time // by this machine's clock, as all times above
}

type cachedKey struct {
	key    postrider.APIKey
	readAt time.Time
	epoch  int
}

func newKeyring(s Store, opts Options) *keyring {
	return &keyring{
		store:      s,
		answerTime: opts.AnswerTime,
		log:        opts.Log,
		known:      map[[32]byte]*cachedKey{},
		unknown:    map[[32]byte]time.Time{},
		touched:    map[postrider.KeyID]time.Time{},
	}
}

// noKey is the key of who has none.
var noKey postrider.APIKey

// check returns the key of the request's header, if it is in force. A key expires
// by the store's time of day, so that all nodes agree. The key is the cache's own
// and must not be changed.
func (k *keyring) check(ctx context.Context, header http.Header) (*postrider.APIKey, error) {
	token, ok := bearer(header["Authorization"])
	if !ok {
		return nil, errUnauthorized
	}
	var text [maxToken]byte // on the stack, where a conversion would allocate
	key, err := k.find(ctx, sha256.Sum256(text[:copy(text[:], token)]), time.Now())
	if err != nil {
		return nil, err
	}
	now := k.store.Clock().Wall()
	if !key.ActiveAt(now) {
		return nil, errUnauthorized
	}
	k.touch(ctx, key, now)
	return key, nil
}

// bearer returns the token of the only Authorization header. The scheme is
// matched in any case, and one or more spaces follow it (RFC 9110, 11.1 and 11.4).
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

func (k *keyring) find(ctx context.Context, hash [32]byte, now time.Time) (*postrider.APIKey, error) {
	key, epoch := k.cached(hash, now)
	if key == nil {
		ctx, cancel := context.WithTimeoutCause(ctx, k.answerTime, errNoAnswer)
		defer cancel()
		found, err := first(k.store.Keys(ctx, store.KeyQuery{Hash: hash}))
		if err != nil && !errors.Is(err, postrider.ErrNotFound) {
			return nil, err
		}
		key = &found
		k.keep(hash, &cachedKey{found, now, epoch})
	}
	if key.ID.IsZero() {
		return nil, errUnauthorized
	}
	return key, nil
}

// cached returns what is believed of a hash: a key, or noKey for none; nil: the
// store must be asked, in this epoch.
func (k *keyring) cached(hash [32]byte, now time.Time) (key *postrider.APIKey, epoch int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.known[hash]; c != nil && now.Sub(c.readAt) < keyFresh {
		return &c.key, k.epoch
	}
	if readAt, ok := k.unknown[hash]; ok && now.Sub(readAt) < noKeyFresh {
		return &noKey, k.epoch
	}
	return nil, k.epoch
}

func (k *keyring) keep(hash [32]byte, c *cachedKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case c.epoch != k.epoch:
	case c.key.ID.IsZero():
		makeRoom(k.unknown)
		k.unknown[hash] = c.readAt
	default:
		makeRoom(k.known)
		k.known[hash] = c
	}
}

// makeRoom drops any one entry of a full cache.
func makeRoom[K comparable, V any](cache map[K]V) {
	if len(cache) < keysCached {
		return
	}
	for key := range cache {
		delete(cache, key)
		return
	}
}

// touch notes the use of a key, once a minute. It is part of the request, so
// that nothing is left to wait for when the server stops.
func (k *keyring) touch(ctx context.Context, key *postrider.APIKey, now time.Time) {
	if now.Sub(key.LastUsedAt) < keyTouched || !k.due(key.ID, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, touchTime)
	defer cancel()
	if err := k.store.TouchKey(ctx, key.ID, now); err != nil {
		k.log.WarnContext(ctx, "last use of a key not noted", "key", *key, "error", err)
	}
}

func (k *keyring) due(id postrider.KeyID, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.touched[id]) < keyTouched {
		return false
	}
	makeRoom(k.touched)
	k.touched[id] = now
	return true
}

// forget makes the next check of every key read the store.
func (k *keyring) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch++
	clear(k.known)
	clear(k.unknown)
}
