// Package app assembles the server from the settings: it opens the store, builds and starts every
// service, and stops the services in order.
//
//	server, err := app.New(ctx, config, log)
//	if err != nil { … }
//	err = server.Run(ctx)
//
// It promises:
//
//   - After New, both listeners are bound. Run opens the store. If opening fails for a
//     temporary reason, Run waits and tries again. Meanwhile /livez returns 200, and
//     /readyz returns 503 with the reason. Any other error ends Run at once.
//   - The server is not ready while its writes to the store fail or hang.
//   - Once the store is open, it has at least one API key.
//   - When the context of Run ends, /readyz returns 503 first. The server then responds to
//     the publishes that it has received, gives attempts in flight DrainTimeout to finish,
//     and closes the store last.
//   - When Run returns, no goroutine, socket or lock on the data folder is left.
//   - If a service fails, the server stops in the same order. It never continues without a
//     service.
//
// Package app is the only package that imports all the others. It has no rules of its own about
// events or deliveries.
package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/health"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/offline"
	"github.com/postrider/postrider/internal/store"
)

// App is a server that is ready to run. New makes the base and the listeners. open makes the other
// parts, before the first request reaches the API.
type App struct {
	base

	doors  doors
	opened chan struct{} // serveOpened closes it when the API serves
	fatal  chan error    // receives one error when the store can no longer write
	// firstKey is set by open, and read only after opened is closed.
	firstKey offline.FirstKey

	// kept, sending and publishing are nil until open has succeeded.
	kept       *kept
	sending    *sending
	publishing *publishing
}

// New binds both listeners, and uses ctx only for that. The caller must then call [App.Run], which
// closes the listeners.
//
// New does not open the store. So an orchestrator can query /livez and /readyz while the database
// is away.
func New(ctx context.Context, c config.Config, log *slog.Logger) (*App, error) {
	log.InfoContext(ctx, "postrider starts", "version", Version(), "settings", c)
	a := &App{base: base{config: c, log: log}, fatal: make(chan error, 1), opened: make(chan struct{})}
	a.watchers, a.vitals = newWatchers(c, log, a)
	if err := a.doors.bind(ctx, a.base); err != nil {
		return nil, err
	}
	a.publicURL = c.PublicURLAt(a.Addr())
	return a, nil
}

// wall implements [later].
func (a *App) wall() time.Time { return a.kept.store.Clock().Wall() }

// target implements [later].
func (a *App) target(id postrider.EndpointID) string {
	known, ok := a.sending.table.Lookup(id)
	if !ok {
		return ""
	}
	return known.Endpoint.URL
}

// quotaUsed implements [later]. Only requests call it, and requests are accepted only after the
// janitor is made.
func (a *App) quotaUsed(e *postrider.QuotaError) { a.kept.janitor.QuotaUsed(e) }

// storeCalled calls the hook StoreCalled.
func (a *App) storeCalled(c store.Call) { a.hooks().StoreCalled.Call(observe.StoreCall(c)) }

// open opens the store and makes the parts around it. After an error nothing is open, so the caller
// can try again.
func (a *App) open(ctx context.Context) error {
	opened, err := drivers.Open(ctx, a.config.StoreConfig, drivers.Options{
		Log: a.logOf("store"), OnFatal: func(err error) { a.fatal <- err }, OnLost: a.hooks().AttemptsLost, Calls: a.storeCalled,
	})
	if err != nil {
		return err
	}
	return a.use(ctx, opened)
}

// use makes the parts around an opened store. If it fails, it closes the store.
func (a *App) use(ctx context.Context, opened store.Store) error {
	if err := a.assemble(ctx, opened); err != nil {
		a.disconnect()
		a.kept, a.sending = nil, nil // the next try makes new ones
		return errors.Join(err, opened.Close())
	}
	return nil
}

// disconnect closes the connections to receivers and to the archive.
func (a *App) disconnect() {
	if a.sending != nil {
		a.sending.egress.Close()
		a.sending.peers.Close()
	}
	if a.kept != nil {
		a.kept.archive.Close()
	}
}

// assemble makes the first API key and the parts of the server, measures the clock and loads the
// routing table. When it returns, every service has current data, and serveOpened only needs to
// start the services.
//
// The key is made first. Its text is written to a file, so a later error cannot lose it.
func (a *App) assemble(ctx context.Context, opened store.Store) error {
	first, err := offline.MakeFirstKey(ctx, opened, a.config.StoreConfig)
	if err != nil {
		return err
	}
	if first.Text != "" { // a second try finds the key of the first try
		a.firstKey = first
	}
	a.vitals.writes = health.NewWrites(opened.ProbeWrite)
	a.vitals.clock = health.NewClock(opened, a.hooks().ClockOffset, a.log)
	if a.kept, err = newKept(ctx, a.base, opened); err != nil {
		return err
	}
	if a.sending, err = newSending(ctx, a.base, a.kept); err != nil {
		return err
	}
	a.publishing = newPublishing(a.base, a.kept, a.sending)
	if err := a.vitals.clock.Measure(ctx); err != nil {
		return err
	}
	if err := a.publishing.quotas.Refresh(ctx); err != nil {
		return err
	}
	return a.sending.table.Refresh(ctx)
}

// Opened returns a channel that is closed when the store is open and the API serves. If Run ends
// before that, the channel stays open.
func (a *App) Opened() <-chan struct{} { return a.opened }

// FirstKey returns the admin key that the server made because the store had no key. Call it only
// after the channel of [App.Opened] is closed.
func (a *App) FirstKey() offline.FirstKey { return a.firstKey }

// Handler returns the handler of the API listener, for calls inside this process. Until the store
// is open, it responds with 503.
func (a *App) Handler() http.Handler { return &a.doors.gate }

// Addr returns the address of the API listener. If the setting has port 0, the address has the port
// that the system chose.
func (a *App) Addr() net.Addr { return a.doors.api.Addr() }

// OpsAddr returns the address of the operations listener.
func (a *App) OpsAddr() net.Addr { return a.doors.ops.Addr() }

// Run serves until ctx ends or a service fails, then drains and closes the store. Until the store
// is open, the API responds with 503. Run may be called only once.
//
// The services end in the order of the list: first the API stops accepting requests, then the
// services of the store drain. /readyz responds until the end.
func (a *App) Run(ctx context.Context) error {
	err := runServices(ctx, func() {
		a.vitals.readiness.Drain()
		a.log.InfoContext(ctx, "postrider drains")
	}, []service{
		{"api", a.doors.api.Run},
		{"", a.serve},
		{"ready", func(ctx context.Context) error { return a.vitals.readiness.Watch(ctx, a.hooks().Ready) }},
		{"ops", a.doors.ops.Run},
	})
	if err != nil {
		a.log.ErrorContext(ctx, "postrider has stopped with an error", "error", err)
		return err
	}
	a.log.InfoContext(ctx, "postrider has stopped")
	return nil
}

// serve opens the store and runs the services that need it.
func (a *App) serve(ctx context.Context) error {
	if err := a.openWhenItCan(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return a.serveOpened(ctx)
}

const (
	// The shortest and the longest pause between two tries to open the store. The pause doubles
	// from try to try.
	openAgainLeast = 250 * time.Millisecond
	openAgainMost  = 2 * time.Second
	// openLogged is the interval at which an unchanged reason is logged again.
	openLogged = 30 * time.Second
)

// openWhenItCan opens the store. While opening fails for a temporary reason, it tries again, and
// reports the reason in the log and in /readyz. If ctx ends first, it also returns nil, so the
// caller must check ctx.
//
// Without these tries, a server that starts at the same time as its database would end, and would
// need a supervisor to restart it.
func (a *App) openWhenItCan(ctx context.Context) error {
	var logged time.Time
	var reason string
	for rest := openAgainLeast; ; rest = min(2*rest, openAgainMost) {
		err := a.open(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the error is of no interest: the server is to stop
		case !drivers.Temporary(a.config.StoreConfig, err):
			return err
		}
		a.vitals.readiness.Wait(err)
		if text := err.Error(); text != reason || time.Since(logged) > openLogged {
			a.log.WarnContext(ctx, "the store cannot be opened yet, trying again", "error", err)
			logged, reason = time.Now(), text
		}
		if !batch.Sleep(ctx, rest) {
			return nil
		}
	}
}

// serveOpened runs the services that need the store until ctx ends or one of them fails. Then it
// drains the services and closes the store.
//
// It sets the handler before it closes opened, so that a caller who waits for Opened never gets the
// 503 of a starting server.
func (a *App) serveOpened(ctx context.Context) (err error) {
	defer func() {
		a.disconnect()
		err = errors.Join(err, a.kept.store.Close())
	}()
	if err := config.KeepFile(a.config.ServerFile(), "http://"+a.Addr().String()); err != nil {
		a.log.InfoContext(ctx, "commands need --url to find this server", "error", err)
	} else {
		defer os.Remove(a.config.ServerFile())
	}
	a.setReadiness()
	if err := a.kept.expunger.Recover(ctx); err != nil {
		return err
	}
	handler := newAPI(a.base, a.kept, a.sending, a.publishing)
	a.doors.gate.set(newFront(a.base, a.kept, handler))
	a.log.InfoContext(ctx, "postrider listens", "api", a.Addr().String(), "ops", a.OpsAddr().String())
	close(a.opened)

	// A service ends before the services below it, because it needs them until then. Ingest commits
	// the publishes that were received. The dispatcher finishes its attempts with the routing table
	// and the store's clock. Then the rollup writes the statistics of those attempts. The probes
	// stop last.
	k, s, p, w, v := a.kept, a.sending, a.publishing, a.watchers, a.vitals
	return runServices(ctx, func() {}, []service{
		{"sources", func(ctx context.Context) error { return p.sources.Run(ctx, handler.Convert) }},
		{"replays", p.replays.Run},
		{"expunge", k.expunger.Run},
		{"what-ifs", handler.CompareArchive},
		{"notify", p.notify.Run},
		{"ingest", p.ingest.Run},
		{"quotas", p.quotas.Run},
		{"backlogs", p.backlogs.Run},
		{"peers", func(ctx context.Context) error { return s.peers.Run(ctx, s.dispatcher) }},
		{"dispatch", s.dispatcher.Run},
		{"rollup", func(ctx context.Context) error { return w.rollup.Run(ctx, k.store, a.hooks().ChoreDone) }},
		{"traces", w.tracer.Run},
		{"telemetry", func(ctx context.Context) error { return w.telemetry.Run(ctx, k.store, s.table.Len) }},
		{"routing", s.table.Run},
		{"janitor", k.janitor.Run},
		{"inspector", s.inspector.Run},
		{"messenger", s.messenger.Run},
		{"live", func(ctx context.Context) error { return w.live.Run(ctx, s.dispatcher.Tell) }},
		{"clock", v.clock.Run},
		{"writes", v.writes.Run},
		{"disk", v.disk.Run},
		{"keys", k.secrets.Run},
		{"backups", func(ctx context.Context) error { return k.backups.Watch(ctx, a.hooks().Backup, a.log) }},
		{"expunge list", k.expunger.WatchList},
		{"store", a.watchStore},
		{"heap", func(ctx context.Context) error { return health.TuneHeap(ctx, os.LookupEnv) }},
	})
}

// setReadiness sets the checks of /readyz for the open store: the store responds, it has the tables
// of this program, its writes succeed, deliveries make progress, the node is a member, and this
// machine's clock is right.
func (a *App) setReadiness() {
	kept, table, v := a.kept.store, a.sending.table, a.vitals
	v.readiness.Opened([]health.Check{
		func(ctx context.Context) error {
			if _, err := kept.Now(ctx); err != nil {
				return errors.New("the store does not respond")
			}
			return kept.CheckTables(ctx)
		},
		v.writes.Check,
		func(context.Context) error { return a.sending.dispatcher.Progressing() },
		func(context.Context) error { return a.sending.dispatcher.Joined() },
		v.clock.Check,
	}, map[string]func() string{
		"clock_offset": v.clock.Shown,
		"held": func() string {
			if table.Held() { // a server that accepts publishes is ready, although it sends nothing
				return "held after a restore: nothing is sent until postrider resume --after-restore"
			}
			return ""
		},
		"disk":      v.disk.Note, // the other routes of the API work, and deliveries are sent
		"postponed": v.postponed.Note,
	})
}

// watchStore returns an error when the store can no longer write. It is then unknown whether the
// last write succeeded. After a restart, the server reads that from the file.
func (a *App) watchStore(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-a.fatal:
		return err
	}
}
