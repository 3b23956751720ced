package rest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// The types below describe types of package apitypes to huma, where huma cannot derive the schema
// from the Go type. They are not methods of the types in apitypes, because then every program that uses
// package client would compile huma.

// newRegistry returns the registry of the document's schemas. Each Optional type that apitypes uses
// must be listed here. If one is missing, the document shows its field as an empty object, because
// huma sees a struct without exported fields. The golden file of the document shows such a mistake.
// Named string types are described as strings; the tag enum of the field lists their values.
func newRegistry() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", schemaName)
	describe[apitypes.Endpoint, endpointSchema](r)
	describe[apitypes.Delivery, deliverySchema](r)
	describe[apitypes.Attempt, attemptSchema](r)
	describe[apitypes.Replay, replaySchema](r)
	describe[apitypes.Circuit, circuitSchema](r)
	describe[apitypes.Source, sourceSchema](r)
	describe[apitypes.Scheme, schemeSchema](r)
	describe[apitypes.TLS, tls](r)
	describe[apitypes.Optional[bool], optionalSchema[bool]](r)
	describe[apitypes.Optional[int], optionalSchema[int]](r)
	describe[apitypes.Optional[int64], optionalSchema[int64]](r)
	describe[apitypes.Optional[string], optionalSchema[string]](r)
	describe[apitypes.Optional[json.RawMessage], json.RawMessage](r) // any JSON value, null too
	describe[apitypes.Optional[[]string], optionalSchema[[]string]](r)
	describe[apitypes.Optional[apitypes.Metadata], optionalSchema[apitypes.Metadata]](r)
	describe[apitypes.Optional[[]postrider.NoticeKind], optionalSchema[[]string]](r)
	describe[apitypes.Optional[postrider.ClientErrors], optionalSchema[string]](r)
	describe[apitypes.Optional[postrider.Payload], optionalSchema[string]](r)
	describe[apitypes.Optional[postrider.Order], optionalSchema[string]](r)
	describe[apitypes.Optional[postrider.OnDead], optionalSchema[string]](r)
	describe[apitypes.Optional[postrider.Compression], optionalSchema[string]](r)
	describe[apitypes.Optional[apitypes.Retry], optionalSchema[apitypes.Retry]](r)
	describe[apitypes.Optional[apitypes.Signature], optionalSchema[apitypes.Signature]](r)
	describe[apitypes.Optional[apitypes.CircuitPolicy], optionalSchema[apitypes.CircuitPolicy]](r)
	describe[apitypes.Optional[apitypes.Rate], optionalSchema[apitypes.Rate]](r)
	describe[apitypes.Optional[[]apitypes.Header], optionalSchema[[]apitypes.Header]](r)
	describe[apitypes.Optional[apitypes.Auth], optionalSchema[apitypes.Auth]](r)
	describe[apitypes.Optional[apitypes.TLS], optionalSchema[apitypes.TLS]](r)
	describe[apitypes.Optional[apitypes.SourceTable], optionalSchema[apitypes.SourceTable]](r)
	return r
}

// describe makes huma use the schema of D for the type T.
func describe[T, D any](r huma.Registry) {
	r.RegisterTypeAlias(reflect.TypeFor[T](), reflect.TypeFor[D]())
}

// optionalSchema has the schema of an Optional of T: a value of T, or null.
type optionalSchema[T any] struct{}

// Schema implements [huma.SchemaProvider].
func (optionalSchema[T]) Schema(r huma.Registry) *huma.Schema {
	value := r.Schema(reflect.TypeFor[T](), true, "")
	if value.Ref != "" {
		return orNullSchema(value)
	}
	value.Nullable = value.Type != "" // a schema without a type allows null already
	return value
}

// orNullSchema returns a schema that is the reference or null. A plain reference does not
// allow null.
func orNullSchema(s *huma.Schema) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{{Ref: s.Ref}, {Type: "null"}}, Description: s.Description}
}

// endpointSchema has the schema of an endpoint in a response.
type endpointSchema struct{ apitypes.Endpoint }

// TransformSchema describes the policy of a response: only the fields changed, channels, condition, rate, auth
// and tls can be null. No field is required, because an endpoint with a policy_error has none of them.
func (endpointSchema) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	for field := range reflect.TypeFor[apitypes.Policy]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if slices.Contains([]string{"changed", "channels", "condition", "rate", "auth", "tls"}, name) {
			continue
		}
		property := s.Properties[name]
		property.Nullable = false
		if len(property.AnyOf) > 0 {
			s.Properties[name] = &huma.Schema{Ref: property.AnyOf[0].Ref, Description: property.Description}
		}
	}
	return s
}

// deliverySchema has the schema of a delivery.
type deliverySchema struct{ apitypes.Delivery }

// TransformSchema lets waiting and explanation be null.
func (deliverySchema) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["waiting"] = orNullSchema(s.Properties["waiting"])
	s.Properties["explanation"] = orNullSchema(s.Properties["explanation"])
	return s
}

// attemptSchema has the schema of an attempt.
type attemptSchema struct{ apitypes.Attempt }

// TransformSchema lists the classes that an error begins with, and lets timing be null.
func (attemptSchema) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["timing"] = orNullSchema(s.Properties["timing"])
	names := make([]string, len(postrider.Failures))
	for i, f := range postrider.Failures {
		names[i] = string(f)
	}
	s.Properties["error"].Description = "Class of the failure, and after a colon a detail. Null: there was no failure. With the outcome none, the reason of the decision. " +
		"Otherwise one of " + strings.Join(names, ", ") + "."
	return s
}

// replaySchema has the schema of a replay job.
type replaySchema struct{ apitypes.Replay }

// TransformSchema lets deliveries be null.
func (replaySchema) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["deliveries"] = orNullSchema(s.Properties["deliveries"])
	return s
}

// circuitSchema has the schema of a circuit.
type circuitSchema struct{ apitypes.Circuit }

// TransformSchema lets pace be null.
func (circuitSchema) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["pace"] = orNullSchema(s.Properties["pace"])
	return s
}

// sourceSchema has the schema of a source.
type sourceSchema struct{ apitypes.Source }

// TransformSchema lets table be null.
func (sourceSchema) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["table"] = orNullSchema(s.Properties["table"])
	return s
}

// schemeSchema has the schema of a signature scheme, which is a name or an object.
type schemeSchema struct{}

// object has the fields of [apitypes.Scheme]. Unlike [apitypes.Scheme], it is not replaced by
// schemeSchema in the registry.
type object apitypes.Scheme

// Schema implements [huma.SchemaProvider]: a scheme is a name or an object.
func (schemeSchema) Schema(r huma.Registry) *huma.Schema {
	name := &huma.Schema{Type: huma.TypeString}
	form := huma.SchemaFromType(r, reflect.TypeFor[object]())
	named := form.Properties["scheme"]
	for _, scheme := range postrider.Schemes {
		name.Enum = append(name.Enum, string(scheme))
		if scheme.CustomHeaderAllowed() {
			named.Enum = append(named.Enum, string(scheme))
		}
	}
	return &huma.Schema{OneOf: []*huma.Schema{name, form}}
}

// tls gives the schema of [apitypes.TLS] its name in the document, which comes from the name of
// this type.
type tls struct{ apitypes.TLS }
