package api

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// schemaName names a schema after its Go type: accountCreate is AccountCreate,
// deliveryView is Delivery, page[deliveryView] is DeliveryPage. No name begins
// with New, because generators of clients name constructors so.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	name = strings.TrimSuffix(strings.TrimSuffix(name, "View"), "JSON")
	for _, generic := range []string{"Page", "List"} {
		if item, ok := strings.CutPrefix(name, generic); ok && strings.Contains(t.Name(), "[") {
			return item + generic
		}
	}
	return name
}

// document returns the OpenAPI document as it is served and committed.
func document(openAPI *huma.OpenAPI) []byte {
	delete(openAPI.Components.Schemas.Map(), "ErrorModel")  // huma's own form of
	delete(openAPI.Components.Schemas.Map(), "ErrorDetail") // errors, which we never send
	openAnswers(openAPI)
	for s := range schemas(openAPI) {
		if s.Nullable && len(s.Enum) > 0 {
			s.Enum = append(s.Enum, nil) // an enum lists every value, null too
		}
	}
	compact, err := json.Marshal(openAPI)
	if err != nil {
		panic("encode the OpenAPI document: " + err.Error()) // it is made of constants
	}
	var indented bytes.Buffer
	_ = json.Indent(&indented, compact, "", "  ") // it was just marshalled
	indented.WriteByte('\n')
	return indented.Bytes()
}

// openAnswers lets the schemas of answers have fields that the document does
// not know, so that adding one breaks no client that was made from it.
func openAnswers(openAPI *huma.OpenAPI) {
	seen := map[*huma.Schema]bool{}
	var open func(s *huma.Schema)
	open = func(s *huma.Schema) {
		if s.Ref != "" {
			s = openAPI.Components.Schemas.SchemaFromRef(s.Ref)
		}
		if seen[s] {
			return
		}
		seen[s] = true
		if s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
		for part := range parts(s) {
			open(part)
		}
	}
	for op := range operations(openAPI) {
		for _, answer := range op.Responses {
			for _, media := range answer.Content {
				open(media.Schema)
			}
		}
	}
}

// parts returns the schemas that a schema consists of.
func parts(s *huma.Schema) iter.Seq[*huma.Schema] {
	return func(yield func(*huma.Schema) bool) {
		if s.Items != nil && !yield(s.Items) {
			return
		}
		for _, property := range s.Properties {
			if !yield(property) {
				return
			}
		}
		for _, form := range slices.Concat(s.OneOf, s.AnyOf) {
			if !yield(form) {
				return
			}
		}
	}
}

// schemas returns every schema of the components, with its parts.
func schemas(openAPI *huma.OpenAPI) iter.Seq[*huma.Schema] {
	return func(yield func(*huma.Schema) bool) {
		waiting := slices.Collect(maps.Values(openAPI.Components.Schemas.Map()))
		for len(waiting) > 0 {
			s := waiting[0]
			waiting = slices.AppendSeq(waiting[1:], parts(s))
			if !yield(s) {
				return
			}
		}
	}
}

func operations(openAPI *huma.OpenAPI) iter.Seq[*huma.Operation] {
	return func(yield func(*huma.Operation) bool) {
		for _, item := range openAPI.Paths {
			for _, op := range []*huma.Operation{item.Get, item.Post, item.Patch, item.Delete} {
				if op != nil && !yield(op) {
					return
				}
			}
		}
	}
}
