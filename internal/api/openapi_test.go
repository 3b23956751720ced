package api_test

import (
	"bytes"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/postrider/postrider/internal/api"
)

var update = flag.Bool("update", false, "write docs/api/openapi.json anew")

const documentFile = "../../docs/api/openapi.json"

// openAPI returns the document as it is served, which needs no key.
func openAPI(t *testing.T) []byte {
	t.Helper()
	rec := httptest.NewRecorder()
	api.New(api.Deps{}, api.Options{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/webhooks/openapi.json", nil))
	if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("GET openapi.json = %d %v", rec.Code, rec.Header())
	}
	return rec.Body.Bytes()
}

func TestTheCommittedDocumentIsTheOneServed(t *testing.T) {
	t.Parallel()
	served := openAPI(t)
	if *update {
		if err := os.WriteFile(documentFile, served, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, served) {
		t.Errorf("%s is not what is served; if the change is meant: go test ./internal/api -update", documentFile)
	}
}
