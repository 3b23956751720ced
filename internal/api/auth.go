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
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const (
	keyFresh   = 5 * time.Second // how long a key that was read is believed
	noKeyFresh = time.Second     // and that there is none
	keyTouched = time.Minute     // how exact LastUsedAt is
	touchTime  = time.Second     // that noting the use of a key may take of a request
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

// keyring checks keys. Its caches make a check cost microseconds. Keys that do
// not exist have a cache of their own, so that guesses cannot displace the keys
// that are in use.
type keyring struct {
	store      Store
	answerTime time.Duration // for the store to look a key up
	log        *slog.Logger

	known   *ttlCache[[32]byte, *postrider.APIKey] // by hash; the values are never changed
	unknown *ttlCache[[32]byte, struct{}]
	touched *ttlCache[postrider.KeyID, struct{}] // keys whose use was noted
}

func newKeyring(s Store, opts Options) *keyring {
	return &keyring{
		store:      s,
		answerTime: opts.AnswerTime,
		log:        opts.Log,
		known:      newTTLCache[[32]byte, *postrider.APIKey](keyFresh),
		unknown:    newTTLCache[[32]byte, struct{}](noKeyFresh),
		touched:    newTTLCache[postrider.KeyID, struct{}](keyTouched),
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

// find returns the key of the hash, from a cache or the store.
func (k *keyring) find(ctx context.Context, hash [32]byte, now time.Time) (*postrider.APIKey, error) {
	key, ok, epoch := k.known.get(hash, now)
	if ok {
		return key, nil
	}
	_, ok, unknownEpoch := k.unknown.get(hash, now)
	if ok {
		return nil, errUnauthorized
	}
	ctx, cancel := context.WithTimeoutCause(ctx, k.answerTime, errNoAnswer)
	defer cancel()
	found, err := first(k.store.Keys(ctx, store.KeyQuery{Hash: hash}))
	switch {
	case errors.Is(err, postrider.ErrNotFound):
		k.unknown.put(hash, struct{}{}, now, unknownEpoch)
		return nil, errUnauthorized
	case err != nil:
		return nil, err
	}
	k.known.put(hash, &found, now, epoch)
	return &found, nil
}

// touch notes the use of a key, once a minute. It is part of the request, so
// that nothing is left to wait for when the server stops.
func (k *keyring) touch(ctx context.Context, key *postrider.APIKey, now time.Time) {
	if now.Sub(key.LastUsedAt) < keyTouched || !k.touched.putIfAbsent(key.ID, struct{}{}, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, touchTime)
	defer cancel()
	if err := k.store.TouchKey(ctx, key.ID, now); err != nil {
		k.log.WarnContext(ctx, "last use of a key not noted", "key", *key, "error", err)
	}
}

// forget makes the next check of every key read the store.
func (k *keyring) forget() {
	k.known.forget()
	k.unknown.forget()
}
