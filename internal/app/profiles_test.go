package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/postrider/postrider/internal/health"
)

func TestProfilesAreForThisMachine(t *testing.T) {
	t.Parallel()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	handler := opsHandler(&health.Readiness{}, metrics)
	for _, tt := range []struct {
		from, path string
		want       int
	}{
		{"127.0.0.1:4711", "/debug/pprof/cmdline", http.StatusOK},
		{"[::1]:4711", "/debug/pprof/cmdline", http.StatusOK},
		{"[::ffff:127.0.0.1]:4711", "/debug/pprof/heap", http.StatusOK},
		{"10.0.0.8:4711", "/debug/pprof/", http.StatusForbidden},
		{"10.0.0.8:4711", "/debug/pprof/heap", http.StatusForbidden},
		{"10.0.0.8:4711", "/debug/pprof/cmdline", http.StatusForbidden},
		{"10.0.0.8:4711", "/debug/pprof/profile", http.StatusForbidden},
		{"10.0.0.8:4711", "/debug/pprof/symbol", http.StatusForbidden},
		{"10.0.0.8:4711", "/debug/pprof/trace", http.StatusForbidden},
		{"[2001:db8::1]:4711", "/debug/pprof/cmdline", http.StatusForbidden},
		{"", "/debug/pprof/cmdline", http.StatusForbidden},
		{"10.0.0.8:4711", "/metrics", http.StatusOK},
		{"10.0.0.8:4711", "/livez", http.StatusOK},
		{"127.0.0.1:4711", "http://evil.example/debug/pprof/heap", http.StatusForbidden},
		{"127.0.0.1:4711", "http://evil.example:9090/metrics", http.StatusForbidden},
		{"127.0.0.1:4711", "http://localhost:9090/metrics", http.StatusOK},
		{"127.0.0.1:4711", "http://[::1]:9090/debug/pprof/cmdline", http.StatusOK},
		{"10.0.0.8:4711", "http://postrider.internal:9090/metrics", http.StatusOK},
	} {
		if tt.path[0] == '/' {
			tt.path = "http://127.0.0.1:9090" + tt.path
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil)
		r.RemoteAddr = tt.from
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s from %s = %d, want %d", tt.path, tt.from, w.Code, tt.want)
		}
	}
}
