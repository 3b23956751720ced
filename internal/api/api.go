// Package api is the REST API of Postrider.
//
// [New] returns the handler of all routes under /v1/webhooks. The routes, their request bodies and
// their responses are in docs/api/openapi.json, which a test keeps equal to the code. Handlers
// return errors. One table, in rest/problem.go, maps the errors to responses of the type
// problem+json (RFC 9457).
//
// The following holds for every route:
//
//   - The API key is checked before a byte of the body is read.
//   - A key that is bound to an account sees only this account. An object of another
//     account is a 404 in a path, and looks like a missing object in a body or a filter.
//   - A body is read once and decoded strictly, by [jsonx.Decode], within limits of size
//     and time. The response names all faults of the body at once. All bodies in memory
//     together have at most Options.BodyBudget bytes, and the bodies of one key at most
//     a quarter of that.
//   - The reads of callers that are bound to an account get a share of the server and
//     wait for their turn. A read that waits too long gets a 429.
//   - If the store does not respond within Options.AnswerTime, the response is a 503.
//   - The bytes of an event's data are stored and delivered unchanged.
//   - No response contains the text of an internal error. The log has that text under the
//     request id of the response.
//   - A panic causes a 500 and ends only its own request.
//
// A revoked key stops working at once on the node that revoked it, and within five seconds on the
// other nodes.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
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
	"github.com/postrider/postrider/internal/api/sources"
	"github.com/postrider/postrider/internal/api/stats"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Stores has the store, once for each feature, as the interface that the feature needs. New calls
// no store, so the stores of features that are not used may be nil.
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
	Sources     sources.Store
	Stats       stats.Store
	Values      rest.ValueStore
	WhatIfs     store.WhatIfs
}

// Publisher publishes events, and sends test events to one endpoint.
type Publisher interface {
	events.Publisher
	endpoints.Publisher
}

// Vault encrypts and decrypts secrets and credentials, and verifies texts that this installation
// signed.
type Vault interface {
	endpoints.Vault
	secrets.Vault
	notices.Vault
	sources.Vault
	rest.Terms
}

// Expunger begins expunges, and knows the expunges that a restored store makes again.
type Expunger interface {
	expunges.Expunger
	hold.Expunger
}

// Archive reads the archive of retention.
type Archive interface {
	archives.Archive
	events.Archive
}

// Deps has the parts that the API depends on. A field may be nil only if its comment says so.
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
	Effects     rest.Awaiter   // nil: every change is in effect as soon as it is stored
	Pacer       circuits.Pacer // nil: the pace of endpoints is unknown
	Canceller   rest.Canceller
	Expunger    Expunger
	Archive     Archive // nil: the server has no archive
	Replayer    replays.Replayer
	Outboxes    sources.Outboxes
	Sources     sources.Readers    // nil: this process reads no sources
	Cluster     operations.Cluster // nil: only this process uses the store
}

// Options has the settings of the API. The zero value has the defaults for production.
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
	// AnswerTime is the time limit of the store for one request. It starts when the request
	// arrives, and the time in which the body arrives is added. When it has passed, the response is
	// a 503. Default 5 s.
	AnswerTime time.Duration
	// AccountReads is the number of reads that run at a time, over all callers that are bound to an
	// account. Default: half of the processors, at least 1 and at most 4.
	AccountReads int
	// Verify is the method of [endpoints.VerifyMethods] with which every new URL must be verified.
	// Empty: URLs need no verification.
	Verify string
	// Ping sends an event of the type apitypes.PingType to each new URL.
	Ping bool
	// PublicURL is the URL at which people reach this server, without a path. One-time links begin
	// with it. Empty: no links can be made.
	PublicURL string
	// Host is the name of this server's machine, to show to people. Empty: the machine has no name.
	Host string
	// Quotas are the limits of accounts that have no limits of their own. Default: no limits.
	Quotas postrider.Quotas
	// FilesHeld is true if the store cannot remove deleted rows from its own files.
	FilesHeld bool
	// Mail is true if the server has a mail server. Without one, no email address can be added.
	Mail bool
	// Retention has the days for which the server keeps events, attempts, bodies and idempotency
	// keys. An account may set fewer days. Default: 3650 days each.
	Retention postrider.AccountRetention
	// Hooks are called when people change circuits, and for other facts about requests. Default:
	// none.
	Hooks observe.Hooks
	// Log receives one line for each request. Default: the lines are discarded.
	Log *slog.Logger
}

// withDefaults replaces zero fields by their defaults, and limits MaxData to 1 MiB.
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
	events   *events.Routes
	forget   func()
}

// Forget empties this node's caches of accounts' names, of keys and of sessions.
func (h *Handler) Forget() { h.forget() }

// Sessions returns the sessions, which log people in and out.
func (h *Handler) Sessions() *sessions.Sessions { return h.sessions }

// Readers returns the handler of the links in emails.
func (h *Handler) Readers() *notices.Readers { return h.readers }

// CompareArchive runs the jobs that compare archived events with changes of subscriptions, until ctx ends.
func (h *Handler) CompareArchive(ctx context.Context) error { return h.events.Comparer.Run(ctx) }

// Convert returns the event that a row of an outbox publishes, with the checks of a publish.
func (h *Handler) Convert(ctx context.Context, b *apitypes.EventCreate) (postrider.Event, error) {
	return h.events.Convert(ctx, b)
}

// Actions returns every action that an audit entry can have.
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
	readers := &notices.Readers{Shared: a.shared, Store: deps.Stores.Notices, Vault: deps.Vault}
	return &Handler{a.rest.Handler(), a.sessions, readers, a.events, a.forget}
}

// feature is a part of the API that has its own folder.
type feature interface{ Register(rt *rest.Router) }

// assembly has the parts that the features share.
type assembly struct {
	Deps

	opts     Options
	rest     *rest.Router
	shared   *rest.Shared
	sessions *sessions.Sessions
	events   *events.Routes
	sources  *sources.Routes
	// forget empties this node's caches of accounts' names, of keys and of sessions, so that the node no
	// longer accepts those that ended.
	forget func()
}

func newAssembly(d Deps, opts Options) assembly {
	keys := apikeys.New(d.Stores.Callers, d.Clock, apikeys.Options{Within: opts.AnswerTime, TooLate: rest.ErrStoreTimeout, Log: opts.Log})
	shared := &rest.Shared{
		Names: rest.NewNames(d.Stores.Names), Audit: &rest.Audit{Store: d.Stores.AuditLog, IDs: d.IDs, Log: opts.Log},
		Effects: &rest.Effects{Notifier: d.Notifier, Awaiter: d.Effects, Canceller: d.Canceller, Host: opts.Host, Clock: d.Clock},
		Clock:   d.Clock, IDs: d.IDs, Hooks: opts.Hooks, Log: opts.Log,
	}
	shared.Values = &rest.Values{Names: shared.Names, Store: d.Stores.Values, Terms: d.Vault}
	a := assembly{Deps: d, opts: opts, shared: shared, rest: rest.New(keys, shared.Audit, rest.Options{
		MaxBatch: opts.MaxBatch, BodyBudget: opts.BodyBudget, AnswerTime: opts.AnswerTime, AccountReads: opts.AccountReads, Hooks: opts.Hooks,
		Log: opts.Log,
	})}
	a.sessions = sessions.New(sessions.Deps{Shared: shared, Store: d.Stores.Sessions, Keys: keys, PublicURL: opts.PublicURL})
	a.sources = &sources.Routes{Shared: shared, Store: d.Stores.Sources, Vault: d.Vault, Outboxes: d.Outboxes, Readers: d.Sources}
	a.events = &events.Routes{
		Shared: shared, Store: d.Stores.Events, Publisher: d.Publisher, Comparer: events.NewComparer(shared, d.Stores.WhatIfs, d.Archive),
		Rows: a.sources, MaxData: opts.MaxData, MaxBatch: opts.MaxBatch,
	}
	a.sources.Convert = a.events.Convert
	a.forget = func() { shared.Names.Forget(); keys.Forget(); a.sessions.Forget() }
	return a
}

// features returns all features. A feature that needs another feature declares a small interface,
// and gets the other feature here.
func (a *assembly) features() []feature {
	shared, s, o := a.shared, a.Stores, a.opts
	accounts := &accounts.Routes{Shared: shared, Store: s.Accounts, Retention: o.Retention, Quotas: o.Quotas, Forget: a.forget}
	eventTypes := &eventtypes.Routes{Store: s.EventTypes}
	circuits := &circuits.Routes{Shared: shared, Store: s.Circuits, Pacer: a.Pacer}
	secrets := &secrets.Routes{Shared: shared, Store: s.Secrets, Vault: a.Vault, Reencrypter: a.Reencrypter}
	archives := &archives.Routes{Shared: shared, Store: s.Archives, Archive: a.Archive}
	return []feature{
		accounts, eventTypes, circuits, secrets, archives, a.sessions, a.events, a.sources,
		endpoints.New(endpoints.Deps{
			Shared: shared, Store: s.Endpoints, Guard: a.Guard, Verifier: a.Verifier, Vault: a.Vault, Publisher: a.Publisher,
			Circuits: circuits, Secrets: secrets, Limits: accounts, Catalogue: eventTypes, Verify: o.Verify, Ping: o.Ping,
		}),
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
		&search.Routes{Shared: shared, Store: s.Search, Events: a.events},
	}
}
