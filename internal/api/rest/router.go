package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/jsonx"
	"github.com/postrider/postrider/internal/store"
)

const (
	root = "/v1/webhooks"
	// manageBody is the default limit of a request body, in bytes. Only the two
	// publish routes have other limits.
	manageBody = 256 << 10

	// listTime is the smallest time limit of a GET, and of a route with Pages. Lists may take longer than other requests,
	// because no publisher waits for them.
	listTime = 30 * time.Second
)

// Router registers routes with huma. Huma parses and validates path and query parameters, writes
// responses, and describes all operations in the OpenAPI document. This package decodes the request
// bodies, not huma.
type Router struct {
	*server
	// mux serves the routes of [Handle] and of [HandleRaw].
	mux *http.ServeMux
	// methods responds with 405 for the methods that a path does not have.
	methods *methods
	// api registers an operation with mux and with the document.
	api huma.API
	// described registers an operation with the same document only.
	described huma.API
	// actions has the names of the audited operations. [Handle] adds a name when it registers an
	// audited route.
	actions []string
}

// discardMux is a mux that ignores its routes. It lets huma describe an operation
// without serving it.
type discardMux struct{ http.Handler }

// HandleFunc does nothing.
func (discardMux) HandleFunc(string, func(http.ResponseWriter, *http.Request)) {}

// Route describes one operation, for the mux and for the OpenAPI document.
type Route struct {
	// Name is the operation id, such as publish-event.
	Name string
	// Path is the method and the path below root.
	Path string
	// Summary is the summary of the operation in the document, a few words.
	Summary string
	// Description is the text below the summary in the document. Empty: the document has only the
	// summary.
	Description string
	// Scope is the scope that the caller's key must have.
	Scope postrider.Scope
	// Codes are the problem codes of this operation, without the codes that [Router.problems] adds
	// to operations.
	Codes []string
	// Status is the status of success. 0: 200 with a response body, 204 without.
	Status int
	// Body is a value of the type of the request body. nil: no body is read. [HandleBody] sets it.
	Body any
	// Empty is true if the request body may be omitted.
	Empty bool
	// Limit is the largest request body, in bytes. 0: manageBody.
	Limit int64
	// ReceiverTime is the time for which the handler may wait for a receiver. It is added to the
	// time limit of the response. 0: the handler calls no receiver.
	ReceiverTime time.Duration
	// Repeatable is true if a repeated request gets a 200 with the same body as the first request.
	Repeatable bool
	// Withdraws is true if the operation takes something away from an endpoint or account, so that its
	// handler calls [Effects.Await].
	Withdraws bool
	// Reveals is true for a GET that shows secrets: its requests are audited.
	Reveals bool
	// SearchesData is true for a GET that may call [Info.SearchesData].
	SearchesData bool
	// Reads is true for a POST that changes nothing: its requests are not audited.
	Reads bool
	// Pages is true for a POST with Reads whose handler reads many pages, each by [Router.Read]. It may
	// take as long as a list.
	Pages bool
	// Metadata is true for a list whose handler calls [MetadataFilter].
	Metadata bool
	// Conditional is true for an operation whose handler calls [IfMatch].
	Conditional bool
	// Creates is true for a PUT: its handler calls [Info.Created] if it has created the object, and the
	// response is then a 201.
	Creates bool
	// Headers are the request headers that the handler reads itself.
	Headers []*huma.Param
}

// Handle registers a handler that huma calls. All errors go through [problemOf], so huma never
// chooses the text of an error. The type I has the path and query parameters as tagged fields,
// which huma fills and checks. The type O is a [Reply], or [None] for a response without a body.
func Handle[I, O any](rt *Router, r Route, handler func(context.Context, *I) (*O, error)) {
	if r.audited() || r.SearchesData {
		rt.actions = append(rt.actions, r.Name)
	}
	op := rt.operation(r)
	op.Middlewares = huma.Middlewares{rt.middleware(r)}
	tagged := revisionOf(reflect.New(reflect.TypeFor[O]()).Elem()).IsValid()
	huma.Register(rt.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err = rt.audit(ctx, r, out, err); err != nil {
			return nil, problemOf(ctx, err)
		}
		if tagged {
			InfoOf(ctx).tag = tag(revisionOf(reflect.ValueOf(out).Elem()).Int())
		}
		return out, nil
	})
	if r.Creates {
		describeCreated(op)
	}
	if r.Withdraws {
		describeEffect(op)
	}
	if tagged {
		describeTag(op)
	}
	// Huma has now registered the operation without a body, so huma does not read the body.
	if r.Body != nil {
		rt.describeBody(op, r)
	}
}

// HandleBody is [Handle] for a route with a body. It decodes the body before it calls the handler.
// If the route allows an empty body and the request has none, the handler gets the zero value.
func HandleBody[I, B, O any](rt *Router, r Route, handler func(context.Context, *I, B) (*O, error)) {
	r.Body = *new(B)
	Handle(rt, r, func(ctx context.Context, in *I) (*O, error) {
		var body B
		if !r.Empty || len(InfoOf(ctx).body) > 0 {
			if err := Decode(ctx, &body); err != nil {
				return nil, err
			}
		}
		return handler(ctx, in, body)
	})
}

// HandleRaw registers a handler that is called without huma, for the routes that carry most of the
// load. Huma only describes the route, with the response type A. The handler decodes the body,
// replaces the body by the response, and returns the status.
func HandleRaw[A any](rt *Router, r Route, handler func(ctx context.Context, b Raw) (int, error)) {
	op := rt.operation(r)
	huma.Register(rt.described, op, func(context.Context, *None) (*Reply[A], error) { return nil, nil })
	rt.describeBody(op, r)
	rt.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, req *http.Request) {
		a := w.(*responseWriter) //nolint:errcheck // requestLogger passes a responseWriter
		// The deferred calls run in reverse order: first the budget is released, then the buffer
		// returns to its pool.
		buf := bufferOf(smallBuffer)
		defer recycle(buf)
		defer rt.bodies.release(&a.intake)
		var status int
		err := rt.authorizeAndRead(a, body{r, buf})
		if err == nil {
			err = noQuery(req.URL)
		}
		if err == nil {
			ctx, cancel := rt.inTime(req.Context(), a, r)
			defer cancel()
			status, err = handler(a.info.in(ctx), Raw{buf, rt.server})
		}
		if err != nil {
			a.refuse(err)
			return
		}
		writeJSON(a, status, buf.Bytes())
	})
}

// Raw is a buffer for a handler without huma. It has the request body first, and the response body
// later.
type Raw struct {
	*bytes.Buffer
	server *server
}

// HandlePublic registers a route that anybody may read without a key. The route is not in the
// document. Its reads share the turns of strangers. Caches may keep the response for five minutes.
func (rt *Router) HandlePublic(pattern string, handler func(ctx context.Context, r *http.Request) (any, error)) {
	rt.methods.add(pattern)
	rt.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		a := w.(*responseWriter) //nolint:errcheck // requestLogger passes a responseWriter
		ctx, cancel := context.WithTimeoutCause(r.Context(), listTime, ErrStoreTimeout)
		defer cancel()
		ctx, err := rt.reading(ctx, a, strangers)
		if err != nil {
			a.refuse(err)
			return
		}
		defer a.giveBack()
		view, err := handler(ctx, r)
		if err != nil {
			a.refuse(err)
			return
		}
		text, err := json.Marshal(view)
		if err != nil {
			a.refuse(err)
			return
		}
		a.Header().Set("Cache-Control", "public, max-age=300")
		writeJSON(a, http.StatusOK, text)
	})
}

// operation returns huma's description of a route, and adds the route to methods. The first segment
// of the path is the tag.
func (rt *Router) operation(r Route) huma.Operation {
	method, path, _ := strings.Cut(r.Path, " ")
	rt.methods.add(method + " " + root + path)
	tag, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	description := fmt.Sprintf("Requires an API key with the scope `%s`.", r.Scope)
	if r.Description != "" {
		description = r.Description + " " + description
	}
	if r.Withdraws {
		description += takesEffect
	}
	op := huma.Operation{
		OperationID:   r.Name,
		Method:        method,
		Path:          root + path,
		Summary:       r.Summary,
		Description:   description,
		Tags:          []string{tag},
		Security:      []map[string][]string{{"key": {}}},
		DefaultStatus: r.Status,
		Responses:     rt.problems(r),
	}
	op.Parameters = r.Headers
	if r.Conditional {
		op.Parameters = append(op.Parameters, ifMatch())
	}
	if r.Metadata {
		op.Parameters = append(op.Parameters, metadataParameter())
	}
	if r.Repeatable {
		op.Responses["200"] = &huma.Response{
			Description: "The event was published before. The response has the id of the first event.",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: rt.schema(reflect.TypeFor[apitypes.Receipt]())}},
		}
	}
	return op
}

// describeBody adds the request body to the document after huma has registered the operation. If
// huma knew the body before, huma would read it.
func (rt *Router) describeBody(op huma.Operation, r Route) {
	item := rt.api.OpenAPI().Paths[op.Path]
	for _, registered := range []*huma.Operation{item.Post, item.Put, item.Patch} {
		if registered == nil || registered.OperationID != op.OperationID {
			continue
		}
		registered.RequestBody = &huma.RequestBody{
			Required: !r.Empty,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: rt.schema(reflect.TypeOf(r.Body))}},
		}
	}
}

// describeParameters adds to the document that texts in the query must not be empty. [CheckURL]
// refuses empty texts; huma has no such rule.
func (rt *Router) describeParameters() {
	least := 1
	for _, item := range rt.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if p.In == "query" && p.Schema.Type == huma.TypeString && len(p.Schema.Enum) == 0 {
					p.Schema.MinLength = &least
				}
			}
		}
	}
}

// schema returns a reference to the schema of the type, and adds the schema to
// the document's components.
func (rt *Router) schema(t reflect.Type) *huma.Schema {
	return rt.api.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// middleware authenticates a request and reads its body, for a handler that huma calls. After the
// response it releases the buffer and its bytes in the budget.
func (s *server) middleware(r Route) func(huma.Context, func(huma.Context)) {
	return func(hctx huma.Context, next func(huma.Context)) {
		_, w := humago.Unwrap(hctx)
		a := w.(*responseWriter) //nolint:errcheck // requestLogger passes a responseWriter
		a.info.request = a.request
		b := body{route: r}
		if r.Body != nil {
			b.buf = bufferOf(smallBuffer)
			defer recycle(b.buf)
			defer s.bodies.release(&a.intake)
		}
		if err := s.authorizeAndRead(a, b); err != nil {
			// Only a 403 has an audit entry. The other refusals at this stage have no caller, or changed
			// nothing.
			if errors.Is(err, ErrForbidden) {
				err = s.audit(a.info.in(hctx.Context()), r, nil, err)
			}
			a.refuse(err)
			return
		}
		if b.buf != nil {
			a.info.body = b.buf.Bytes()
		}
		ctx, cancel := s.inTime(hctx.Context(), a, r)
		defer cancel()
		if r.onlyReads() && !r.Pages {
			var err error
			if ctx, err = s.reading(ctx, a, a.info.Caller.Account); err != nil {
				a.refuse(err)
				return
			}
			defer a.giveBack()
		}
		if r.Metadata {
			hctx = withoutMetadata(hctx)
		}
		next(huma.WithContext(hctx, a.info.in(ctx)))
	}
}

// reading waits until the account may read, and returns the context for the read. The turn of the
// account ends with a.giveBack.
func (s *server) reading(ctx context.Context, a *responseWriter, account postrider.AccountID) (context.Context, error) {
	ctx, giveBack, err := s.reads.enter(ctx, account)
	if err != nil {
		return nil, err
	}
	a.giveBack = giveBack
	return store.ForReader(ctx), nil
}

// inTime returns ctx with the deadline of the response. The time limit is meant for the store, so
// the time in which the client sent the body is added. The limit may be longer than RequestTime:
// net/http removes the read deadline of the connection when the body has arrived.
func (s *server) inTime(ctx context.Context, a *responseWriter, r Route) (context.Context, context.CancelFunc) {
	until := a.info.start.Add(a.info.reading + s.responseTime(r))
	return context.WithDeadlineCause(ctx, until, ErrStoreTimeout)
}

// responseTime returns the time limit of the response. It does not include the time for the body.
func (s *server) responseTime(r Route) time.Duration {
	within := s.opts.AnswerTime + r.ReceiverTime
	if strings.HasPrefix(r.Path, http.MethodGet) || r.Pages {
		within = max(within, listTime)
	}
	return within
}

// authorizeAndRead checks a request before its handler runs, in this order:
//
//  1. the API key and its scope, from the headers only;
//  2. the text of the URL;
//  3. the headers of the body: announced length, media type, encoding;
//  4. the body itself, against the memory budget, while it arrives.
//
// Each check is cheaper than the next one. So a client without a valid key can cause little work: a
// hash, a checksum and, if the checksum is right, a lookup that waits its turn (see
// [apikeys.Lookups]). Such a client learns nothing, because every path and every body get the same
// 401. [requestLogger] has already assigned the request id, so a refused request is in the log too.
func (s *server) authorizeAndRead(a *responseWriter, b body) error {
	if err := s.authorize(a, b.route.Scope); err != nil {
		return err
	}
	if err := CheckURL(a.request.URL); err != nil || b.buf == nil {
		return err
	}
	return s.readBody(a, b)
}

// authorize authenticates the caller, unless the call comes from inside the process, and checks the
// scope. Objects of the scope admin belong to no account. So a caller that is bound to an account
// is refused there, whatever scopes it has.
func (s *server) authorize(a *responseWriter, scope postrider.Scope) error {
	caller := a.info.inside
	if caller == nil {
		var err error
		if caller, err = s.keys.Check(a.request.Context(), a.request.Header); err != nil {
			return err
		}
	}
	a.info.Caller = caller
	switch {
	case caller.Allows(scope):
		return nil
	case scope == postrider.ScopeAdmin && !caller.Account.IsZero():
		return &Error{Class: ErrForbidden, Detail: "a key that is bound to an account may not do this"}
	}
	return &Error{Class: ErrForbidden, Detail: "the key lacks the scope " + string(scope)}
}

// CheckURL refuses invalid UTF-8 and control characters in the path and the
// query, because no stored text can contain them. It also refuses repeated and
// empty query parameters.
func CheckURL(u *url.URL) error {
	if !postrider.IsText(u.Path) {
		return postrider.ErrNotFound
	}
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Invalid("query", postrider.FaultMalformed, "must be a query string")
	}
	for name, values := range query {
		if !postrider.IsText(name) || !postrider.IsText(strings.Join(values, "")) {
			return Invalid(strings.ToValidUTF8(name, "?"), postrider.FaultMalformed, "must be UTF-8 without control characters")
		}
		if len(values) > 1 {
			return Invalid(name, postrider.FaultRepeated, "must be there once")
		}
		if values[0] == "" { // an empty filter would list everything
			return Invalid(name, postrider.FaultRequired, "must not be empty")
		}
	}
	return nil
}

// noQuery refuses all query parameters. It is for the routes that huma does not serve.
func noQuery(u *url.URL) error {
	if u.RawQuery == "" {
		return nil
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(u.Query())) {
		faults = append(faults, Invalid(name, postrider.FaultUnknown, "unknown query parameter"))
	}
	return errors.Join(faults...)
}

// jsonType is the Content-Type of raw responses. All responses share this slice, because no code
// changes it.
var jsonType = []string{"application/json"}

// writeJSON writes a response with a JSON text, in one write. For a text of at most 2 KiB, net/http
// computes the Content-Length itself.
func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header()["Content-Type"] = jsonType
	if len(text) > 2<<10 {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(text))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client is gone
}

// Decode decodes the body of the request into v, which must be a pointer to an
// empty struct.
func Decode(ctx context.Context, v any) error {
	return jsonx.Decode(InfoOf(ctx).body, v)
}
