package browser_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// receiver is a customer's server. It accepts every webhook, unless a test has
// told it how to answer those of a path.
type receiver struct {
	url string

	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	came    map[string][]received
}

// received is a request that came.
type received struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answers: map[string]http.HandlerFunc{}, came: map[string][]received{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// ServeHTTP answers as the path was told to, with 200 otherwise.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body) // a sender that goes away is none of the receiver's business
	r.mu.Lock()
	r.came[request.URL.Path] = append(r.came[request.URL.Path], received{request.Header.Clone(), body})
	answer := r.answers[request.URL.Path]
	r.mu.Unlock()
	if answer != nil {
		answer(w, request)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"received": true}`)
}

// tell says how a path answers from now on. Nil: with 200.
func (r *receiver) tell(path string, answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[path] = answer
}

// requests returns what came to a path.
func (r *receiver) requests(path string) []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.came[path])
}

// saying answers with a status and a text.
func saying(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}
