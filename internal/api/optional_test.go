package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// operation is the part of an operation of the document that a test reads.
type operation struct {
	ID   string `json:"operationId"`
	Body struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			} `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

// property is the part of a field that a test reads.
type property struct {
	Type  any              `json:"type"`
	Ref   string           `json:"$ref"`
	AnyOf []map[string]any `json:"anyOf"`
}

// takesNull reports whether the field can be null.
func (p property) takesNull() bool {
	types, _ := p.Type.([]any)
	return slices.Contains(types, any("null")) || p.Type == nil && p.AnyOf == nil && p.Ref == "" ||
		slices.ContainsFunc(p.AnyOf, func(form map[string]any) bool { return form["type"] == "null" })
}

// TestNullIsTakenWhereTheDocumentSaysSo sends null for each field of each request body. The server
// must accept null if the document calls the field nullable, and otherwise name the field in a 422.
func TestNullIsTakenWhereTheDocumentSaysSo(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths      map[string]map[string]operation
		Components struct {
			Schemas map[string]struct{ Properties map[string]property }
		}
	}
	if err := json.Unmarshal(openAPI(t), &document); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	acme := w.tenant("acme")
	name := regexp.MustCompile(`\{[a-z]+\}`)
	bodies := 0
	for path, methods := range document.Paths {
		path = strings.TrimPrefix(strings.ReplaceAll(path, "{endpoint}", acme.endpoint), "/v1/webhooks")
		path = name.ReplaceAllString(path, "acme")
		for method, op := range methods {
			schema := strings.TrimPrefix(op.Body.Content["application/json"].Schema.Ref, "#/components/schemas/")
			if schema == "" {
				continue
			}
			bodies++
			for _, field := range slices.Sorted(maps.Keys(document.Components.Schemas[schema].Properties)) {
				got := w.do(w.admin, strings.ToUpper(method)+" "+path, `{"`+field+`": null}`)
				refused := strings.Contains(got.text, `{"field":"`+field+`","code":"malformed","reason":"must not be null"}`)
				if takes := document.Components.Schemas[schema].Properties[field].takesNull(); takes == refused || refused &&
					got.status != http.StatusUnprocessableEntity {
					t.Errorf("%s with null for %s = %d %s; the document says that it takes null: %t", op.ID, field, got.status, got.text, takes)
				}
			}
		}
	}
	if bodies < 15 {
		t.Errorf("the document has %d operations with a body, want at least 15", bodies)
	}
}

func TestNullSetsAFieldBackToItsDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	plain := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://acme.example/hooks", "event_types": ["a"]}`)
	path := "PATCH /endpoints/" + plain.id("id")
	w.want(200, path, `{"uid": "e", "description": "d", "timeout_ms": 2000, "client_errors": "dead_letter", "concurrency": 3,
		"expiry_ms": 86400000, "payload": "raw", "adaptive_timeout": true, "order": "by_key", "on_dead": "pause", "max_redirects": 2,
		"compression": "gzip", "retry": {"delays_ms": [0]}, "circuit": {"preset": "never"},
		"signature": {"schemes": ["standard", "github"]}, "headers": [{"name": "X-A", "value": "a"}],
		"rate": {"attempts": 1, "per_ms": 1000}, "auth": {"type": "bearer", "token": "t"}}`)
	got := w.want(200, path, `{"uid": null, "description": null, "timeout_ms": null, "client_errors": null, "concurrency": null,
		"expiry_ms": null, "payload": null, "adaptive_timeout": null, "order": null, "on_dead": null, "max_redirects": null,
		"compression": null, "retry": null, "circuit": null, "signature": null, "headers": null,
		"rate": null, "auth": null, "tls": null}`)
	delete(plain.body, "secrets") // only shown once
	delete(plain.body, "updated_at")
	delete(plain.body, "revision")
	has(t, "after null for every field", got.body, plain.body)

	w.want(200, "PATCH /accounts/acme", `{"name": "Acme Inc."}`)
	has(t, "account", w.want(200, "PATCH /accounts/acme", `{"uid": null}`).body, map[string]any{"uid": nil, "name": "Acme Inc."})
	w.want(201, "POST /event-types", `{"name": "order.created", "description": "d"}`)
	has(t, "event type", w.want(200, "PATCH /event-types/order.created", `{"description": null}`).body, map[string]any{"description": ""})
}

func TestAnAccountKeepsANameOrAUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "solo"}`)
	if got := w.want(422, "PATCH /accounts/solo", `{"uid": null}`); !slices.Equal(got.fields(), []string{"name"}) {
		t.Errorf("without a name and a uid = %s", got.text)
	}
}
