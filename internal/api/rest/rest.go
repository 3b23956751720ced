// Package rest is what all routes of the API share: how a request is authenticated, read, refused,
// limited, logged, audited and described in the OpenAPI document.
//
// A feature registers its routes with [Handle] and [HandleBody], or with [HandleRaw] where they carry
// most of the load. Its handler gets the parsed parameters and the decoded body, finds what the
// request names with [Names], and returns a response by [Respond] or an error. One table, in
// problem.go, maps the errors to responses. A handler that takes something away from an endpoint
// calls [Effects.Await].
//
// The package promises what the comment of package api says of every route. It knows no feature.
package rest

import (
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// RequestTime is the ReadTimeout that the [http.Server] of a [Handler] must
// have. A request is refused if none of its body has arrived after this time.
// The server sets the deadline once for each connection, which is cheaper than
// a deadline for each body.
const RequestTime = 10 * time.Second

// ArchiveTime is the time limit of what reads the archive, besides that of the store.
const ArchiveTime = 30 * time.Second

// Shared has what most features need: a feature embeds it, and adds its store and what it alone
// needs.
type Shared struct {
	Names   *Names
	Effects *Effects
	Audit   *Audit
	Clock   *store.Clock // of the store
	IDs     *store.IDs
	Hooks   observe.Hooks
	Log     *slog.Logger
}

// Options are what the API sets of all routes.
type Options struct {
	// MaxBatch is the largest body, in bytes, and BodyBudget the limit for all bodies in
	// memory. One key may use at most a quarter.
	MaxBatch, BodyBudget int64
	// AnswerTime is the time limit of the store for one request.
	AnswerTime time.Duration
	// AccountReads is how many reads of all callers that are bound to an account run at a
	// time.
	AccountReads int
	Hooks        observe.Hooks
	Log          *slog.Logger
}

// server has the state that all requests share. Its fields are never replaced.
type server struct {
	opts Options
	// keys authenticates requests.
	keys *apikeys.Checker
	// auditLog gets the entries of requests.
	auditLog *Audit
	// reads bounds the reads of accounts.
	reads *readShares
	// bodies is the memory budget of request bodies.
	bodies *bodies
	// decoding is a semaphore for the decoding of large bodies. Its capacity is
	// the number of processors.
	decoding chan struct{}
}

// New returns a router without routes.
func New(keys *apikeys.Checker, audit *Audit, opts Options) *Router {
	mux := http.NewServeMux()
	config := huma.Config{
		OpenAPI:                      description(newRegistry()),
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true, // a misspelt filter must not list everything
		Transformers:                 []huma.Transformer{translate},
	}
	s := &server{
		opts: opts, keys: keys, auditLog: audit, reads: newReadShares(opts.AccountReads, opts.Hooks.ReadRefused),
		bodies: newBodies(opts.BodyBudget, opts.MaxBatch), decoding: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	return &Router{server: s, mux: mux, methods: newMethods(mux), api: humago.New(mux, config), described: humago.New(discardMux{}, config)}
}

// Handler serves the routes of a router.
type Handler struct {
	*requestLogger

	routes *Router
}

// Handler returns the handler of all routes that were registered. It adds the document. methods
// must be closed last, because it compares every path with every other.
func (rt *Router) Handler() *Handler {
	rt.describeParameters()
	finishDocument(rt.api.OpenAPI())
	rt.mux.HandleFunc("GET "+root+"/openapi.json", serveDocument(rt.api.OpenAPI()))
	rt.methods.add("GET " + root + "/openapi.json")
	rt.methods.close()
	return &Handler{newRequestLogger(rt.methods, rt.opts.Log, rt.opts.Hooks), rt}
}

// Actions returns the actions of routes in the audit log.
func (h *Handler) Actions() []string { return slices.Clone(h.routes.actions) }

// EndBodies aborts the read of every body that has not arrived, and of the
// bodies of later requests. These requests get a 503 and their
// connections are closed. Call it when the server shuts down.
func (h *Handler) EndBodies() { h.routes.bodies.end() }

// Starting returns the handler of a server whose store is not open yet. It
// responds to every request with 503 and Retry-After.
func Starting(log *slog.Logger) http.Handler {
	return newRequestLogger(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(*responseWriter).refuse(errStarting) //nolint:errcheck // requestLogger passes one
	}), log, observe.Hooks{})
}
