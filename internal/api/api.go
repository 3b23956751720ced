// Package api is the REST API of Postrider.
//
// [New] returns the handler of all routes under /v1/webhooks. The routes, their
// request bodies and their responses are in docs/api/openapi.json, which a test
// keeps equal to the code. Handlers return errors. One table, in rest/problem.go,
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
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api/accounts"
	"github.com/postrider/postrider/internal/api/archives"
	"github.com/postrider/postrider/internal/api/audit"
	"github.com/postrider/postrider/internal/api/circuits"
	"github.com/postrider/postrider/internal/api/deliveries"
	"github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/api/events"
	"github.com/postrider/postrider/internal/api/eventtypes"
	"github.com/postrider/postrider/internal/api/expunges"
	"github.com/postrider/postrider/internal/api/hold"
	"github.com/postrider/postrider/internal/api/inspections"
	"github.com/postrider/postrider/internal/api/keys"
	"github.com/postrider/postrider/internal/api/notices"
	"github.com/postrider/postrider/internal/api/operations"
	"github.com/postrider/postrider/internal/api/portal"
	"github.com/postrider/postrider/internal/api/replays"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/api/search"
	"github.com/postrider/postrider/internal/api/secrets"
	"github.com/postrider/postrider/internal/api/sessions"
	"github.com/postrider/postrider/internal/api/stats"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Stores has the store as each feature sees it. New calls none of them, so those of the features
// that are not used may be nil.
type Stores struct {
	Names       rest.NameStore
	Callers     apikeys.Store
	AuditLog    rest.AuditStore
	Accounts    accounts.Store
	Archives    archives.Store
	Audit       audit.Store
	Circuits    circuits.Store
	DeadLetters deliveries.LetterStore
	Deliveries  deliveries.Store
	Endpoints   endpoints.Store
	Events      events.Store
	EventTypes  eventtypes.Store
	Expunges    expunges.Store
	Hold        hold.Store
	Inspections inspections.Store
	Keys        keys.Store
	Notices     notices.Store
	Operations  operations.Store
	Portal      store.PortalSettings
	Replays     replays.Store
	Search      search.Store
	Secrets     secrets.Store
	Sessions    sessions.Store
	Stats       stats.Store
}

// Publisher publishes events, and test events to one endpoint.
type Publisher interface {
	events.Publisher
	endpoints.Publisher
}

// Vault encrypts, decrypts and knows what this installation signed.
type Vault interface {
	endpoints.Vault
	secrets.Vault
	notices.Vault
}

// Expunger begins expunges, and knows those that a restored store makes again.
type Expunger interface {
	expunges.Expunger
	hold.Expunger
}

// Deps has the parts that the API depends on. None but those that say so may be nil.
type Deps struct {
	Stores      Stores
	Clock       *store.Clock // of the store
	IDs         *store.IDs
	Publisher   Publisher
	Guard       endpoints.Guard
	Verifier    endpoints.Verifier
	Describer   deliveries.Describer
	Vault       Vault
	Reencrypter secrets.Reencrypter
	Notifier    rest.Notifier
	Effects     rest.Awaiter   // nil: every change is in effect when it is stored
	Pacer       circuits.Pacer // nil: nobody knows
	Canceller   rest.Canceller
	Expunger    Expunger
	Archive     archives.Archive // nil: none is set
	Replayer    replays.Replayer
	Cluster     operations.Cluster // nil: one process uses the store
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
	// Verify is the method of [endpoints.VerifyMethods] by which new URLs must be
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
	*rest.Handler

	sessions *sessions.Sessions
	readers  *notices.Readers
}

// Sessions returns what logs people in and out.
func (h *Handler) Sessions() *sessions.Sessions { return h.sessions }

// Readers returns what acts on the links in emails.
func (h *Handler) Readers() *notices.Readers { return h.readers }

// Actions returns every action that an audit entry may have.
func (h *Handler) Actions() []string {
	return slices.Concat(h.Handler.Actions(), sessions.Actions, []string{
		postrider.ActionExpunged,
		notices.ReaderAction(postrider.LinkConfirm), notices.ReaderAction(postrider.LinkUnsubscribe),
	})
}

// New returns the handler of all routes under /v1/webhooks. It panics if the
// OpenAPI document cannot be encoded.
func New(deps Deps, opts Options) *Handler {
	opts = opts.withDefaults()
	a := newAssembly(deps, opts)
	for _, f := range a.features() {
		f.Register(a.rest)
	}
	return &Handler{a.rest.Handler(), a.sessions, &notices.Readers{Shared: a.shared, Store: deps.Stores.Notices, Vault: deps.Vault}}
}

// feature is one folder of the API.
type feature interface{ Register(rt *rest.Router) }

// assembly has what the features share.
type assembly struct {
	Deps

	opts     Options
	rest     *rest.Router
	shared   *rest.Shared
	sessions *sessions.Sessions
	// forget lets this node see at once that keys and sessions ended.
	forget func()
}

func newAssembly(d Deps, opts Options) assembly {
	keys := apikeys.New(d.Stores.Callers, d.Clock, apikeys.Options{Within: opts.AnswerTime, TooLate: rest.ErrStoreTimeout, Log: opts.Log})
	shared := &rest.Shared{
		Names: rest.NewNames(d.Stores.Names), Audit: &rest.Audit{Store: d.Stores.AuditLog, IDs: d.IDs, Log: opts.Log},
		Effects: &rest.Effects{Notifier: d.Notifier, Awaiter: d.Effects, Canceller: d.Canceller, Host: opts.Host, Clock: d.Clock},
		Clock:   d.Clock, IDs: d.IDs, Hooks: opts.Hooks, Log: opts.Log,
	}
	a := assembly{Deps: d, opts: opts, shared: shared, rest: rest.New(keys, shared.Audit, rest.Options{
		MaxBatch: opts.MaxBatch, BodyBudget: opts.BodyBudget, AnswerTime: opts.AnswerTime, AccountReads: opts.AccountReads, Hooks: opts.Hooks,
		Log: opts.Log,
	})}
	a.sessions = sessions.New(sessions.Deps{Shared: shared, Store: d.Stores.Sessions, Keys: keys, PublicURL: opts.PublicURL})
	a.forget = func() { keys.Forget(); a.sessions.Forget() }
	return a
}

// features returns all features. One that needs another has a small interface, which gets it here.
func (a *assembly) features() []feature {
	shared, s, o := a.shared, a.Stores, a.opts
	accounts := &accounts.Routes{Shared: shared, Store: s.Accounts, Retention: o.Retention, Quotas: o.Quotas, Forget: a.forget}
	eventTypes := &eventtypes.Routes{Store: s.EventTypes}
	circuits := &circuits.Routes{Shared: shared, Store: s.Circuits, Pacer: a.Pacer}
	secrets := &secrets.Routes{Shared: shared, Store: s.Secrets, Vault: a.Vault, Reencrypter: a.Reencrypter}
	archives := &archives.Routes{Shared: shared, Store: s.Archives, Archive: a.Archive}
	return []feature{
		accounts, eventTypes, circuits, secrets, archives, a.sessions,
		endpoints.New(endpoints.Deps{
			Shared: shared, Store: s.Endpoints, Guard: a.Guard, Verifier: a.Verifier, Vault: a.Vault, Publisher: a.Publisher,
			Circuits: circuits, Secrets: secrets, Limits: accounts, Catalogue: eventTypes, Verify: o.Verify,
		}),
		&events.Routes{Shared: shared, Store: s.Events, Publisher: a.Publisher, MaxData: o.MaxData, MaxBatch: o.MaxBatch},
		&deliveries.Routes{Shared: shared, Store: s.Deliveries, Letters: s.DeadLetters, Circuits: circuits, Describer: a.Describer},
		&replays.Routes{Shared: shared, Store: s.Replays, Replayer: a.Replayer, Retention: o.Retention},
		&expunges.Routes{Shared: shared, Store: s.Expunges, Archive: archives, Expunger: a.Expunger, FilesHeld: o.FilesHeld},
		notices.New(notices.Deps{Shared: shared, Store: s.Notices, Guard: a.Guard, PublicURL: o.PublicURL, Mail: o.Mail}),
		&operations.Routes{Shared: shared, Store: s.Operations, Cluster: a.Cluster, Host: o.Host},
		&keys.Routes{Shared: shared, Store: s.Keys, Forget: a.forget},
		&hold.Routes{Store: s.Hold, Expunger: a.Expunger},
		&inspections.Routes{Shared: shared, Store: s.Inspections},
		&stats.Routes{Shared: shared, Store: s.Stats},
		&portal.Routes{Store: s.Portal},
		&audit.Routes{Shared: shared, Store: s.Audit},
		&search.Routes{Shared: shared, Store: s.Search},
	}
}
