package egress_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/egress"
)

func TestTheOperatorsClientIsBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/small", http.StatusFound)
		case "/small":
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20+1))
		}
	}))
	defer server.Close()
	client := egress.OperatorClient()
	get := func(path string) (status, size int, failed error) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, len(body), err
	}
	if status, size, err := get("/small"); status != http.StatusOK || size != 1<<20 || err != nil {
		t.Errorf("1 MiB = %d, %d bytes, %v", status, size, err)
	}
	if _, _, err := get("/large"); err == nil {
		t.Error("a byte more than 1 MiB was read")
	}
	if status, _, _ := get("/moved"); status != http.StatusFound {
		t.Errorf("a redirect = %d, want that it is not followed", status)
	}
}

// TestTheOperatorsTransportKeepsItsConnection also shows that the transport connects to a private
// address, which the guard for receivers refuses.
func TestTheOperatorsTransportKeepsItsConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }))
	defer server.Close()
	transport := egress.OperatorTransport()
	defer transport.CloseIdleConnections()
	from := map[string]bool{}
	for range 3 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		address, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		from[string(address)] = true
	}
	if len(from) != 1 {
		t.Errorf("three requests came from %v, want one connection", from)
	}
}

func TestTheOperatorsDialerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if conn, err := egress.DialOperator(ctx, "tcp", "127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("dial = %v, %v, want that it is cancelled", conn, err)
	}
}
