package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// schemaName names a schema after its Go type: Page[Delivery] is DeliveryPage.
// No name may begin with New, because client generators use this prefix for
// constructors.
func schemaName(t reflect.Type, hint string) string {
	name := strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "Schema")
	for _, generic := range []string{"Page", "List"} {
		if item, ok := strings.CutPrefix(name, generic); ok && strings.Contains(t.Name(), "[") {
			return item + generic
		}
	}
	return name
}

// description returns the document without its operations.
func description(registry huma.Registry) *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Postrider", Version: "1",
			Description: "Publish events, manage the endpoints that receive them, and read what became of each delivery.",
			Contact:     &huma.Contact{Name: "Postrider", URL: "https://github.com/postrider/postrider"},
			License:     &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: "/", Description: "The server that this document comes from."}},
		Tags: []*huma.Tag{
			{Name: "accounts", Description: "An account is a customer of your platform. Endpoints and events belong to an account."},
			{Name: "api-keys", Description: "API keys authenticate requests. A key has scopes and may be bound to one account."},
			{Name: "archive", Description: "The archive has copies of what retention has deleted. A part is an object with records of a day."},
			{Name: "audit", Description: "The audit log has who changed, replayed, tested or looked at what."},
			{Name: "dead-letters", Description: "A dead letter is a delivery that is not attempted any more. A person replays or discards it."},
			{Name: "deliveries", Description: "A delivery is one event on its way to one endpoint. An attempt is one request made for it."},
			{Name: "endpoints", Description: "An endpoint is a URL that receives the events of an account, with its secrets and its policy."},
			{Name: "event-types", Description: "The catalogue of event types describes what your platform publishes."},
			{Name: "events", Description: "An event is published once and delivered to each endpoint that subscribes to its type."},
			{Name: "expunges", Description: "An expunge removes an event, an endpoint or an account for good, with all that is stored about it."},
			{Name: "hold", Description: "A store that was restored from a backup is held: nothing of it is sent until a person resumes it."},
			{Name: "nodes", Description: "A node is a process of the server. All nodes share one store."},
			{Name: "notice-destinations", Description: "A destination is an email address or a Slack-compatible webhook that notices are sent to."},
			{Name: "notices", Description: "A notice tells people what they should know without having to look."},
			{Name: "portal", Description: "The customer portal: its name, colour and logo, and where it may be embedded."},
			{Name: "portal-sessions", Description: "A one-time link opens the customer portal of one account."},
			{Name: "replays", Description: "A replay sends, or discards, all deliveries that a filter selects, at a pace."},
			{Name: "search", Description: "What people look for, by an id, a uid or a name."},
			{Name: "sessions", Description: "A session is the right of a browser to see the pages."},
			{Name: "sources", Description: "A source is the outbox of a producer: tables in its PostgreSQL, from which events are read."},
			{Name: "secrets", Description: "Secrets and credentials are stored encrypted with encryption keys."},
			{Name: "stats", Description: "What happened in a range of time, by minute, hour or day, and what waits now."},
			{Name: "troubled-endpoints", Description: "The endpoints that need a person now, and why."},
		},
		Components: &huma.Components{
			Schemas:   registry,
			Responses: map[string]*huma.Response{},
			Headers: map[string]*huma.Header{
				"Accept":             {Description: "The media type of bodies: application/json. Only where the request's was another.", Schema: &huma.Schema{Type: huma.TypeString}},
				"AcceptEncoding":     {Description: "The encoding of bodies: identity. Only where the request's was another.", Schema: &huma.Schema{Type: huma.TypeString}},
				"CacheControl":       {Description: "no-store: responses have secrets and data of customers.", Schema: &huma.Schema{Type: huma.TypeString}, Required: true},
				"ContentTypeOptions": {Description: "nosniff.", Schema: &huma.Schema{Type: huma.TypeString}, Required: true},
				"RequestID":          {Description: "Id of the request in the server's log.", Schema: &huma.Schema{Type: huma.TypeString}, Required: true},
				"RetryAfter":         {Description: "Seconds to wait before the request is repeated.", Schema: &huma.Schema{Type: huma.TypeInteger}, Required: true},
				"Authenticate":       {Description: "The authentication scheme: Bearer.", Schema: &huma.Schema{Type: huma.TypeString}, Required: true},
			},
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"key": {Type: "http", Scheme: "bearer", Description: "An API key, pr_…"},
			},
		},
	}
}

// exactClasses are the problems whose code is more specific than the code of their error's class.
// The handlers set these codes. The table is used only for the document.
var exactClasses = []errorClass{
	{nil, 409, "idempotency_conflict", "the idempotency key was used for other content"},
	{nil, 409, "endpoint_paused", "the endpoint is paused"},
	{nil, 409, "endpoint_not_paused", "the endpoint gets its events in order, and is not paused"},
	{nil, 409, "endpoint_disabled", "the endpoint is disabled"},
	{nil, 409, "endpoint_deleted", "the endpoint is deleted"},
	{nil, 409, "endpoint_set_aside", "the endpoint is set aside until its policy is set again"},
	{nil, 409, "endpoint_is_inspector", "the endpoint is an inspector, so it has no receiver that could agree"},
	{nil, 409, "endpoint_no_inspector", "the endpoint is no inspector: its requests are sent to its URL"},
	{nil, 409, "uid_taken", "the uid is in use"},
	{nil, 409, "url_changed", "the URL changed while its receiver was being verified"},
	{nil, 409, "event_type_exists", "the catalogue has this event type already"},
	{nil, 409, "too_many_secrets", "the endpoint has as many secrets as may be valid at the same time"},
	{nil, 409, "secret_exists", "the endpoint has this secret already"},
	{nil, 409, "last_secret", "the endpoint needs the secret"},
	{nil, 409, "too_many_replays", "as many replays are running as may run at the same time"},
	{nil, 409, "backfill_running", "a backfill of the endpoint has not ended"},
	{nil, 409, "expunges_unfinished", "what was expunged before the restore is removed again first"},
	{nil, 409, "no_archive", "the server has no archive"},
	{nil, 409, "what_if_running", "archived events of the account are being compared already"},
	{nil, 409, "archive_damaged", "a part of the archive is not what was written"},
	{nil, 409, "replay_done", "the replay is done: all that it selects was handled; a delivery of it that is pending can be cancelled by itself"},
	{nil, 409, "replay_cancelled", "the replay is cancelled: create one with the same filter to handle the rest"},
	{nil, 409, "replay_failed", "the replay has failed"},
	{nil, 409, "delivery_pending", "the delivery is pending"},
	{nil, 409, "delivery_delivered", "the delivery is delivered"},
	{nil, 409, "delivery_dead", "the delivery is a dead letter"},
	{nil, 409, "delivery_cancelled", "the delivery is cancelled"},
	{nil, 409, "delivery_skipped", "the delivery was skipped"},
	{nil, 409, "delivery_not_waiting", "the delivery does not wait for its retry"},
	{nil, 409, "delivery_not_parked", "the delivery is not parked"},
	{nil, 409, "dead_letter_replayed", "the dead letter was replayed"},
	{nil, 409, "dead_letter_discarded", "the dead letter was discarded"},
	{nil, 409, "attempt_without_request", "the attempt made no request"},
	{nil, 409, "request_unknown", "the request of the attempt cannot be described"},
	{nil, 409, "replay_pending", "a replay of this dead letter is under way"},
	{nil, 409, "unverified", "the endpoint's receiver has not agreed to events at this URL"},
	{nil, 409, "verification_failed", "the receiver did not agree"},
	{nil, 409, "endpoint_quota_used", "the account has as many endpoints as it may have; see quota"},
	{nil, 429, "event_quota_used", "the account has published as many events as it may; see quota and Retry-After"},
	{nil, 429, "byte_quota_used", "the events of the account have as many bytes as they may have today; see quota and Retry-After"},
	{nil, 429, "filter_quota_used", "the filters of the account's endpoints take too much time; see quota and Retry-After"},
	{nil, 503, "archive_unavailable", "the archive cannot be read now"},
	{nil, 503, "expunge_list_unwritable", "the server's list of expunges (--expunge-list) cannot be written, so nothing was expunged"},
	{nil, 503, "disk_full", "the disk of the store is full, or nearly full, so nothing was stored; see Retry-After"},
	{nil, 409, "destination_exists", "there is a destination with this address already"},
	{nil, 409, "too_many_destinations", "there are as many destinations as there may be"},
	{nil, 409, "destination_no_email", "only an email address needs to be confirmed"},
	{nil, 409, "destination_unconfirmed", "its reader has not confirmed the address"},
	{nil, 409, "destination_unsubscribed", "its reader wants no messages; ask for a confirmation again"},
	{nil, 409, "too_many_sources", "there are as many sources as there may be"},
	{nil, 422, "source_unusable", "the database cannot be used as a source; the detail says why"},
	{nil, 503, "source_unavailable", "the database of the source cannot be used now; the detail says why"},
	{nil, 404, "row_waiting", "the row waits in the outbox of a source; its event is not published yet"},
	{nil, 404, "row_unknown", "no event was read from the row, and the outbox of a source cannot be read now"},
	{nil, 404, "row_rejected", "the row was rejected in a source, so it has no event"},
	{nil, 422, "mail_missing", "emails need a mail server, which is not set"},
	{nil, 422, "public_url_missing", "links need the server's public URL, which is not set"},
}

// RowCodes are the codes of a response about the row of an outbox that has no event.
var RowCodes = []string{"row_waiting", "row_rejected", "row_unknown"}

// problems returns the error responses of an operation, by status. Every operation has the codes
// for authentication, validation and server faults. A path parameter adds not_found. A body adds
// the codes for reading a body. The route adds its own codes. The contract tests compare each
// response of a running server with this list, so they find a code that is missing here.
func (rt *Router) problems(r Route) map[string]*huma.Response {
	codes := append([]string{"unauthorized", "forbidden", "invalid", "internal", "unavailable"}, r.Codes...)
	if strings.Contains(r.Path, "{") {
		codes = append(codes, "not_found")
	}
	if r.Body != nil {
		codes = append(codes, "malformed", "timeout", "too_large", "unsupported_media_type", "overloaded")
	}
	if r.Conditional {
		codes = append(codes, "precondition_failed")
	}
	// Callers with the scope admin are bound to no account, so their reads need no turn.
	if r.onlyReads() && r.Scope != postrider.ScopeAdmin {
		codes = append(codes, "too_many_reads")
	}
	byStatus := map[int][]errorClass{}
	for _, k := range slices.Concat(errorClasses, exactClasses, []errorClass{internalClass}) {
		if same := byStatus[k.status]; slices.Contains(codes, k.code) && !slices.ContainsFunc(same, func(o errorClass) bool { return o.code == k.code }) {
			byStatus[k.status] = append(same, k)
		}
	}
	responses := map[string]*huma.Response{}
	for status, errorClasses := range byStatus {
		responses[strconv.Itoa(status)] = rt.problem(errorClasses)
	}
	return responses
}

// problem returns a reference to the component for these classes, which must have the same status.
// Operations with the same classes share the component.
func (rt *Router) problem(errorClasses []errorClass) *huma.Response {
	var names, codes, texts []string
	for _, k := range errorClasses {
		names = append(names, camelCase(k.code))
		codes = append(codes, k.code)
		texts = append(texts, fmt.Sprintf("`%s`: %s.", k.code, k.detail))
	}
	name := strings.Join(names, "Or")
	rt.api.OpenAPI().Components.Responses[name] = &huma.Response{
		Description: strings.Join(texts, "\n\n"),
		Headers:     headers(errorClasses[0].status),
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: rt.schema(reflect.TypeFor[apitypes.Problem]())}},
		Extensions:  map[string]any{"x-codes": codes},
	}
	return &huma.Response{Ref: "#/components/responses/" + name}
}

// headers describes the headers of a response with the status. All responses have Request-Id,
// Cache-Control and X-Content-Type-Options.
func headers(status int) map[string]*huma.Header {
	described := map[string]*huma.Header{
		"Request-Id":             {Ref: "#/components/headers/RequestID"},
		"Cache-Control":          {Ref: "#/components/headers/CacheControl"},
		"X-Content-Type-Options": {Ref: "#/components/headers/ContentTypeOptions"},
	}
	switch status {
	case http.StatusUnauthorized:
		described["WWW-Authenticate"] = &huma.Header{Ref: "#/components/headers/Authenticate"}
	case http.StatusUnsupportedMediaType:
		described["Accept"] = &huma.Header{Ref: "#/components/headers/Accept"}
		described["Accept-Encoding"] = &huma.Header{Ref: "#/components/headers/AcceptEncoding"}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		described["Retry-After"] = &huma.Header{Ref: "#/components/headers/RetryAfter"}
	}
	return described
}

// camelCase converts a name with underscores to camel case: not_found becomes
// NotFound.
func camelCase(name string) string {
	var text strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		text.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return text.String()
}

// finishDocument adds to the OpenAPI document the parts that no route adds. It removes huma's own
// error schemas, which no response uses, and adds the codes of all problems to the schema Problem.
func finishDocument(openAPI *huma.OpenAPI) {
	delete(openAPI.Components.Schemas.Map(), "ErrorModel")
	delete(openAPI.Components.Schemas.Map(), "ErrorDetail")
	openResponses(openAPI)
	for op := range operations(openAPI) {
		for _, response := range op.Responses {
			if response.Ref != "" {
				continue
			}
			described := headers(http.StatusOK)
			maps.Copy(described, response.Headers)
			response.Headers = described
		}
	}
	// The schema Problem lists all codes, so that clients can generate an enum.
	code := openAPI.Components.Schemas.Map()["Problem"].Properties["code"]
	for _, k := range slices.Concat(errorClasses, exactClasses, []errorClass{internalClass}) {
		if !slices.Contains(code.Enum, any(k.code)) {
			code.Enum = append(code.Enum, k.code)
		}
	}
	for s := range schemas(openAPI) {
		if failure := s.Properties["last_failure"]; failure != nil && failure.Ref != "" {
			s.Properties["last_failure"] = orNullSchema(failure)
		}
		if s.Nullable && len(s.Enum) > 0 {
			s.Enum = append(s.Enum, nil) // by JSON Schema an enum must list null too
		}
	}
}

// serveDocument serves the document. The first request encodes it, because encoding takes a third
// of the time in which the API is built.
func serveDocument(openAPI *huma.OpenAPI) http.HandlerFunc {
	document := sync.OnceValue(func() []byte { return encodeDocument(openAPI) })
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document())
	}
}

// encodeDocument returns the finished document as JSON, in the form that is served and committed to
// the repository.
func encodeDocument(openAPI *huma.OpenAPI) []byte {
	compact, err := json.Marshal(openAPI)
	if err != nil {
		// An error is a bug, because the input is constant.
		panic("encode the OpenAPI document: " + err.Error())
	}
	var indented bytes.Buffer
	_ = json.Indent(&indented, compact, "", "  ") // cannot fail: the input is valid JSON
	indented.WriteByte('\n')
	return indented.Bytes()
}

// openResponses allows unknown fields in the schemas of responses, so a new field in a response
// breaks no generated client. The schemas of requests forbid unknown fields, because the server
// refuses them.
func openResponses(openAPI *huma.OpenAPI) {
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
		for _, response := range op.Responses {
			if response.Ref != "" {
				response = openAPI.Components.Responses[strings.TrimPrefix(response.Ref, "#/components/responses/")]
			}
			for _, media := range response.Content {
				open(media.Schema)
			}
		}
	}
}

// parts returns the schemas directly inside a schema: its items, properties and
// alternatives.
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

// schemas returns every schema of the components and all schemas inside it.
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

// operations returns every operation of the document, in no order.
func operations(openAPI *huma.OpenAPI) iter.Seq[*huma.Operation] {
	return func(yield func(*huma.Operation) bool) {
		for _, item := range openAPI.Paths {
			for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
				if op != nil && !yield(op) {
					return
				}
			}
		}
	}
}
