package api

import (
	"bytes"
	"context"
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
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/jsonx"
)

const (
	root         = "/v1/webhooks"
	manageBody   = 256 << 10 // the body of a request that is no event, in bytes
	envelopeRoom = 16 << 10  // what an event's body may have beside its data

	listTime = 30 * time.Second // for the answer to a GET, which no publisher waits for
)

// router returns the mux of every route.
func (s *server) router() http.Handler {
	mux := http.NewServeMux()
	registry := newRegistry()
	config := huma.Config{
		OpenAPI:                      description(registry),
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true, // a filter that is misspelt must not list everything
		Transformers:                 []huma.Transformer{translate},
	}
	rt := &router{server: s, mux: mux, methods: newMethods(mux), api: humago.New(mux, config), described: humago.New(nowhere{}, config)}
	rt.publishing()
	rt.events()
	rt.deliveries()
	rt.deadLetters()
	rt.endpoints()
	rt.circuits()
	rt.ordering()
	rt.health()
	rt.secrets()
	rt.encryption()
	rt.accounts()
	rt.eventTypes()
	rt.keys()
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET " + root + "/openapi.json": serveJSON(document(rt.api.OpenAPI())),
		"GET " + wellKnownKeys:          s.servePublicKeys,
	} {
		mux.HandleFunc(pattern, handler)
		rt.methods.add(pattern)
	}
	rt.methods.close()
	return rt.methods
}

func serveJSON(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
}

// router registers routes with huma, which parses and checks their parameters,
// writes their answers and describes them all.
type router struct {
	*server
	mux       *http.ServeMux
	methods   *methods
	api       huma.API
	described huma.API // of the same document, but serves nothing
}

// nowhere is a mux without routes.
type nowhere struct{ http.Handler }

// HandleFunc does nothing.
func (nowhere) HandleFunc(string, func(http.ResponseWriter, *http.Request)) {}

// route describes one operation.
type route struct {
	name    string // of the operation: publish-event
	path    string // METHOD and path below root
	about   string // a summary in a few words
	tells   string // more about it; empty: the summary says all
	scope   postrider.Scope
	codes   []string      // of the problems that this operation answers besides those of every one; see [problems]
	status  int           // of success; 0: 200
	body    any           // a value of the body's type; nil: none is read
	empty   bool          // the body may be left out
	limit   int64         // of the body, in bytes; 0: manageBody
	asks    time.Duration // how long the handler waits for a receiver, which the time to answer leaves out
	again   bool          // a repeat answers 200, in the same form
	headers []*huma.Param // that the handler reads from its call
}

// handle registers a handler. Its errors go through [problemOf], so that huma
// never words one.
func handle[I, O any](rt *router, r route, handler func(context.Context, *I) (*O, error)) {
	op := rt.operation(r)
	op.Middlewares = huma.Middlewares{rt.middleware(r)}
	huma.Register(rt.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return out, nil
	})
	if r.body != nil {
		rt.describeBody(op, r)
	}
}

// handleRaw registers a handler that huma only describes, with the answer A,
// because it is called more often than all others together. It finds the body
// in buf, leaves its answer there, and returns the answer's status.
func handleRaw[A any](rt *router, r route, handler func(ctx context.Context, buf *bytes.Buffer) (int, error)) {
	op := rt.operation(r)
	huma.Register(rt.described, op, func(context.Context, *none) (*reply[A], error) { return nil, nil })
	rt.describeBody(op, r)
	rt.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, req *http.Request) {
		a := w.(*responseWriter) //nolint:errcheck // requestLogger passes one
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
			status, err = handler(a.info.in(ctx), buf)
		}
		if err != nil {
			a.refuse(err)
			return
		}
		writeJSON(a, status, buf.Bytes())
	})
}

// operation describes a route to huma.
func (rt *router) operation(r route) huma.Operation {
	method, path, _ := strings.Cut(r.path, " ")
	rt.methods.add(method + " " + root + path)
	tag, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	tells := fmt.Sprintf("Requires an API key with the scope `%s`.", r.scope)
	if r.tells != "" {
		tells = r.tells + " " + tells
	}
	op := huma.Operation{
		OperationID:   r.name,
		Method:        method,
		Path:          root + path,
		Summary:       r.about,
		Description:   tells,
		Tags:          []string{tag},
		Security:      []map[string][]string{{"key": {}}},
		DefaultStatus: r.status,
		Responses:     rt.problems(r),
	}
	op.Parameters = r.headers
	if r.again {
		op.Responses["200"] = &huma.Response{
			Description: "The event was published before. The answer has the id of the first event.",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: rt.schema(reflect.TypeFor[apitypes.Receipt]())}},
		}
	}
	return op
}

// describeBody puts the body into the document after huma registered the
// operation, because huma would read it too.
func (rt *router) describeBody(op huma.Operation, r route) {
	item := rt.api.OpenAPI().Paths[op.Path]
	for _, registered := range []*huma.Operation{item.Post, item.Patch} {
		if registered == nil || registered.OperationID != op.OperationID {
			continue
		}
		registered.RequestBody = &huma.RequestBody{
			Required: !r.empty,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: rt.schema(reflect.TypeOf(r.body))}},
		}
	}
}

func (rt *router) schema(t reflect.Type) *huma.Schema {
	return rt.api.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// middleware authorizes a request for a handler that huma calls, and reads its body.
func (s *server) middleware(r route) func(huma.Context, func(huma.Context)) {
	return func(hctx huma.Context, next func(huma.Context)) {
		_, w := humago.Unwrap(hctx)
		a := w.(*responseWriter) //nolint:errcheck // requestLogger passes one
		b := body{route: r}
		if r.body != nil {
			b.buf = bufferOf(smallBuffer)
			defer recycle(b.buf)
			defer s.bodies.release(&a.intake)
		}
		if err := s.authorizeAndRead(a, b); err != nil {
			a.refuse(err)
			return
		}
		if b.buf != nil {
			a.info.body = b.buf.Bytes()
		}
		ctx, cancel := s.inTime(hctx.Context(), a, r)
		defer cancel()
		next(huma.WithContext(hctx, a.info.in(ctx)))
	}
}

// inTime returns ctx with the time that is left for the answer. The time that
// the body took to arrive does not count.
func (s *server) inTime(ctx context.Context, a *responseWriter, r route) (context.Context, context.CancelFunc) {
	until := a.info.start.Add(a.info.reading + s.answerTime(r))
	if until.After(a.info.start.Add(RequestTime)) {
		// When the connection's deadline passes, net/http cancels the handler.
		_ = http.NewResponseController(a.ResponseWriter).SetReadDeadline(time.Time{})
	}
	return context.WithDeadlineCause(ctx, until, errNoAnswer)
}

// answerTime returns how long the answer may take, besides the body.
func (s *server) answerTime(r route) time.Duration {
	within := s.opts.AnswerTime + r.asks
	if strings.HasPrefix(r.path, http.MethodGet) {
		within = max(within, listTime)
	}
	return within
}

// authorizeAndRead checks a request: first its headers, then its body, which it reads.
func (s *server) authorizeAndRead(a *responseWriter, b body) error {
	if err := s.authorize(a, b.route.scope); err != nil {
		return err
	}
	if err := checkURL(a.request.URL); err != nil || b.buf == nil {
		return err
	}
	return s.readBody(a, b)
}

// authorize finds the caller and whether it may. What an admin reaches belongs
// to no account, so that a key bound to one may not.
func (s *server) authorize(a *responseWriter, scope postrider.Scope) error {
	key, err := s.keys.check(a.request.Context(), a.request.Header)
	if err != nil {
		return err
	}
	a.info.key = key
	if scope == postrider.ScopeAdmin && !key.Account.IsZero() {
		return &apiError{class: errForbidden, detail: "a key that is bound to an account may not do this"}
	}
	if !key.Allows(scope) {
		return &apiError{class: errForbidden, detail: "the key lacks the scope " + string(scope)}
	}
	return nil
}

// checkURL refuses what no text that is stored can hold, so that no store sees
// it: invalid UTF-8 and control characters.
func checkURL(u *url.URL) error {
	if !isText(u.Path) {
		return postrider.ErrNotFound
	}
	if u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return invalid("query", "must be a query string")
	}
	for name, values := range query {
		if !isText(name) || !isText(strings.Join(values, "")) {
			return invalid(strings.ToValidUTF8(name, "?"), "must be UTF-8 without control characters")
		}
		if len(values) > 1 {
			return invalid(name, "must be there once")
		}
		if values[0] == "" { // a filter that is empty must not list everything
			return invalid(name, "must not be empty")
		}
	}
	return nil
}

// noQuery refuses every parameter, as huma does those that a route has not.
func noQuery(u *url.URL) error {
	if u.RawQuery == "" {
		return nil
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(u.Query())) {
		faults = append(faults, invalid(name, "unknown query parameter"))
	}
	return errors.Join(faults...)
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// jsonType is shared by the headers of many answers, which do not change it.
var jsonType = []string{"application/json"}

// writeJSON answers with a text that is JSON already, in one write. What is
// small net/http counts by itself.
func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header()["Content-Type"] = jsonType
	if len(text) > 2<<10 {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(text))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that left is nobody to tell
}

// decode reads the body of the call into v. An empty body that may be left out
// leaves v as it is.
func decode(ctx context.Context, v any) error {
	return jsonx.Decode(infoOf(ctx).body, v)
}

func decodeIfAny(ctx context.Context, v any) error {
	if len(infoOf(ctx).body) == 0 {
		return nil
	}
	return decode(ctx, v)
}
