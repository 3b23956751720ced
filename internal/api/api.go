// Package api is the REST API of Postrider.
//
// [New] returns the handler of all routes under /v1/webhooks. The routes, their
// request bodies and their responses are in docs/api/openapi.json, which a test
// keeps equal to the code. Handlers return errors. One table, in problem.go,
// maps the errors to responses of the type problem+json (RFC 9457).
//
// The following holds for every route:
//
//   - The API key is checked before a byte of the body is read.
//   - A key that is bound to an account sees only this account. Resources of
//     other accounts are a 404, in paths, bodies and filters alike.
//   - A body is read once and decoded strictly, by [jsonx.Decode], within
//     limits of size and time. The response names all faults of the body at
//     once. The bodies in memory have at most Options.BodyBudget bytes
//     together, and those of one key at most a quarter of it.
//   - The reads of callers that are bound to an account have a share of the server, and
//     wait for their turn. The rest gets a 429.
//   - If the store does not respond within Options.AnswerTime, the response is a
//     503.
//   - The bytes of an event's data are stored and delivered unchanged.
//   - No response contains the text of an internal error. The log has it, under
//     the request id that the response carries.
//   - A panic causes a 500 and ends only its own request.
//
// A revoked key stops working at once on the node that revoked it, and within
// five seconds on the other nodes.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/cache"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that the API reads and changes directly.
// Publishing goes through [Publisher].
type Store interface {
	store.Directory
	store.Access
	store.Sessions
	store.Audit
	store.PortalSettings
	store.Destinations
	store.Catalogue
	store.Ledger
	store.Finder
	store.Inspections
	store.Replays
	store.Holding
	store.Quotas
	store.Expunges

	// Notices is the method of store.Notices.
	Notices(ctx context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error)
	// Circuits is the method of store.Queue.
	Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error)
	// Due is the method of store.Queue.
	Due(ctx context.Context, d store.Due) ([]store.DueLane, error)
	// MakeDue is the method of store.Queue.
	MakeDue(ctx context.Context, m store.MakeDue) (postrider.Delivery, error)
	// PutCircuit is the method of store.Queue.
	PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error)
	// Rollups is the method of store.Rollups.
	Rollups(ctx context.Context, q store.RollupQuery) ([]store.Rollup, error)
	// Backlog is the method of store.Rollups.
	Backlog(ctx context.Context, q store.BacklogQuery) (store.Backlog, error)
	// EndpointStates is the method of store.Rollups.
	EndpointStates(ctx context.Context, ids ...postrider.EndpointID) ([]store.EndpointState, error)
	// LastFailures is the method of store.Rollups.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)

	// RestoredRecords is the method of store.Restored.
	RestoredRecords(ctx context.Context, q store.RestoredQuery) (store.Page[store.RestoredRecord], error)

	// Now returns the store's time, read from the store itself.
	Now(ctx context.Context) (time.Time, error)
}

// Publisher stores published events and assigns their ids. When a method
// returns without an error, the events are stored durably.
type Publisher interface {
	// Publish stores all of the events or none. It returns a
	// *postrider.KeyTakenError if an idempotency key was used for other
	// content, a *postrider.OverloadError if events arrive faster than they
	// can be delivered, and a *postrider.QuotaError if a quota of an account is
	// used up.
	Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error)

	// PublishTo stores the event with one delivery, to the given endpoint. The
	// endpoint's event types are ignored.
	PublishTo(ctx context.Context, e postrider.Event, endpoint postrider.EndpointID) (postrider.Receipt, error)
}

// Guard checks the URLs and the TLS settings of endpoints.
type Guard interface {
	// CheckURL returns the canonical form of raw, or a *postrider.InvalidError
	// for the field "url".
	CheckURL(raw string) (string, error)

	// CheckTLS checks the TLS settings of an endpoint and the private key of
	// its certificate. It returns all faults joined, each a
	// *postrider.InvalidError for a field of "tls".
	CheckTLS(t postrider.TLS, key string) error
}

// Verifier asks receivers whether they want events.
type Verifier interface {
	// Verify performs the handshake with the endpoint, by a method of
	// [VerifyMethods]. If the receiver does not agree, or if no secret can sign
	// the handshake, the error matches postrider.ErrConflict. The text of that
	// error is shown to the client.
	Verify(ctx context.Context, to store.EndpointSnapshot, method string) error
}

// Describer says what requests look like.
type Describer interface {
	// Describe returns the request of an attempt that begins at the given time, for
	// the endpoint as it is. It decrypts nothing, and masks signatures and credentials.
	Describe(ctx context.Context, c *postrider.Claimed, e postrider.Endpoint, at time.Time) (postrider.Request, error)
}

// VerifyMethods lists the handshakes that ask a receiver for its consent.
var VerifyMethods = []string{"challenge", "cloudevents"}

// Vault encrypts and decrypts the values that the store keeps encrypted.
type Vault interface {
	// EncryptSecret encrypts the text into the secret. The secret's id must be
	// set.
	EncryptSecret(ctx context.Context, s *postrider.Secret, text string) error
	// DecryptSecret returns the plain text of a secret.
	DecryptSecret(ctx context.Context, s postrider.Secret) (string, error)
	// EncryptCredentials encrypts the credentials into the endpoint. The
	// endpoint's id must be set. Empty credentials are stored as nil.
	EncryptCredentials(ctx context.Context, e *postrider.Endpoint, c postrider.Credentials) error
	// DecryptCredentials returns the endpoint's credentials. Zero: it has none.
	DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error)
	// Unsign returns the payload of a text that this installation signed, or an error.
	Unsign(text string) ([]byte, error)
}

// Notifier learns which endpoints changed.
type Notifier interface {
	// Notify is called after an endpoint or its circuit changed, and after
	// deliveries may have become due for it. It must not block.
	Notify(endpoint postrider.EndpointID)
}

// Pacer knows how much endpoints are sent.
type Pacer interface {
	// Pace returns how much this node may send to the endpoint now; false: it does not
	// send to it.
	Pace(ctx context.Context, endpoint postrider.EndpointID) (postrider.Pace, bool)
}

// Canceller deletes the endpoints of deleted accounts, and cancels the pending
// deliveries of deleted endpoints.
type Canceller interface {
	// DeleteEndpoints deletes all endpoints of deleted accounts.
	DeleteEndpoints(ctx context.Context) error
	// CancelDeleted starts this work. It must not block.
	CancelDeleted()
}

// Replayer runs replay jobs.
type Replayer interface {
	// Wake is called after a job was created or resumed. It must not block.
	Wake()
}

// Deps has the parts that the API depends on. None but those that say so may be nil.
type Deps struct {
	Store       Store
	Clock       *store.Clock // of the store
	Publisher   Publisher
	Guard       Guard
	Verifier    Verifier
	Describer   Describer
	Vault       Vault
	Reencrypter Reencrypter
	Notifier    Notifier
	Effects     Effects // nil: every change is in effect when it is stored
	Pacer       Pacer   // nil: nobody knows
	Canceller   Canceller
	Expunger    Expunger
	Archive     Archive // nil: none is set
	Replayer    Replayer
	Cluster     Cluster // nil: one process uses the store
	IDs         *store.IDs
}

// Options tunes the API. The zero value is the production default.
type Options struct {
	// MaxData is the largest data of one event, in bytes. Default 256 KiB, at
	// most 1 MiB.
	MaxData int
	// MaxBatch is the largest body of a batch, in bytes. Default 8 MiB.
	MaxBatch int64
	// BodyBudget is the limit for the bytes of all bodies in memory. A body
	// counts until the response to its request. One key may use at most a quarter.
	// Default 48 MiB.
	BodyBudget int64
	// AnswerTime is the time limit of the store for one request. It starts when
	// the request arrives, and the time in which the body arrives is added.
	// After it the response is a 503. Default 5 s.
	AnswerTime time.Duration
	// AccountReads is how many reads of all callers that are bound to an account run at a
	// time. Default: half of the processors, at least 1 and at most 4.
	AccountReads int
	// Verify is the method of [VerifyMethods] by which new URLs must be
	// verified. Empty: endpoints need no verification.
	Verify string
	// PublicURL is the URL by which people reach this server, without a path. One-time
	// links begin with it. Empty: no links are made.
	PublicURL string
	// Host is the name of this server's machine, for people. Empty: it has none.
	Host string
	// Quotas are the limits of accounts that have none of their own. Default: none.
	Quotas postrider.Quotas
	// FilesHeld is true if the store cannot clear its own files of deleted rows.
	FilesHeld bool
	// Mail is true if there is a mail server. Without one, no email address can be added.
	Mail bool
	// Retention has the whole days that the server keeps what accounts may keep for a
	// shorter time. Default: ten years each.
	Retention postrider.AccountRetention
	// Hooks are called for the circuits that people set. Default: none.
	Hooks observe.Hooks
	// Log receives one line for each request. Default: discard.
	Log *slog.Logger
}

// withDefaults replaces the zero fields by their defaults, and caps MaxData.
func (o Options) withDefaults() Options {
	o.MaxData = min(cmp.Or(o.MaxData, 256<<10), 1<<20)
	o.MaxBatch = cmp.Or(o.MaxBatch, 8<<20)
	o.BodyBudget = cmp.Or(o.BodyBudget, 48<<20)
	o.AccountReads = cmp.Or(o.AccountReads, min(max(1, runtime.GOMAXPROCS(0)/2), 4))
	o.AnswerTime = cmp.Or(o.AnswerTime, 5*time.Second)
	if o.Retention == (postrider.AccountRetention{}) {
		o.Retention = postrider.AccountRetention{Events: 3650, Attempts: 3650, Bodies: 3650, IdempotencyKeys: 3650}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Handler serves all routes under /v1/webhooks. It is safe for concurrent use.
type Handler struct {
	*requestLogger

	bodies   *bodies
	sessions *Sessions
	readers  *Readers
	reads    *readShares
}

// Sessions returns what logs people in and out.
func (h *Handler) Sessions() *Sessions { return h.sessions }

// Actions returns every action that an audit entry may have.
func (h *Handler) Actions() []string {
	return append(slices.Clone(h.sessions.actions), actionLogin, actionLogout, actionOpenPortal, postrider.ActionExpunged,
		readerAction(postrider.LinkConfirm), readerAction(postrider.LinkUnsubscribe))
}

// EndBodies aborts the read of every body that has not arrived, and of the
// bodies of later requests. These requests get a 503 and their
// connections are closed. Call it when the server shuts down.
func (h *Handler) EndBodies() { h.bodies.end() }

// New returns the handler of all routes under /v1/webhooks. It panics if the
// OpenAPI document cannot be encoded.
func New(deps Deps, opts Options) *Handler {
	s := &server{
		Deps:  deps,
		opts:  opts.withDefaults(),
		names: cache.NewTTL[string, accountName](apikeys.Fresh),
		// A burst of five and one every 12 s: at most ten in any minute.
		manualSends: newLimiter[postrider.EndpointID](12*time.Second, 5,
			"an endpoint is tested or verified at most five times at once, then once every 12 seconds; see Retry-After"),
		links: newLimiter[payer](100*time.Millisecond, 100,
			"a caller makes at most 100 links to the portal at once, then ten a second; see Retry-After"),
		confirmations: newLimiter[postrider.AccountID](confirmEvery, 10,
			"an account can have ten confirmations sent at once, then one every six minutes; see Retry-After"),
		addresses: newLimiter[string](addressEvery, 3, "an address gets at most three confirmations at once, then one an hour; see Retry-After"),
		tests:     newLimiter[postrider.DestinationID](testEvery, 3, "a destination gets at most three tests at once, then one a minute; see Retry-After"),
	}
	s.bodies = newBodies(s.opts.BodyBudget, s.opts.MaxBatch)
	s.decoding = make(chan struct{}, runtime.GOMAXPROCS(0))
	s.reads = newReadShares(s.opts.AccountReads, s.opts.Hooks.ReadRefused)
	s.keys = apikeys.New(deps.Store, deps.Clock, apikeys.Options{Within: s.opts.AnswerTime, TooLate: errStoreTimeout, Log: s.opts.Log})
	s.sessions = newSessions(s)
	return &Handler{requestLogger: newRequestLogger(s.router(), s.opts.Log, s.opts.Hooks), bodies: s.bodies, sessions: s.sessions, readers: &Readers{s}, reads: s.reads}
}

// Starting returns the handler of a server whose store is not open yet. It
// responds to every request with 503 and Retry-After.
func Starting(log *slog.Logger) http.Handler {
	return newRequestLogger(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(*responseWriter).refuse(errStarting) //nolint:errcheck // requestLogger passes one
	}), log, observe.Hooks{})
}

// server has the state that all routes share. New sets its fields, which are
// never replaced afterwards.
type server struct {
	Deps
	opts Options
	// keys authenticates requests.
	keys *apikeys.Checker
	// names caches the account of an id or uid for apikeys.Fresh. A change of an
	// account on this node empties it.
	names *cache.TTL[string, accountName]
	// manualSends limits tests and verifications, per endpoint. Without it, anyone who
	// may create endpoints could make the node send requests to a third party without
	// end.
	manualSends *limiter[postrider.EndpointID]
	// links limits the one-time links that a caller makes.
	links *limiter[payer]
	// confirmations limits the messages that ask readers of email addresses to agree, of an
	// account; addresses those to one address; tests the test messages of a destination.
	confirmations *limiter[postrider.AccountID]
	addresses     *limiter[string]
	tests         *limiter[postrider.DestinationID]
	// sessions logs people in and out.
	sessions *Sessions
	// reads bounds the reads of accounts.
	reads *readShares
	// bodies is the memory budget of request bodies.
	bodies *bodies
	// decoding is a semaphore for the decoding of large bodies. Its capacity is
	// the number of processors.
	decoding chan struct{}
	// actions are the operations that are audited. The routes add them when they are
	// registered.
	actions []string
}
