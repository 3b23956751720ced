package web

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// briefly is how long an answer is given to others who ask the same. Fifty open
// dashboards ask for the same numbers, and one answer of each second is new enough.
const briefly = time.Second

// briefCache keeps the answers of the calls whose numbers every dashboard shows.
type briefCache struct {
	mu      sync.Mutex
	answers map[string]*briefAnswer // by account and URL
}

// briefAnswer is the answer to one call. Its mutex is held while the call is made, so
// that those who ask meanwhile wait for it.
type briefAnswer struct {
	mu     sync.Mutex
	until  time.Time // zero: there is no answer
	status int
	header http.Header
	body   []byte
}

// shared reports whether a call is one whose answer is kept. It depends on the account
// of the caller alone, or needs a scope.
func shared(r *http.Request) bool {
	path := r.URL.Path
	return r.Method == http.MethodGet &&
		(strings.HasSuffix(path, "/stats") || strings.HasSuffix(path, "/troubled-endpoints") || strings.HasSuffix(path, "/nodes"))
}

// briefTransport is a transport that answers some calls from the cache.
type briefTransport struct {
	next   http.RoundTripper
	cache  *briefCache
	caller postrider.Caller
}

// RoundTrip makes the call, unless its answer is kept. Only good answers are.
func (t *briefTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !shared(r) {
		return t.next.RoundTrip(r)
	}
	a := t.cache.answer(t.key(r), time.Now())
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Now().After(a.until) {
		response, err := t.next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it is in memory
		if err != nil {
			return nil, err
		}
		a.status, a.header, a.body = response.StatusCode, response.Header, body
		if response.StatusCode == http.StatusOK {
			a.until = time.Now().Add(briefly)
		}
	}
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
	}, nil
}

// key returns what the answer to a call depends on.
func (t *briefTransport) key(r *http.Request) string {
	return t.caller.Account.String() + " " + r.URL.RequestURI() + " " + strings.Join(words(t.caller.Scopes), " ")
}

// answer returns the entry of a key. The first who asks for a new one drops those that
// are over.
func (c *briefCache) answer(key string, now time.Time) *briefAnswer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.answers[key]; found != nil {
		return found
	}
	for other, a := range c.answers {
		if a.mu.TryLock() {
			if now.After(a.until) {
				delete(c.answers, other)
			}
			a.mu.Unlock()
		}
	}
	a := &briefAnswer{}
	c.answers[key] = a
	return a
}
