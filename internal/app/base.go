package app

import (
	"cmp"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/health"
	"github.com/postrider/postrider/internal/live"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/rollup"
	"github.com/postrider/postrider/internal/telemetry"
	"github.com/postrider/postrider/internal/traces"
)

// base has the parts that every other part of the server is made with.
type base struct {
	config    config.Config // as given to New
	log       *slog.Logger
	publicURL string // URL at which people reach the server; empty: it is unknown
	watchers  *watchers
	vitals    *vitals
}

// logOf returns the log of a package.
func (b base) logOf(name string) *slog.Logger { return config.LogOf(b.log, name) }

// hooks returns the hooks that call all watchers.
func (b base) hooks() observe.Hooks { return b.watchers.observer.Hooks }

// sendsEmails reports whether the server can send emails. It needs a mail server, and a public URL
// for the links.
func (b base) sendsEmails() bool { return b.config.SMTPURL != "" && b.publicURL != "" }

// release is the version under development. A build uses it if the toolchain gave it no version,
// for example a build of a source archive.
const release = "v0.1.0-dev"

// Version returns the version of this build. The Go toolchain takes it from a tag or a revision of
// the repository. A build without one has the version under development.
func Version() string {
	noted, ok := debug.ReadBuildInfo()
	if !ok || noted.Main.Version == "(devel)" {
		return release
	}
	return cmp.Or(noted.Main.Version, release)
}

// vitals measure the health of the server.
type vitals struct {
	readiness health.Readiness
	postponed health.Postponed
	disk      *health.Disk
	writes    *health.Writes // nil: the store is not open
	clock     *health.Clock  // nil: the store is not open
}

// watchers observe what happens, also before the store is open.
type watchers struct {
	observer  *observe.Observer // calls the hooks of the others
	tracer    *traces.Tracer    // nil: nothing is traced
	rollup    *rollup.Rollup
	telemetry *telemetry.Metrics
	live      *live.Hub // the attempts for the live tail
}

// later has the functions of parts that are made after the watchers. Watchers call them only when
// something happens in an open store.
type later interface {
	// wall returns the store's time.
	wall() time.Time
	// target returns the URL of an endpoint; empty: the endpoint has no URL or is deleted.
	target(id postrider.EndpointID) string
	// quotaUsed makes a notice of a used quota.
	quotaUsed(e *postrider.QuotaError)
}

// newWatchers makes the watchers and the vitals. They are made together, because the disk of the
// vitals calls hooks of the watchers, and is itself called by hooks.
func newWatchers(c config.Config, log *slog.Logger, parts later) (*watchers, *vitals) {
	w := &watchers{rollup: rollup.New(rollup.Options{Log: config.LogOf(log, "rollup")}), live: live.New()}
	v := &vitals{disk: health.NewDisk(c.SQLiteDir(), func(used float64) { w.observer.Disk.Call(used) }, config.LogOf(log, "app"))}
	if c.OTLPURL != "" {
		o := c.Traces(Version())
		o.Now, o.Target, o.Log = parts.wall, parts.target, config.LogOf(log, "traces")
		w.tracer = traces.New(o)
	}
	w.telemetry = telemetry.New(telemetry.Options{
		Version: Version(), Worst: c.MetricsWorst, HookPanics: func() int64 { return w.observer.Panics() }, Spans: w.tracer.Counts,
		Log: config.LogOf(log, "telemetry"),
	})
	own := observe.Hooks{Committed: v.disk.Committed, QuotaUsed: parts.quotaUsed, Postponed: v.postponed.Add}
	all := observe.Join(logging(log), own, w.rollup.Hooks(), w.live.Hooks(), w.telemetry.Hooks(), w.tracer.Hooks())
	w.observer = observe.New(all, config.LogOf(log, "observe"))
	return w, v
}

// logging returns the hooks that write to the log. The store records lost attempts in groups, which
// may have thousands, and each group gets one line. In addition, each lost attempt gets its own
// line when its delivery is attempted again.
func logging(log *slog.Logger) observe.Hooks {
	return observe.Hooks{
		AttemptsLost: func(n int) { log.Warn("attempts lost", "attempts", n) },
		Noticed: func(n postrider.Notice) {
			account := ""
			if !n.Account.IsZero() {
				account = n.Account.String()
			}
			log.Info("notice", "notice", n.ID.String(), "kind", string(n.Kind), "account", account, "object", n.Object, "details", n.Details)
		},
	}
}
