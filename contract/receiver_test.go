package contract_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// receiver answers webhooks as the path of their URL says.
type receiver struct {
	url  string
	free chan struct{} // closed: /wait answers
	late chan struct{} // closed: /agree/late answers

	mu   sync.Mutex
	came map[string]int // requests by path
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{free: make(chan struct{}), late: make(chan struct{}), came: map[string]int{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(r.free) })
	r.url = server.URL
	return r
}

// ServeHTTP answers /status/503 with this status, and so on. /asks/disable answers 500 and asks for that.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.came[req.URL.Path]++
	r.mu.Unlock()
	kind, rest, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	switch kind {
	case "asks":
		w.Header().Set("Webhook-Delivery", rest)
		w.WriteHeader(http.StatusInternalServerError)
	case "status":
		status, _ := strconv.Atoi(rest)
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "3600")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "said "+rest)
	case "redirect":
		w.Header().Set("Location", req.URL.Query().Get("to"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "binary":
		_, _ = w.Write([]byte{0xff, 0xfe})
	case "wait":
		select {
		case <-r.free:
		case <-req.Context().Done():
		}
	case "cut":
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	case "agree":
		if rest == "late" {
			select {
			case <-r.late:
			case <-req.Context().Done():
			}
		}
		var asked struct {
			Challenge string `json:"challenge"`
		}
		_ = json.Unmarshal(body, &asked)
		_ = json.NewEncoder(w).Encode(asked)
	}
}

// requests returns how many came to a path.
func (r *receiver) requests(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came[path]
}
