// Package facts finds the facts of a set-up that package doctor judges. It looks at the settings,
// at the files and servers that they name, and at the machine.
//
// It promises:
//
//   - It starts no server and changes nothing. To find out whether it can write, it writes
//     a small file or object and deletes it.
//   - If a setting is wrong, it makes no connection, because it would examine a set-up that
//     is not meant.
package facts

import (
	"context"
	"crypto/fips140"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/identity"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/traces"
)

// Checkup has the options of [Examine].
type Checkup struct {
	Version string        // of this program
	Within  time.Duration // time limit of all checks together
	// Nodes is the number of servers that will share the database. 0: the number that run now, at
	// least one.
	Nodes   int
	Resolve string // name that the resolver is asked for
}

// Examine checks the set-up of a server with these settings. faults is the error of
// [config.Sources.Check].
func Examine(ctx context.Context, of config.Config, faults error, up Checkup) doctor.Report {
	if faults != nil {
		wrong := doctor.Failure(doctor.Settings, "%s", strings.ReplaceAll(faults.Error(), "\n", "; ")).
			Change("correct the settings, and run doctor again for the other checks: postrider config check shows where each comes from")
		return doctor.NewReport(up.Version, []doctor.Check{wrong})
	}
	c := setup{of, up.Version}
	exposed := doctor.Exposed(c.Listen)
	store := doctor.Probe{Name: doctor.Connect, Look: func(ctx context.Context) []doctor.Check { return c.examinePostgres(ctx, up.Nodes) }}
	if dsn, err := c.DSN(); err == nil && dsn == "" {
		store = doctor.Probe{Name: doctor.Folder, Look: c.examineSQLite}
	}
	checks := doctor.Run(ctx, up.Within, []doctor.Probe{
		settled(doctor.Okay(doctor.Settings, "every setting is valid")),
		settled(doctor.CheckPublicURL(c.PublicURL, c.Dev, exposed)),
		store,
		{Name: doctor.ListenAPI, Look: func(ctx context.Context) []doctor.Check {
			return one(examineListener(ctx, doctor.Listener{Name: doctor.ListenAPI, Setting: "listen", Address: c.Listen}))
		}},
		{Name: doctor.ListenOps, Look: func(ctx context.Context) []doctor.Check {
			return one(examineListener(ctx, doctor.Listener{Name: doctor.ListenOps, Setting: "ops-listen", Address: c.OpsListen}))
		}},
		{Name: doctor.DNS, Look: func(ctx context.Context) []doctor.Check { return one(resolve(ctx, up.Resolve)) }},
		settled(c.egressRules(exposed).Check()),
		{Name: doctor.EgressProxy, Look: c.examineProxy},
		{Name: doctor.OIDCIssuer, Look: c.examineOIDC},
		{Name: doctor.Collector, Look: c.examineCollector},
		{Name: doctor.MailServer, Look: c.examineMail},
		{Name: doctor.ExpungeList, Look: func(context.Context) []doctor.Check { return c.examineExpungeList() }},
		{Name: doctor.ArchiveAccess, Look: c.examineArchive},
		{Name: doctor.OpenFiles, Look: func(context.Context) []doctor.Check { return one(c.examineFiles()) }},
		settled(doctor.CheckFIPS(fips140.Enabled(), fips140.Version())),
	})
	return doctor.NewReport(up.Version, checks)
}

// examinePostgres checks the database, and what depends on its content: the keys, the sources and the memory.
func (c setup) examinePostgres(ctx context.Context, nodes int) []doctor.Check {
	dsn, err := c.DSN()
	if err != nil {
		return one(doctor.Failure(doctor.Connect, "%s", err).Change("correct --database-url-file"))
	}
	found, err := postgres.Examine(ctx, dsn)
	if err != nil {
		return one(doctor.Failure(doctor.Connect, "%s%s: %s", drivers.Unreached(err), config.MaskURL(dsn), err).
			Change("start the database if it is down, or see why it hangs; if it runs, correct --database-url, the password or pg_hba.conf. " +
				"The other checks of the database need a connection"))
	}
	found.Pooler.PollOnly = c.PollOnly
	if nodes > 0 {
		found.Connections.Nodes = nodes
	}
	checks := append(one(doctor.Okay(doctor.Connect, "%s answers", config.MaskURL(dsn))), found.Checks()...)
	if disk, err := doctor.SpaceOf(found.DataDirectory); found.DataDirectory != "" && err == nil {
		checks = append(checks, disk.Check(doctor.DatabaseDisk, found.DataDirectory))
	} else {
		checks = append(checks, doctor.Unseen(found.Size))
	}
	values := sealed{nil, func() (reader, error) { return postgres.OpenSealed(ctx, dsn) }}
	return append(checks, c.examineStore(ctx, found.Tables.Has, found.Endpoints, values)...)
}

// examineStore checks what depends on the content of a store: the keys, the sources and the memory.
func (c setup) examineStore(ctx context.Context, version int64, endpoints int, values sealed) []doctor.Check {
	checks := append(one(c.examineKeys(ctx, version, values)), c.examineSources(ctx, version, values)...)
	return append(checks, c.examineMemory(endpoints))
}

// examineSQLite checks the data folder, and what depends on its content: the keys, the sources and the memory.
func (c setup) examineSQLite(ctx context.Context) []doctor.Check {
	found := sqlite.Examine(ctx, c.DataDir)
	checks := found.Checks()
	if disk, err := doctor.SpaceOf(found.Disk); err == nil {
		checks = append(checks, disk.Check(doctor.SQLiteDisk, found.Disk))
	}
	values := sealed{found.Unread, func() (reader, error) { return sqlite.OpenSealed(c.DataDir) }}
	return append(checks, c.examineStore(ctx, found.Tables.Has, found.Endpoints, values)...)
}

// reader reads the encrypted values of a store, and the sources, which have some.
type reader interface {
	secrets.Reader
	io.Closer
	Sources(ctx context.Context) ([]postrider.Source, error)
}

// sealed opens the encrypted values of a store.
type sealed struct {
	err  error // why the values cannot be read; nil: open opens them
	open func() (reader, error)
}

// examineKeys checks the encryption keys. If the store has tables, of any version, it also checks
// whether the keys decrypt the stored values.
func (c setup) examineKeys(ctx context.Context, version int64, values sealed) doctor.Check {
	var from secrets.Reader
	err := values.err
	if err == nil && version > 0 {
		var opened reader
		if opened, err = values.open(); err == nil {
			defer opened.Close()
			from = opened
		}
	}
	found := secrets.Examine(ctx, c.Keys(), from)
	found.Unchecked = errors.Join(err, found.Unchecked)
	return found.Check()
}

func (c setup) examineMemory(endpoints int) doctor.Check {
	limit, of := doctor.MemoryLimit(os.DirFS("/"))
	return doctor.CheckMemory(limit, of, doctor.MemoryUse{
		Bodies: int64(c.BodyBudget), Endpoints: endpoints, GoLimit: debug.SetMemoryLimit(-1), // -1 changes nothing
	})
}

func (c setup) examineFiles() doctor.Check {
	limit, err := doctor.OpenFileLimit()
	if err != nil {
		return doctor.Warning(doctor.OpenFiles, "%s", err).Change("look at ulimit -n")
	}
	return doctor.CheckOpenFiles(limit, c.Concurrency)
}

// egressRules returns the rules for the requests to receivers.
func (c setup) egressRules(exposed bool) doctor.Egress {
	rules := c.Effective()
	ports, _, _ := rules.Ports() // Validate has checked them
	return doctor.Egress{
		Dev: c.Dev, HTTP: rules.EgressHTTP, Allow: rules.EgressAllow, Ports: ports, Proxy: config.MaskURL(c.EgressProxy), Exposed: exposed,
	}
}

// examineListener listens at the address for a moment. If the address is in use, it asks the
// process there whether that is a Postrider server.
func examineListener(ctx context.Context, l doctor.Listener) doctor.Check {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.Address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		l.Busy, l.Ours = true, isOurs(ctx, l.Address)
	case err != nil:
		l.Err = err
	default:
		l.Err = listener.Close()
	}
	return l.Check()
}

// listenerPatience is the time limit of the requests to a process that listens at one of our
// addresses.
const listenerPatience = 2 * time.Second

// isOurs reports whether a Postrider server listens at the address. The API of Postrider responds
// to a request without a key with a problem that has a known code. The operations listener responds
// to /livez with the status alive.
func isOurs(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, listenerPatience)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "localhost"
	}
	client := egress.OperatorClient()
	ask := func(path string) (answer struct{ Status, Code any }) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, http.NoBody)
		if err != nil {
			return answer
		}
		response, err := client.Do(request)
		if err != nil {
			return answer
		}
		defer response.Body.Close()
		// The error is ignored: another program may respond with anything.
		_ = json.NewDecoder(response.Body).Decode(&answer)
		return answer
	}
	if ask("/livez").Status == "alive" {
		return true
	}
	code, _ := ask("/v1/webhooks/endpoints").Code.(string)
	return code == "unauthorized" || code == "unavailable"
}

// dnsPatience is the time limit of one query to the resolver.
const dnsPatience = 5 * time.Second

// resolve queries the same resolver as package egress.
func resolve(ctx context.Context, name string) doctor.Check {
	ctx, cancel := context.WithTimeout(ctx, dnsPatience)
	defer cancel()
	ips, err := (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, "ip", name)
	return doctor.CheckDNS(name, len(ips), err)
}

// examineOIDC asks the identity provider for its configuration. If no provider is set, there is no
// check.
func (c setup) examineOIDC(ctx context.Context) []doctor.Check {
	if c.OIDCIssuer == "" {
		return nil
	}
	if err := identity.New(identity.Options{Issuer: c.OIDCIssuer}).Discover(ctx); err != nil {
		return one(doctor.Failure(doctor.OIDCIssuer, "%s", fmt.Errorf("%s: %w", c.OIDCIssuer, err)).
			Change("correct --oidc-issuer, or let this machine reach it; nobody can log in by it, API keys still work"))
	}
	return one(doctor.Okay(doctor.OIDCIssuer, "%s answers, with the configuration of an identity provider", c.OIDCIssuer))
}

// examineCollector sends a request without spans to the collector of traces. If no collector is
// set, there is no check.
func (c setup) examineCollector(ctx context.Context) []doctor.Check {
	if c.OTLPURL == "" {
		return nil
	}
	if err := traces.New(c.Traces(c.version)).Check(ctx); err != nil {
		return one(doctor.Warning(doctor.Collector, "%s: %s", c.OTLPURL, err).
			Change("correct --otlp-url or POSTRIDER_OTLP_HEADERS, or let this machine reach it; deliveries work without it, and traces are lost"))
	}
	return one(doctor.Okay(doctor.Collector, "%s accepts traces; %v of the events are recorded", c.OTLPURL, c.TraceSample))
}
