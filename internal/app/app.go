// Package app is Postrider as one running thing: it reads the configuration,
// opens the store, starts every service, and ends them in order.
//
//	server, err := app.New(ctx, config, log)
//	if err != nil { … }
//	err = server.Run(ctx)
//
// Whatever happens, this holds:
//
//   - After New, both listeners are bound. Run opens the store. While that fails
//     for a reason that may pass, Run waits: the server lives, is not ready and
//     says why. Any other reason ends it at once.
//   - The server is not ready while its writes fail or hang.
//   - Once the store is open it has an API key.
//   - When the context of Run ends, /readyz says so first; publishes that were
//     received are answered, attempts in flight get the time to finish, and
//     the store is closed last.
//   - When Run returns, nothing of the server is left: no goroutine, no socket,
//     no lock on the data folder.
//   - A service that fails ends the server, in the same order; it never goes on
//     without one.
//
// It is the only package that knows all the others, and holds no rules of its
// own on events or deliveries.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/webhook"
)

// App is a server that is ready to run.
type App struct {
	config   Config
	log      *slog.Logger
	store    store.Store
	fatal    chan error // why the store writes no more, once
	firstKey FirstKey
	opened   chan struct{} // closed when the store is open

	secrets    *secrets.Secrets
	clock      *clock
	ids        *store.IDs
	egress     *egress.Egress
	sender     *webhook.Sender
	table      *routing.Table
	ingest     *ingest.Ingest
	dispatcher *dispatch.Dispatcher
	janitor    *janitor.Janitor
	api, ops   *server
	writes     *writes
	readiness  *readiness
	gate       gate
}

// New binds the listeners. ctx is for that alone. The caller must call
// [App.Run], which closes them.
func New(ctx context.Context, c Config, log *slog.Logger) (*App, error) {
	log.InfoContext(ctx, "postrider starts", "version", Version(), "settings", c)
	a := &App{config: c, log: log, fatal: make(chan error, 1), opened: make(chan struct{}), readiness: &readiness{}}
	a.gate.set(api.Starting(log))
	var err error
	if a.api, err = listen(ctx, c.Listen, &a.gate, log.With("server", "api")); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	a.api.http.ReadTimeout = api.RequestTime // its handler moves it on while a body arrives
	a.ops, err = listen(ctx, c.OpsListen, opsHandler(a.readiness), log.With("server", "ops"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ops: %w", err), a.api.Close())
	}
	a.api.ending = ending{cut: a.gate.endBodies, within: c.AnswerTimeout + handshakeTime}
	a.ops.ending = ending{within: opsEnd}
	return a, nil
}

// open opens the store and makes the parts around it.
func (a *App) open(ctx context.Context) error {
	opened, err := openStore(ctx, a.config.StoreConfig, openOptions{log: a.log, onFatal: func(err error) { a.fatal <- err }})
	if err != nil {
		return err
	}
	a.writes = newWrites(opened)
	a.store = a.writes
	if err := a.prepare(ctx, opened); err != nil {
		if a.egress != nil {
			a.egress.Close()
			a.egress = nil
		}
		return errors.Join(err, opened.Close())
	}
	return nil
}

func (a *App) prepare(ctx context.Context, opened store.Store) error {
	first, err := makeFirstKey(ctx, a.store, a.config.StoreConfig)
	if err != nil {
		return err
	}
	if first.Text != "" { // else one that an earlier try made is still to be told
		a.firstKey = first
	}
	if a.secrets, err = secrets.Open(ctx, a.config.keys(), a.store, a.log); err != nil {
		return err
	}
	return a.wire(ctx, opened)
}

// handler returns the handler of the API.
func (a *App) handler() *api.Handler {
	return api.New(api.Deps{
		Store: a.store, Publisher: a.ingest, Guard: a.egress, Verifier: a.sender, Vault: a.secrets, Reencrypter: reencrypter{a.secrets},
		Notifier: a.table, Canceller: a.janitor, IDs: a.ids,
	}, api.Options{
		MaxData: a.config.MaxData, BodyBudget: int64(a.config.BodyBudget), AnswerTime: a.config.AnswerTimeout,
		Verify: a.config.verify(), Log: a.log,
	})
}

// wire makes the parts and brings them up to date.
func (a *App) wire(ctx context.Context, opened store.Store) error {
	own, err := egress.LocalPrefixes() // a URL must not reach our own API from behind
	if err != nil {
		return err
	}
	ports, anyPort, _ := a.config.ports() // Validate has seen them
	proxy, _ := a.config.proxy()          // and this
	a.egress = egress.New(egress.Options{
		Reach: egress.Reach{
			AllowHTTP: a.config.EgressHTTP || a.config.Dev,
			Allow:     a.config.allowed(),
			Deny:      own,
			Ports:     ports,
			AnyPort:   anyPort || a.config.Dev,
		},
		Proxy: proxy,
	})
	a.sender = webhook.New(a.egress, a.secrets, webhook.Options{
		UserAgent: "Postrider/" + Version(), Now: a.store.Clock().Wall, Log: a.log,
	})
	a.clock = &clock{store: a.store, log: a.log}
	a.ids = store.NewIDs(a.store.Clock().Wall, nil)
	observer := observe.New(observe.Hooks{}, a.log) // metrics and notices are hooks here
	a.table = routing.New(a.store, routing.Options{Log: a.log})
	a.janitor = janitor.New(a.store, janitor.Options{
		KeysAge: a.config.IdempotencyTTL, Limits: a.config.healthLimits(), Observer: observer, Log: a.log,
	})
	nodes, _ := opened.(store.Nodes) // a store of one process alone has none
	a.dispatcher = dispatch.New(a.store, &endpoints{Table: a.table, janitor: a.janitor}, a.sender, dispatch.Options{
		Concurrency:     a.config.Concurrency,
		HostConcurrency: a.config.HostConcurrency,
		Drain:           a.config.DrainTimeout,
		Cluster:         dispatch.Cluster{Nodes: nodes, PollOnly: a.config.PollOnly},
		Observer:        observer,
		Log:             a.log,
	})
	a.ingest = ingest.New(a.store, a.table, a.dispatcher, ingest.Options{IDs: a.ids, Clock: a.store.Clock(), Observer: observer, Log: a.log})
	if err := a.clock.measure(ctx); err != nil {
		return err
	}
	return a.table.Refresh(ctx)
}

// Opened returns a channel that is closed when the store is open and the API
// serves.
func (a *App) Opened() <-chan struct{} { return a.opened }

// FirstKey returns the admin key that was made because the store had none. It is
// to be called once [App.Opened] is closed.
func (a *App) FirstKey() FirstKey { return a.firstKey }

// Addr returns the address of the API.
func (a *App) Addr() net.Addr { return a.api.Addr() }

// OpsAddr returns the address of the operations listener.
func (a *App) OpsAddr() net.Addr { return a.ops.Addr() }

// Run serves until ctx ends or a service fails, then drains and closes the store.
// Until the store is open the API answers 503. It is called once.
func (a *App) Run(ctx context.Context) error {
	err := runServices(ctx, func() {
		a.readiness.draining.Store(true)
		a.log.InfoContext(ctx, "postrider drains")
	}, []service{
		{"api", a.api.Run},
		{"", a.serve},
		{"ops", a.ops.Run},
	})
	if err != nil {
		a.log.ErrorContext(ctx, "postrider has stopped, not all in order", "error", err)
		return err
	}
	a.log.InfoContext(ctx, "postrider has stopped")
	return nil
}

// serve opens the store, serves until ctx ends or a service fails, drains and closes
// the store.
func (a *App) serve(ctx context.Context) (err error) {
	if err := a.openWhenItCan(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	defer func() {
		a.egress.Close()
		err = errors.Join(err, a.store.Close())
	}()
	if err := keepFile(a.config.serverFile(), "http://"+a.Addr().String()); err != nil {
		a.log.InfoContext(ctx, "commands need --url to find this server", "error", err)
	} else {
		defer os.Remove(a.config.serverFile())
	}
	a.readiness.opened(a)
	a.gate.set(a.handler())
	a.log.InfoContext(ctx, "postrider listens", "api", a.Addr().String(), "ops", a.OpsAddr().String())
	close(a.opened)

	// Each service needs those below it until it has ended: a publish that was
	// received wants its commit, and what was admitted its attempt.
	return runServices(ctx, func() {}, []service{
		{"ingest", a.ingest.Run},
		{"dispatch", a.dispatcher.Run},
		{"routing", a.table.Run},
		{"janitor", a.janitor.Run},
		{"clock", a.clock.Run},
		{"writes", a.writes.Run},
		{"store", a.watchStore},
		{"heap", tuneGC},
	})
}

const (
	// handshakeTime is how much longer than others a request may take that asks a
	// receiver whether it wants events.
	handshakeTime = 11 * time.Second
	// opsEnd is how long requests to the operations listener may take at the end.
	opsEnd = 5 * time.Second
)

// watchStore returns when the store writes no more: only a restart tells what
// it holds.
func (a *App) watchStore(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.fatal:
		return err
	}
}

// Logger returns the logger that the settings ask for, writing to w.
func Logger(c Config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.level()}
	if c.format() == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// release is the version that is worked on: that of a build for which the
// toolchain noted none, such as one of sources without their repository.
const release = "v0.1.0-dev"

// Version returns the version of this build: the module's, which the toolchain
// takes from a tag or a revision, or else the release that is worked on.
func Version() string {
	noted, ok := debug.ReadBuildInfo()
	if !ok || noted.Main.Version == "(devel)" {
		return release
	}
	return cmp.Or(noted.Main.Version, release)
}

// Migrate brings the database up to this version.
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
