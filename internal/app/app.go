// Package app assembles the server: it reads the configuration, opens the store,
// starts every service, and stops them in order.
//
//	server, err := app.New(ctx, config, log)
//	if err != nil { … }
//	err = server.Run(ctx)
//
// It promises:
//
//   - After New, both listeners are bound. Run opens the store. While opening fails
//     for a temporary reason, Run waits and tries again: /livez returns
//     200, and /readyz 503 with the reason. Any other error ends Run at once.
//   - The server is not ready while its writes to the store fail or hang.
//   - Once the store is open, it has at least one API key.
//   - When the context of Run ends, /readyz returns 503 first. The server
//     then responds to the publishes that it has received, gives attempts in flight
//     DrainTimeout to finish, and closes the store last.
//   - When Run returns, no goroutine, socket or lock on the data folder is left.
//   - If a service fails, the server stops in the same order. It never continues
//     without a service.
//
// Package app is the only package that imports all the others. It has no rules
// about events or deliveries of its own.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/api/operations"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/inspect"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/live"
	"github.com/postrider/postrider/internal/messenger"
	"github.com/postrider/postrider/internal/notify"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/quota"
	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/rollup"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/telemetry"
	"github.com/postrider/postrider/internal/traces"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/webhook"
)

// App is a server that is ready to run. New sets the listeners; open sets the
// fields that need the store, before the first request reaches the API.
type App struct {
	// As given to New; it never changes.
	config Config
	log    *slog.Logger
	// The store, wrapped in writes. Nil until open has succeeded.
	store store.Store
	fatal chan error // receives one error when the store can no longer write
	// Set by prepare, and read only after opened is closed.
	firstKey FirstKey
	opened   chan struct{} // serve closes it when the API serves

	live       *live.Hub                                       // attempts for the live tail; New makes it
	observer   *observe.Observer                               // for the log, rollups, metrics and notifications; see hooks
	tracer     *traces.Tracer                                  // nil: nothing is traced
	backups    func(context.Context) ([]observe.Backup, error) // what is known of the last backups; see lastBackups
	rollup     *rollup.Rollup
	telemetry  *telemetry.Metrics
	secrets    *secrets.Secrets
	clock      *clock
	ids        *store.IDs
	egress     *egress.Egress
	sender     *webhook.Sender
	senders    *senders // what makes the attempts of the dispatcher
	inspector  *inspect.Inspector
	messenger  *messenger.Messenger
	table      *routing.Table
	ingest     *ingest.Ingest
	quotas     *quota.Meter // before ingest
	backlogs   *quota.Backlogs
	disk       *disk
	dispatcher *dispatch.Dispatcher
	cluster    operations.Cluster // nil: one process uses the store
	janitor    *janitor.Janitor
	archive    keptArchive
	replays    *replay.Runner
	expunger   *expunge.Runner
	notify     *notify.Notify
	// The two listeners. New binds them.
	api, ops  *server
	writes    *writes
	readiness *readiness
	// The handler of the API: 503 until the store is open.
	gate gate
}

// New binds both listeners. It uses ctx only for that. The caller must call
// [App.Run], which closes the listeners.
//
// New opens no store, so that an orchestrator can ask /livez and /readyz while the
// database is away.
func New(ctx context.Context, c Config, log *slog.Logger) (*App, error) {
	log.InfoContext(ctx, "postrider starts", "version", Version(), "settings", c)
	a := &App{
		config: c, log: log, fatal: make(chan error, 1), opened: make(chan struct{}), readiness: &readiness{},
		rollup: rollup.New(rollup.Options{Log: logOf(log, "rollup")}), live: live.New(),
	}
	a.tracer = a.newTracer()
	traced, _ := a.traced()
	a.telemetry = telemetry.New(telemetry.Options{
		Version: Version(), Worst: c.MetricsWorst, HookPanics: func() int64 { return a.observer.Panics() }, Spans: a.spans,
		Log: logOf(log, "telemetry"),
	})
	a.disk = newDisk(c.sqliteDir(), func(used float64) { a.observer.Disk.Call(used) }, logOf(log, "app"))
	own := observe.Hooks{Committed: a.disk.committed, QuotaUsed: a.quotaUsed, Postponed: a.readiness.postponed.add}
	all := observe.Join(hooks(log), own, a.rollup.Hooks(), a.live.Hooks(), a.telemetry.Hooks(), traced)
	a.observer = observe.New(all, logOf(log, "observe"))
	a.gate.set(starting{rest.Starting(logOf(log, "api")), web.Starting(web.Options{Version: Version(), Log: logOf(log, "web")})})
	var err error
	if a.api, err = listen(ctx, c.Listen, &a.gate, log.With("server", "api")); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	a.api.http.ReadTimeout = rest.RequestTime // its handler moves it on while a body arrives
	a.ops, err = listen(ctx, c.OpsListen, opsHandler(a.readiness, a.telemetry.Handler()), log.With("server", "ops"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--ops-listen: %w", err), a.api.Close())
	}
	a.api.ending = ending{cut: func() { a.live.End(); a.gate.endBodies() }, within: c.AnswerTimeout + handshakeTime}
	a.ops.ending = ending{within: opsEnd}
	return a, nil
}

// hooks returns the hooks of a server. Lost attempts get a line for each group that the
// store records at once, which may be thousands; each also gets a line of its own when its
// delivery is attempted again.
func hooks(log *slog.Logger) observe.Hooks {
	return observe.Hooks{AttemptsLost: func(n int) { log.Warn("attempts lost", "attempts", n) }, Noticed: logNotice(log)}
}

// quotaUsed has the janitor tell people of a used quota. The hook is called by requests, which are
// accepted once the janitor is made.
func (a *App) quotaUsed(e *postrider.QuotaError) { a.janitor.QuotaUsed(e) }

// storeCalled tells observers of a call of the store.
func (a *App) storeCalled(c store.Call) { a.observer.StoreCalled.Call(observe.StoreCall(c)) }

// open opens the store and makes the services around it. After an error nothing is
// open, so that the caller can try again.
func (a *App) open(ctx context.Context) error {
	opened, err := openStore(ctx, a.config.StoreConfig, openOptions{
		log: logOf(a.log, "store"), onFatal: func(err error) { a.fatal <- err }, onLost: a.observer.AttemptsLost, calls: a.storeCalled,
	})
	if err != nil {
		return err
	}
	return a.use(ctx, opened)
}

// use makes the services around an opened store, which it closes after an error.
func (a *App) use(ctx context.Context, opened store.Store) error {
	a.writes = newWrites(opened)
	a.store = a.writes
	if err := a.prepare(ctx, opened); err != nil {
		a.disconnect()
		return errors.Join(err, opened.Close())
	}
	return nil
}

// disconnect closes the connections to receivers and to the archive. prepare makes them anew.
func (a *App) disconnect() {
	if a.egress != nil {
		a.egress.Close()
	}
	if a.archive.close != nil {
		a.archive.close()
	}
	a.egress, a.archive = nil, keptArchive{}
}

// prepare makes the first API key and the vault, and then the services. The key
// comes first: its text is written to a file, so that a later error cannot lose it.
func (a *App) prepare(ctx context.Context, opened store.Store) error {
	first, err := makeFirstKey(ctx, a.store, a.config.StoreConfig)
	if err != nil {
		return err
	}
	if first.Text != "" { // a second try finds the key of the first one
		a.firstKey = first
	}
	if a.secrets, err = secrets.Open(ctx, a.config.keys(), a.store, logOf(a.log, "secrets")); err != nil {
		return err
	}
	return a.wire(ctx, opened)
}

// handler returns the handler of the API, with the services that wire has made.
func (a *App) handler() *api.Handler {
	return api.New(api.Deps{
		Stores: storesOf(a.store), Clock: a.store.Clock(), Publisher: a.quotas, Guard: a.egress, Verifier: a.sender, Describer: a.sender, Vault: a.secrets,
		Reencrypter: reencrypter{a.secrets}, Notifier: a.table, Effects: a.dispatcher, Pacer: a.dispatcher, Canceller: a.janitor,
		Expunger: a.expunger, Archive: a.archive.reader(), Replayer: a.replays, Cluster: a.cluster, IDs: a.ids,
	}, api.Options{
		MaxData: a.config.MaxData, BodyBudget: int64(a.config.BodyBudget), AnswerTime: a.config.AnswerTimeout,
		Verify: a.config.verify(), PublicURL: a.config.publicURL(a.Addr()), Host: hostname(), Quotas: a.config.quotas(),
		Retention: a.config.retention(), FilesHeld: a.config.sqliteDir() == "", Mail: a.config.SMTPURL != "", Hooks: a.observer.Hooks, Log: logOf(a.log, "api"),
	})
}

// wire makes the services, measures the clock and loads the routing table. When it
// returns, every service has current data; serve only has to start them.
//
// It gets the opened store too, because the wrapper hides whether a store
// implements [store.Nodes].
func (a *App) wire(ctx context.Context, opened store.Store) (err error) {
	a.clock = &clock{store: a.store, log: a.log, observed: a.observer.ClockOffset}
	a.ids = store.NewIDs(a.store.Clock().Wall, nil)
	a.table = routing.New(a.store, routing.Options{Log: logOf(a.log, "routing")})
	a.backups = a.config.lastBackups(opened)
	inFlight, err := a.wireSenders(ctx)
	if err != nil {
		return err
	}
	if a.archive, err = a.config.openArchive(a.store, a.secrets.Vault, logOf(a.log, "archive")); err != nil {
		return err
	}
	a.wireChores()
	nodes, _ := opened.(store.Nodes) // SQLite is used by one process and does not implement it
	if nodes != nil {
		a.cluster = nodes
	}
	a.dispatcher = dispatch.New(a.store, &endpoints{Table: a.table, janitor: a.janitor}, a.senders, dispatch.Options{
		Concurrency:     a.config.Concurrency,
		MaxInFlight:     inFlight,
		HostConcurrency: a.config.HostConcurrency,
		Drain:           a.config.DrainTimeout,
		Cluster:         dispatch.Cluster{Nodes: nodes, Host: hostname(), PollOnly: a.config.PollOnly, OnMessage: a.live.Receive},
		Hooks:           a.observer.Hooks,
		Log:             logOf(a.log, "dispatch"),
	})
	a.wirePublishers()
	if err := a.clock.measure(ctx); err != nil {
		return err
	}
	if err := a.quotas.Refresh(ctx); err != nil {
		return err
	}
	return a.table.Refresh(ctx)
}

// wireSenders makes what makes requests, and returns how many attempts may be in flight.
func (a *App) wireSenders(ctx context.Context) (inFlight int, err error) {
	own, err := egress.LocalPrefixes() // an endpoint must not reach our own API
	if err != nil {
		return 0, err
	}
	ports, anyPort, _ := a.config.ports() // Validate has checked them
	proxy, _ := a.config.proxy()          // checked by Validate, too
	files, inFlight := a.config.descriptors(ctx, a.log)
	a.egress = egress.New(egress.Options{
		Reach: egress.Reach{
			AllowHTTP: a.config.allowsHTTP(),
			Allow:     a.config.allowed(),
			Deny:      own,
			Ports:     ports, AnyPort: anyPort || a.config.Dev,
		},
		Proxy:       proxy,
		Descriptors: files, LocalPorts: localPorts(),
	})
	_, sampled := a.traced()
	a.sender = webhook.New(a.egress, a.secrets, webhook.Options{
		UserAgent: "Postrider/" + Version(), Now: a.store.Clock().Wall, Sampled: sampled, Log: logOf(a.log, "webhook"),
		Continue: func(ctx context.Context, c postrider.Claimed, refused postrider.Attempt) error {
			return a.dispatcher.Continue(ctx, c, refused) // wire makes it afterwards
		},
		Current: func(c *postrider.Claimed, to *store.EndpointSnapshot) bool { return a.dispatcher.Current(c, to) },
	})
	a.inspector = inspect.New(inspect.Deps{
		Store: a.store, Signer: a.sender, Vault: a.secrets, IDs: a.ids, Now: a.store.Clock().Wall, Log: logOf(a.log, "inspect"),
	})
	a.senders = &senders{a.sender, a.inspector}
	a.messenger = a.newMessenger()
	return inFlight, nil
}

// wireChores makes what keeps the store in order.
func (a *App) wireChores() {
	a.janitor = janitor.New(a.store, janitor.Options{
		Keep: a.config.keep(), Archive: a.archive.janitor(), Disk: a.disk.watched(), Notice: a.config.limits(), IDs: a.ids,
		Limits: a.config.healthLimits(), Hooks: a.observer.Hooks, Log: logOf(a.log, "janitor"),
	})
	a.expunger = expunge.New(a.store, expunge.Options{
		List: a.config.ExpungeList, Archive: a.archive.expunger(), ChoreDone: a.observer.ChoreDone, CancelDeleted: a.janitor.CancelDeleted,
		Log: logOf(a.log, "expunge"),
	})
}

// wirePublishers makes what publishes events and makes deliveries.
func (a *App) wirePublishers() {
	a.replays = replay.New(a.store, a.table, a.dispatcher, replay.Options{
		IDs: a.ids, Room: a.disk.room, Hooks: a.observer.Hooks, Log: logOf(a.log, "replay"),
	})
	a.ingest = ingest.New(a.store, a.table, a.dispatcher, ingest.Options{
		IDs: a.ids, Clock: a.store.Clock(), Room: a.disk.room, Hooks: a.observer.Hooks, Log: logOf(a.log, "ingest"),
	})
	a.quotas = quota.New(a.ingest, a.store, quota.Options{Defaults: a.config.quotas(), Hooks: a.observer.Hooks, Log: logOf(a.log, "quota")})
	a.backlogs = quota.NewBacklogs(a.store, quota.BacklogOptions{
		Default: a.config.QuotaBacklog, Leads: a.dispatcher.Leads, Notify: a.table.Notify, IDs: a.ids,
		Hooks: a.observer.Hooks, Log: logOf(a.log, "quota"),
	})
	a.notify = notify.New(a.store, a.ingest, a.table, notify.Options{Hooks: a.observer.Hooks, Log: logOf(a.log, "notify")})
}

// Opened returns a channel that is closed when the store is open and the API
// serves. It stays open if Run ends before that.
func (a *App) Opened() <-chan struct{} { return a.opened }

// FirstKey returns the admin key that the server made because the store had no key.
// Call it only after [App.Opened] is closed.
func (a *App) FirstKey() FirstKey { return a.firstKey }

// Handler returns the handler of the API listener, for a request that is made in this
// process. Until the store is open, it responds with 503.
func (a *App) Handler() http.Handler { return &a.gate }

// Addr returns the address of the API listener, with the port that the system chose
// for port 0.
func (a *App) Addr() net.Addr { return a.api.Addr() }

// OpsAddr returns the address of the operations listener.
func (a *App) OpsAddr() net.Addr { return a.ops.Addr() }

// Run serves until ctx ends or a service fails, then drains and closes the store.
// Until the store is open, the API responds with 503. Run may be called once.
//
// The order of the services is the order of the end: the API stops accepting
// requests, the services of the store drain, and /readyz responds until the last
// moment.
func (a *App) Run(ctx context.Context) error {
	err := runServices(ctx, func() {
		a.readiness.draining.Store(true)
		a.log.InfoContext(ctx, "postrider drains")
	}, []service{
		{"api", a.api.Run},
		{"", a.serve},
		{"ready", a.watchReady},
		{"ops", a.ops.Run},
	})
	if err != nil {
		a.log.ErrorContext(ctx, "postrider has stopped with an error", "error", err)
		return err
	}
	a.log.InfoContext(ctx, "postrider has stopped")
	return nil
}

// serve opens the store and serves with it.
func (a *App) serve(ctx context.Context) error {
	if err := a.openWhenItCan(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return a.serveOpened(ctx)
}

// serveOpened runs the services that need the store until ctx ends or one of them
// fails, drains them and closes the store.
//
// The handler is set before opened is closed, so that a caller who waits for Opened
// never gets a 503 of the start.
func (a *App) serveOpened(ctx context.Context) (err error) {
	defer func() {
		a.disconnect()
		err = errors.Join(err, a.store.Close())
	}()
	if err := keepFile(a.config.serverFile(), "http://"+a.Addr().String()); err != nil {
		a.log.InfoContext(ctx, "commands need --url to find this server", "error", err)
	} else {
		defer os.Remove(a.config.serverFile())
	}
	a.readiness.opened(a)
	if err := a.expunger.Recover(ctx); err != nil {
		return err
	}
	a.gate.set(a.newFront(a.handler()))
	a.log.InfoContext(ctx, "postrider listens", "api", a.Addr().String(), "ops", a.OpsAddr().String())
	close(a.opened)

	// Each service needs those below it until it has ended: ingest commits the
	// publishes that were received, the dispatcher finishes attempts with the
	// routing table and the store's clock, the rollups are folded with what those
	// attempts left, and only then do the probes stop.
	return runServices(ctx, func() {}, []service{
		{"replays", a.replays.Run},
		{"expunge", a.expunger.Run},
		{"notify", a.notify.Run},
		{"ingest", a.ingest.Run},
		{"quotas", a.quotas.Run},
		{"backlogs", a.backlogs.Run},
		{"dispatch", a.dispatcher.Run},
		{"rollup", func(ctx context.Context) error { return a.rollup.Run(ctx, a.store, a.observer.ChoreDone) }},
		{"traces", a.runTracer},
		{"telemetry", func(ctx context.Context) error { return a.telemetry.Run(ctx, a.store, a.table.Len) }},
		{"routing", a.table.Run},
		{"janitor", a.janitor.Run},
		{"inspector", a.inspector.Run},
		{"messenger", a.messenger.Run},
		{"live", func(ctx context.Context) error { return a.live.Run(ctx, a.dispatcher.Tell) }},
		{"clock", a.clock.Run},
		{"writes", a.writes.Run},
		{"disk", a.disk.Run},
		{"backups", a.watchBackups},
		{"expunge list", a.expunger.WatchList},
		{"store", a.watchStore},
		{"heap", tuneGC},
	})
}

const (
	// handshakeTime is added to AnswerTimeout at the end of the server. A
	// request that verifies an endpoint waits for the receiver, and so takes longer
	// than others.
	handshakeTime = 11 * time.Second
	// opsEnd bounds the requests to the operations listener at the end of the
	// server.
	opsEnd = 5 * time.Second
)

// watchStore returns an error when the store can no longer write. The state of its
// last write is then unknown; a restart reads it from the file.
func (a *App) watchStore(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.fatal:
		return err
	}
}

// release is the version under development. Builds without a version from the
// toolchain use it, for example builds of a source archive.
const release = "v0.1.0-dev"

// Version returns the version of this build. The Go toolchain takes it from a tag
// or a revision of the repository; a build without one has the version under
// development.
func Version() string {
	noted, ok := debug.ReadBuildInfo()
	if !ok || noted.Main.Version == "(devel)" {
		return release
	}
	return cmp.Or(noted.Main.Version, release)
}

// Migrate creates or upgrades the tables of the store. Opening a store does that,
// so Migrate opens it and closes it again.
func Migrate(ctx context.Context, c StoreConfig) error {
	opened, err := openStore(ctx, c, commandOptions())
	if err != nil {
		return err
	}
	if err := opened.Close(); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
