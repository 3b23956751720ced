package page

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// briefly is how long an answer is used for the same call of other pages. Fifty open
// dashboards ask for the same numbers, and numbers that are a second old are new enough.
const briefly = time.Second

// briefCache keeps the answers of the calls whose numbers every dashboard shows.
type briefCache struct {
	mu      sync.Mutex
	answers map[string]*briefAnswer // by briefTransport.key
}

// briefAnswer is the answer to one call.
type briefAnswer struct {
	// lock holds one item while a page makes the call or reads the answer, so that the
	// other pages wait for it. Unlike for a mutex, a page waits for it no longer than its
	// own time limit.
	lock chan struct{}

	// The rest belongs to the page that has the lock.

	until  time.Time // the answer is used until then; zero: there is none
	status int
	header http.Header
	body   []byte
	err    error // instead of the answer; nil: there is one
}

// kept are the paths of the calls whose answers are kept: numbers, which depend on nothing
// of the caller but the account and the scopes. An object may have the name stats, too.
var kept = regexp.MustCompile(`^/v1/webhooks/(nodes|hold|troubled-endpoints|stats|(accounts|endpoints)/[^/]+/stats)$`)

// shared reports whether the answer to a call is kept.
func shared(r *http.Request) bool { return r.Method == http.MethodGet && kept.MatchString(r.URL.Path) }

// briefTransport is a transport that answers some calls from the cache.
type briefTransport struct {
	next   http.RoundTripper
	cache  *briefCache
	caller postrider.Caller
}

// RoundTrip makes the call, unless its answer is kept. A failure of the server is kept, too:
// while the store hangs, pages would make the call one after the other, and each wait for the
// time limits of those before it.
func (t *briefTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !shared(r) {
		return t.next.RoundTrip(r)
	}
	a := t.cache.answer(t.key(r), time.Now())
	select {
	case a.lock <- struct{}{}:
		defer func() { <-a.lock }()
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	if time.Now().After(a.until) {
		t.ask(a, r)
	}
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}, nil
}

// ask makes the call. Its outcome is used for other pages if it is numbers, or a failure that
// they would share. A page whose browser left has failed alone.
func (t *briefTransport) ask(a *briefAnswer, r *http.Request) {
	a.status, a.header, a.body, a.err = 0, nil, nil, nil
	response, err := t.next.RoundTrip(r)
	if err == nil {
		a.status, a.header = response.StatusCode, response.Header
		a.body, err = io.ReadAll(response.Body)
		_ = response.Body.Close() // it is in memory
	}
	a.err = err
	failed := err != nil || a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests
	if a.status == http.StatusOK || failed && !errors.Is(r.Context().Err(), context.Canceled) {
		a.until = time.Now().Add(briefly)
	}
}

// key returns the key of the call's answer: all that the answer depends on.
func (t *briefTransport) key(r *http.Request) string {
	return t.caller.Account.String() + " " + r.URL.RequestURI() + " " + strings.Join(Words(t.caller.Scopes), " ")
}

// answer returns the entry of a key. A new entry is the occasion to drop the entries that
// are too old.
func (c *briefCache) answer(key string, now time.Time) *briefAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.answers[key]; found != nil {
		return found
	}
	for other, a := range c.answers {
		select {
		case a.lock <- struct{}{}:
			if now.After(a.until) {
				delete(c.answers, other)
			}
			<-a.lock
		default: // it is in use
		}
	}
	a := &briefAnswer{lock: make(chan struct{}, 1)}
	c.answers[key] = a
	return a
}
