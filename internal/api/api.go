// Package api is the REST door of Postrider.
//
// [New] returns the handler of everything under /v1/webhooks; the routes, their
// bodies and their answers are in docs/api/openapi.json, which a test keeps
// equal to the code. Handlers return errors, and one table, in problem.go,
// turns them into problem+json (RFC 9457).
//
// What holds for every route:
//
//   - The key is checked before a byte of the body is read.
//   - A key that is bound to an account sees that account and nothing else:
//     another account's rows answer 404, in paths, bodies and filters alike.
//   - A body is read once and strictly, by [jsonx.Decode], within a bound of
//     size and time, and every fault of it is named at once. All bodies that are
//     in memory have at most Options.BodyBudget bytes, those of a key a quarter.
//   - A store that does not answer is a 503 within Options.AnswerTime.
//   - The bytes of an event's data are handed on as they came.
//   - No text of an internal error leaves; it is logged under the request id
//     that the answer carries.
//   - A panic answers 500 and ends nothing but its request.
//
// Revoking a key takes effect at once on the node that did it, and within five
// seconds on the others.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Store is what the API reads and changes by itself.
type Store interface {
	store.Directory
	store.Access
	store.Catalogue
	store.Ledger

	// Circuits is that of store.Queue.
	Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error)
	// Unpark is that of store.Queue.
	Unpark(ctx context.Context, u store.Unpark) (postrider.Delivery, error)
	// PutCircuit is that of store.Queue.
	PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error)

	// Now returns the store's time of day.
	Now(ctx context.Context) (time.Time, error)
	// Clock returns the store's time as this process knows it.
	Clock() *store.Clock
}

// Publisher takes events in, and makes their ids. When it returns without an
// error the events are stored for good.
type Publisher interface {
	// Publish takes all of the events or none. A taken idempotency key is a
	// *postrider.KeyTakenError, too much at once a *postrider.OverloadError.
	Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error)

	// PublishTo makes a delivery of the event to one endpoint only, whatever
	// it subscribed to.
	PublishTo(ctx context.Context, e postrider.Event, endpoint postrider.EndpointID) (postrider.Receipt, error)
}

// Guard knows what may be sent to, and with what.
type Guard interface {
	// CheckURL returns the canonical form of raw, or a *postrider.InvalidError
	// for the field "url".
	CheckURL(raw string) (string, error)

	// CheckTLS returns every fault of an endpoint's own TLS and the key of its
	// certificate, joined, each a *postrider.InvalidError for a field of "tls".
	CheckTLS(t postrider.TLS, key string) error
}

// Verifier asks receivers whether they want events.
type Verifier interface {
	// Verify carries out the handshake of the method, one of [VerifyMethods],
	// with the endpoint. A receiver that does not agree, or cannot be asked with
	// the secrets that there are, is an error that matches postrider.ErrConflict,
	// and whose text its owner may see.
	Verify(ctx context.Context, to store.EndpointSnapshot, method string) error
}

// VerifyMethods lists the handshakes by which a receiver may say that it wants
// events.
var VerifyMethods = []string{"challenge", "cloudevents"}

// Vault encrypts what the store must not be able to read, and decrypts it.
type Vault interface {
	// EncryptSecret encrypts the text and sets it in the secret, whose id must be
	// set.
	EncryptSecret(ctx context.Context, s *postrider.Secret, text string) error
	// DecryptSecret returns the text of a secret.
	DecryptSecret(ctx context.Context, s postrider.Secret) (string, error)
	// EncryptCredentials encrypts the credentials and sets them in the endpoint,
	// whose id must be set; nil if they are empty.
	EncryptCredentials(ctx context.Context, e *postrider.Endpoint, c postrider.Credentials) error
	// DecryptCredentials returns the endpoint's credentials; zero: it has none.
	DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error)
}

// Notifier hears which endpoints changed.
type Notifier interface {
	// Notify is called after an endpoint or its circuit changed, and when
	// deliveries may be due for it. It must not block.
	Notify(endpoint postrider.EndpointID)
}

// Canceller deletes the endpoints of deleted accounts, and cancels what waits for
// deleted endpoints.
type Canceller interface {
	// CancelDeleted begins with it. It must not block.
	CancelDeleted()
}

// Deps are the parts that the API works with. None may be nil.
type Deps struct {
	Store       Store
	Publisher   Publisher
	Guard       Guard
	Verifier    Verifier
	Vault       Vault
	Reencrypter Reencrypter
	Notifier    Notifier
	Canceller   Canceller
	IDs         *store.IDs
}

// Options tunes the API. The zero value is the production default.
type Options struct {
	MaxData  int   // of one event, in bytes; default 256 KiB, at most 1 MiB
	MaxBatch int64 // of a batch's body, in bytes; default 8 MiB
	// BodyBudget bounds the bytes of all bodies in memory, until their requests
	// are answered; a key has at most a quarter of it. Default 48 MiB.
	BodyBudget int64
	// AnswerTime is how long the store may take for a request, from its arrival
	// or the end of its body, before it is answered 503. Default 5 s.
	AnswerTime time.Duration
	Verify     string       // one of [VerifyMethods], by which new URLs must be verified; default: they need not be
	Log        *slog.Logger // default: discard
}

func (o Options) withDefaults() Options {
	o.MaxData = min(cmp.Or(o.MaxData, 256<<10), 1<<20)
	o.MaxBatch = cmp.Or(o.MaxBatch, 8<<20)
	o.BodyBudget = cmp.Or(o.BodyBudget, 48<<20)
	o.AnswerTime = cmp.Or(o.AnswerTime, 5*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Handler answers the requests to every route under /v1/webhooks.
type Handler struct {
	*requestLogger

	bodies *bodies
}

// EndBodies gives up every body that has not arrived, and those of later
// requests: they are answered 503, and their connections are closed. It is for
// the end of the server.
func (h *Handler) EndBodies() { h.bodies.end() }

// New returns the handler of every route under /v1/webhooks.
func New(deps Deps, opts Options) *Handler {
	s := &server{
		Deps:        deps,
		opts:        opts.withDefaults(),
		names:       newTTLCache[string, accountName](keyFresh),
		manualSends: newManualSendLimiter(),
	}
	s.bodies = newBodies(s.opts.BodyBudget, s.opts.MaxBatch)
	s.decoding = make(chan struct{}, runtime.GOMAXPROCS(0))
	s.keys = newKeyring(deps.Store, s.opts)
	return &Handler{requestLogger: &requestLogger{next: s.router(), log: s.opts.Log}, bodies: s.bodies}
}

// Starting returns the handler of a server whose store is not open yet: every
// request is answered 503 with Retry-After.
func Starting(log *slog.Logger) http.Handler {
	return &requestLogger{log: log, next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(*responseWriter).refuse(errStarting) //nolint:errcheck // requestLogger passes one
	})}
}

type server struct {
	Deps
	opts        Options
	keys        *keyring
	names       *ttlCache[string, accountName]
	manualSends *manualSendLimiter
	bodies      *bodies
	decoding    chan struct{} // as many as decode large bodies at a time
}
