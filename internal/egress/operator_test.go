package egress_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
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

// TestSourcesAreReachedInTheirNetworks dials listeners of this machine, which are in a network that is allowed or are none.
func TestSourcesAreReachedInTheirNetworks(t *testing.T) {
	t.Parallel()
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	socket, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, tt := range []struct {
		allow   string // empty: nothing
		to      net.Addr
		refused bool
	}{
		{"127.0.0.0/8", tcp.Addr(), false},
		{"10.0.0.0/8", tcp.Addr(), true},
		{"", tcp.Addr(), true},
		{"0.0.0.0/0", socket.Addr(), true},
		{"0.0.0.0/0", &net.TCPAddr{IP: net.IPv4(169, 254, 169, 254), Port: 5432}, true},
	} {
		var allow []netip.Prefix
		if tt.allow != "" {
			allow = append(allow, netip.MustParsePrefix(tt.allow))
		}
		c, err := egress.SourceDialer(allow)(t.Context(), tt.to.Network(), tt.to.String())
		if err == nil {
			c.Close()
		}
		refused := err != nil && strings.Contains(err.Error(), "the rules for egress refuse "+tt.to.String())
		if refused != tt.refused || !refused && err != nil {
			t.Errorf("%v with %q: %v", tt.to, tt.allow, err)
		}
	}
}
