package egress_test

import (
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
