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

// briefly is how long a response is reused for the same call of other pages. Fifty open
// dashboards ask for the same numbers, and numbers that are a second old are new enough.
const briefly = time.Second

// briefCache caches the responses to calls that every dashboard makes.
type briefCache struct {
	mu      sync.Mutex
	answers map[string]*briefAnswer // by briefTransport.key
}

// briefAnswer is the cached response to one call.
type briefAnswer struct {
	// lock holds one item while a page makes the call or reads the response; other pages wait
	// until they can put theirs. A channel replaces a mutex here, so that a page can stop to wait
	// at its own time limit.
	lock chan struct{}

	// The fields below belong to the page that has the lock.

	until  time.Time // end of the reuse, set by ask; zero: nothing is cached
	status int
	header http.Header
	body   []byte
	err    error // error of the call; nil: there is a response
}

// kept matches the paths of calls whose responses are cached. These responses are numbers that
// depend only on the account and the scopes of the caller. An object may be named stats, too.
var kept = regexp.MustCompile(`^/v1/webhooks/(nodes|hold|troubled-endpoints|stats|(accounts|endpoints)/[^/]+/stats)$`)

// shared reports whether the response to a call is cached.
func shared(r *http.Request) bool { return r.Method == http.MethodGet && kept.MatchString(r.URL.Path) }

// briefTransport is a transport that takes some responses from the cache.
type briefTransport struct {
	next   http.RoundTripper
	cache  *briefCache
	caller postrider.Caller
}

// RoundTrip returns the cached response, or makes the call. A failure of the server is cached,
// too. Otherwise pages would call a hanging store one after the other, and each page would wait
// for the time-outs of the pages before it.
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

// ask makes the call. It caches a response with numbers, and a failure that other pages would get
// as well. It does not cache the error of a page whose browser has left.
func (t *briefTransport) ask(a *briefAnswer, r *http.Request) {
	a.status, a.header, a.body, a.err = 0, nil, nil, nil
	response, err := t.next.RoundTrip(r)
	if err == nil {
		a.status, a.header = response.StatusCode, response.Header
		a.body, err = io.ReadAll(response.Body)
		_ = response.Body.Close() // the body is in memory
	}
	a.err = err
	failed := err != nil || a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests
	if a.status == http.StatusOK || failed && !errors.Is(r.Context().Err(), context.Canceled) {
		a.until = time.Now().Add(briefly)
	}
}

// key returns the key of the cached response. It has all that the response depends on.
func (t *briefTransport) key(r *http.Request) string {
	return t.caller.Account.String() + " " + r.URL.RequestURI() + " " + strings.Join(Words(t.caller.Scopes), " ")
}

// answer returns the cache entry of a key. When it adds an entry, it also drops the old entries.
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
		default: // the entry is in use
		}
	}
	a := &briefAnswer{lock: make(chan struct{}, 1)}
	c.answers[key] = a
	return a
}
