package compat_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// patience is how long the test waits for what must come.
const patience = 30 * time.Second

// webhook is a request as it came from the wire.
type webhook struct {
	header http.Header
	body   []byte
}

// flipped returns the webhook with one bit of its body turned, in three places
// one after the other. Bit 0 keeps UTF-8 what it is, so that no library stops
// at that before it looks at the signature.
func (w webhook) flipped() []webhook {
	var forged []webhook
	for _, at := range []int{0, len(w.body) / 2, len(w.body) - 1} {
		body := slices.Clone(w.body)
		body[at] ^= 1
		forged = append(forged, webhook{header: w.header, body: body})
	}
	return forged
}

// without returns the webhook without some of its headers.
func (w webhook) without(names []string) webhook {
	header := w.header.Clone()
	for _, name := range names {
		header.Del(name)
	}
	return webhook{header: header, body: w.body}
}

// receiver keeps what it is sent, by path, and answers 200.
type receiver struct {
	url string

	mu    sync.Mutex
	boxes map[string]chan webhook
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{boxes: map[string]chan webhook{}}
	listener := httptest.NewServer(r)
	t.Cleanup(listener.Close)
	r.url = listener.URL
	return r
}

func (r *receiver) box(path string) chan webhook {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.boxes[path] == nil {
		r.boxes[path] = make(chan webhook, 16)
	}
	return r.boxes[path]
}

// ServeHTTP keeps a request.
func (r *receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	r.box(request.URL.Path) <- webhook{header: request.Header, body: body}
}

// next waits for what is sent to a path.
func (r *receiver) next(t *testing.T, path string) webhook {
	t.Helper()
	select {
	case w := <-r.box(path):
		return w
	case <-time.After(patience):
		t.Fatalf("nothing was sent to %s", path)
	}
	return webhook{}
}
