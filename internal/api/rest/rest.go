// Package rest has the code that all routes of the API share: how a request is authenticated, read,
// refused, limited, logged, audited and described in the OpenAPI document.
//
// A feature registers its routes with [Handle] and [HandleBody]. The routes that carry most of the
// load use [HandleRaw]. A handler gets the parsed parameters and the decoded body, finds the
// objects that the request names with [Names], and returns a response by [Respond] or an error. One
// table, in problem.go, maps errors to responses. A handler that takes something away from an
// endpoint calls [Effects.Await].
//
// The package keeps the promises that the comment of package api makes for every route. It knows no
// feature.
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

// RequestTime is the ReadTimeout that the [http.Server] of a [Handler] must have. If no byte of a
// body arrives within this time, the request is refused. The server sets the deadline once for each
// connection, which is cheaper than a deadline for each body.
const RequestTime = 10 * time.Second

// ArchiveTime is the time limit for reading the archive. It is added to the time limit of the
// store.
const ArchiveTime = 30 * time.Second

// Shared has the fields that most features need. A feature embeds Shared and adds its own store and
// fields.
type Shared struct {
	Names   *Names
	Values  *Values
	Effects *Effects
	Audit   *Audit
	Clock   *store.Clock // of the store
	IDs     *store.IDs
	Hooks   observe.Hooks
	Log     *slog.Logger
}

// Options are the settings that all routes of the API share.
type Options struct {
	// MaxBatch is the size of the largest body, in bytes. BodyBudget is the limit for all bodies in
	// memory, in bytes. One key may use at most a quarter of BodyBudget.
	MaxBatch, BodyBudget int64
	// AnswerTime is the time that the store has for one request.
	AnswerTime time.Duration
	// AccountReads is the number of reads that run at a time, over all callers that are bound to an
	// account.
	AccountReads int
	Hooks        observe.Hooks
	Log          *slog.Logger
}

// server has the state that all requests share. Its fields are set once, by New.
type server struct {
	opts Options
	// keys authenticates requests.
	keys *apikeys.Checker
	// auditLog stores the audit entries of requests.
	auditLog *Audit
	// reads limits the reads of accounts.
	reads *readShares
	// bodies is the memory budget of request bodies.
	bodies *bodies
	// decoding is a semaphore that limits the decoding of large bodies. Its capacity is the number
	// of processors.
	decoding chan struct{}
}

// New returns a router without routes.
func New(keys *apikeys.Checker, audit *Audit, opts Options) *Router {
	mux := http.NewServeMux()
	config := huma.Config{
		OpenAPI:                      description(newRegistry()),
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true, // a misspelt filter would list everything
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

// Handler returns the handler of all registered routes. It adds the route of the OpenAPI document.
// It closes methods last, because close compares every path with every other path.
func (rt *Router) Handler() *Handler {
	rt.describeParameters()
	finishDocument(rt.api.OpenAPI())
	rt.mux.HandleFunc("GET "+root+"/openapi.json", serveDocument(rt.api.OpenAPI()))
	rt.methods.add("GET " + root + "/openapi.json")
	rt.methods.close()
	return &Handler{newRequestLogger(rt.methods, rt.opts.Log, rt.opts.Hooks), rt}
}

// Actions returns the names of all audited operations, as the audit log has them.
func (h *Handler) Actions() []string { return slices.Clone(h.routes.actions) }

// EndBodies aborts the read of every body that has not arrived, and of the bodies of later
// requests. Such a request gets a 503, and its connection is closed. Call EndBodies when the server
// shuts down.
func (h *Handler) EndBodies() { h.routes.bodies.end() }

// Starting returns the handler of a server whose store is not open yet. It
// responds to every request with 503 and Retry-After.
func Starting(log *slog.Logger) http.Handler {
	return newRequestLogger(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(*responseWriter).refuse(errStarting) //nolint:errcheck // requestLogger passes a responseWriter
	}), log, observe.Hooks{})
}
