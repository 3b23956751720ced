package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/postrider/postrider/internal/api"
)

var update = flag.Bool("update", false, "write docs/api/openapi.json anew")

const documentFile = "../../docs/api/openapi.json"

// openAPI requests the document, which needs no key.
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

func TestAnswersMayGrow(t *testing.T) {
	t.Parallel()
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Closed *bool `json:"additionalProperties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openAPI(t), &document); err != nil {
		t.Fatal(err)
	}
	for name, closed := range map[string]bool{
		"Delivery": false, "DeliveryPage": false, "Endpoint": false, "Retry": false, "CircuitPolicy": false, "Circuit": false, "Problem": false,
		"Fault":       false,
		"EventCreate": true, "EndpointCreate": true, "CircuitUpdate": true,
	} {
		schema, ok := document.Components.Schemas[name]
		if !ok || (schema.Closed != nil) != closed {
			t.Errorf("schema %s: there %t, additionalProperties %v; want them refused: %t", name, ok, schema.Closed, closed)
		}
	}
}
