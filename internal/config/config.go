// Package config has the settings of the program: their names, defaults and help texts, the sources
// from which they are read, and their validation.
//
// It promises:
//
//   - A setting has the same name on the command line, in the environment and in the file
//     of --config. [Sources] says which of the three wins.
//   - [Sources.Check] returns all faults at once. Each fault names the setting as the
//     operator typed it. The check reads the files that settings name, and makes no
//     connection.
//   - No secret is in a fault, in a [Setting] or in a line of the log.
//
// The methods of [Config] convert the settings to the types of the packages that use them.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// Config has every setting of the server. The tags name the flag, its default and its help text;
// kong reads them. If the command line does not set a field with the tag setting, [Sources] fills
// it from the environment or the file.
//
// kong applies the defaults, not Config. So code that makes a Config itself must set every field
// that has a default.
type Config struct {
	StoreConfig     `embed:""`
	OIDCConfig      `embed:""`
	RetentionConfig `embed:""`
	ArchiveConfig   `embed:""`
	NoticeConfig    `embed:""`
	QuotaConfig     `embed:""`
	TraceConfig     `embed:""`
	MailConfig      `embed:""`

	// The settings of the listeners. Dev loosens the rules of Validate and of egress; see
	// Effective.
	Listen         string         `name:"listen" setting:"" group:"Server" default:"127.0.0.1:8080" help:"Address of the API, host:port. Port 0 takes a free port."`
	OpsListen      string         `name:"ops-listen" setting:"" group:"Server" default:"127.0.0.1:9090" help:"Address of the listener for operators (/livez, /readyz, /metrics, pprof), host:port. Keep it private. Profiles are served to this machine alone."`
	MetricsWorst   int            `name:"metrics-worst" setting:"" group:"Server" default:"0" help:"Endpoints with the most failed attempts that /metrics names by their ids, 0 to 10."`
	PublicURL      string         `name:"public-url" setting:"" group:"Server" placeholder:"URL" help:"URL by which people reach this server, without a path, for example https://hooks.example.com. Links to the customer portal begin with it, and cookies are Secure if it is https. Default: none, and no links are made; with --dev the address of the API."`
	TrustedProxies []netip.Prefix `name:"trusted-proxies" setting:"" group:"Server" placeholder:"CIDR" help:"Networks of the reverse proxies in front of this server, separated by commas, for example 10.0.0.0/8. Their X-Forwarded-For says which client a login comes from. Default: none, and all clients behind a proxy share the limit of logins that fail."`
	Dev            bool           `name:"dev" setting:"" group:"Server" help:"For development: allow http URLs, loopback and private addresses and every port, and log as text. Never set it in production."`

	// The limits of the API.
	AnswerTimeout time.Duration `name:"answer-timeout" setting:"" group:"Server" default:"5s" help:"Time that the store has for a publish or another write before the response is a 503, 100ms to 1m. After a 503 the write may still happen, so repeat it with the same idempotency key."`
	BodyBudget    int           `name:"body-budget" setting:"" group:"Server" default:"50331648" help:"Memory for the request bodies of the API in bytes, at least 33554432. One API key gets at most a quarter of it; more is refused with a 429."`

	// The limits of delivery and ingestion. HostConcurrency 0 means a quarter of Concurrency, which
	// the dispatcher computes.
	Concurrency     int           `name:"concurrency" setting:"" group:"Delivery" default:"1024" help:"Attempts in flight of this server to endpoints that respond, 1 to 100000; up to four times as many more wait for slow ones and those that hang. Each endpoint has its own limit, too."`
	HostConcurrency int           `name:"host-concurrency" setting:"" group:"Delivery" placeholder:"N" help:"Attempts in flight to one host, for all endpoints of that host together. Default: a quarter of --concurrency, at least 64."`
	PollOnly        bool          `name:"poll-only" setting:"" group:"Delivery" help:"Use no LISTEN and NOTIFY between servers, for connections that do not support them. Events that another server accepted then start up to a second later."`
	PeerListen      string        `name:"peer-listen" setting:"" group:"Delivery" placeholder:"HOST:PORT" help:"Address at which other servers on the same PostgreSQL hand deliveries to this one, host:port, or none: then this server hands none to others, either. Without a host it is the address from which this server reaches PostgreSQL. Default: a free port of that address."`
	ReceiverControl bool          `name:"receiver-control" setting:"" group:"Delivery" help:"Obey the header webhook-delivery in responses of 400 and above: abort makes the delivery a dead letter, disable also disables the endpoint, as a 410 does. Default: the header is ignored."`
	DrainTimeout    time.Duration `name:"drain-timeout" setting:"" group:"Delivery" default:"35s" help:"Time for attempts in flight to finish when the server stops, 1s to 10m."`
	MaxData         int           `name:"max-data" setting:"" group:"Delivery" default:"262144" help:"Largest data of an event in bytes, 1024 to 1048576."`
	IdempotencyTTL  time.Duration `name:"idempotency-ttl" setting:"" group:"Delivery" default:"168h" help:"How long an idempotency key detects duplicates, 1m to 2160h."`

	// The limits of endpoint health; see HealthLimits. With DisableAfter 0, an endpoint that
	// accepts nothing is never disabled.
	DisableAfter       time.Duration `name:"disable-after" setting:"" group:"Delivery" default:"120h" help:"How long an endpoint may fail without accepting anything before it is disabled, 1h to 2160h. It is warned, in its health and in the log, after a twentieth, a fifth and three fifths of that. 0 disables none."`
	WarnDeadPercent    int           `name:"warn-dead-percent" setting:"" group:"Delivery" default:"25" help:"Percentage of dead letters among a day's deliveries, if there are 20 or more, above which an endpoint is warned, 1 to 100. 100 warns none."`
	DisableDeadPercent int           `name:"disable-dead-percent" setting:"" group:"Delivery" default:"50" help:"Percentage of dead letters among a day's deliveries, if there are 20 or more, above which an endpoint is disabled, from --warn-dead-percent to 100. It is warned at least an hour before. 100 disables none."`

	// The rules for requests to receivers. Code must call Allowed for the networks and Ports for
	// the ports, because these methods parse the texts and add what dev mode allows.
	EgressHTTP  bool           `name:"egress-http" setting:"" group:"Egress" help:"Allow endpoints with http URLs. Default: only https."`
	EgressAllow []netip.Prefix `name:"egress-allow" setting:"" group:"Egress" placeholder:"CIDR" help:"Private networks that requests may go to, separated by commas, for example 10.0.0.0/8. Default: only the public Internet."`
	SourceAllow []netip.Prefix `name:"source-allow" setting:"" group:"Egress" placeholder:"CIDR" help:"Private networks in which databases of sources may be, separated by commas, besides those of --egress-allow. Requests to receivers do not go there. Default: none."`
	EgressPorts []string       `name:"egress-ports" setting:"" group:"Egress" default:"80,443,8080,8443" help:"Ports that requests may go to, separated by commas, or any."`
	EgressProxy string         `name:"egress-proxy" setting:"" group:"Egress" placeholder:"URL" help:"Proxy for all connections to receivers: an http, https or socks5 URL. Postrider still resolves and checks the addresses itself and gives the proxy an address, not a name. A password in the flag is refused; set it in the environment or the file of --config. Default: no proxy."`

	// VerifyEndpoints is "off" or a method of the API; see VerifyMethod.
	VerifyEndpoints string `name:"verify-endpoints" setting:"" group:"Egress" default:"off" help:"How a receiver at a new URL must agree before events are sent to it: challenge (it echoes a signed POST), cloudevents (an OPTIONS handshake), or off for no such check."`

	PingEndpoints bool `name:"ping-endpoints" setting:"" group:"Egress" help:"Send an event of the type postrider.ping to each endpoint that is created or gets another URL, in one attempt. Default: none is sent."`

	// LogFormat is the format of the log. Empty: text in dev mode, otherwise JSON; see format.
	LogFormat string `name:"log-format" setting:"" group:"Logs" placeholder:"json|text" help:"Format of the log on stderr: json or text. Default: json, or text with --dev."`
	LogLevel  string `name:"log-level" setting:"" group:"Logs" default:"info" placeholder:"LEVEL,…" help:"Lowest level that is logged: debug, info, warn or error. A package can have its own, for example info,dispatch=debug,webhook=warn. The packages are api, app, archive, dispatch, expunge, ingest, inspect, janitor, messenger, notify, observe, peers, quota, replay, rollup, routing, secrets, sources, store, telemetry, traces, web and webhook."`
}

// PeersOff is the PeerListen of a server that has no connections to other servers.
const PeersOff = "none"

// Validate returns all faults of the settings, joined, so that an operator can correct them all at
// once. named returns how the operator typed a setting: as a flag, a variable or a line of the
// file.
func (c Config) Validate(named func(setting string) string) error { return faultsOf(named, c.check) }

func (c Config) check(f *faultList) {
	c.StoreConfig.check(f)
	c.OIDCConfig.check(f, c.PublicURL != "" || c.Dev)
	c.RetentionConfig.check(f)
	c.ArchiveConfig.check(f)
	c.NoticeConfig.check(f)
	c.TraceConfig.check(f)
	c.QuotaConfig.check(f)
	c.MailConfig.check(f)
	f.refuse(!isAddress(c.Listen), "listen", "must be host:port, with a port from 0 to 65535")
	f.refuse(!isAddress(c.OpsListen), "ops-listen", "must be host:port, with a port from 0 to 65535")
	f.refuse(c.PeerListen != "" && c.PeerListen != PeersOff && !isAddress(c.PeerListen), "peer-listen",
		"must be host:port, with a port from 0 to 65535, or "+PeersOff)
	f.refuse(c.Listen == c.OpsListen && isAddress(c.Listen) && !strings.HasSuffix(c.Listen, ":0"),
		"ops-listen", "must not be the address of the API")
	f.refuse(c.MetricsWorst < 0 || c.MetricsWorst > 10, "metrics-worst", "must be 0 to 10")
	f.refuse(c.PublicURL != "" && !isPublicURL(c.PublicURL), "public-url",
		"must be https://host or http://host, perhaps with a port, and without a path")
	f.refuse(c.AnswerTimeout < 100*time.Millisecond || c.AnswerTimeout > time.Minute, "answer-timeout", "must be 100ms to 1m")
	f.refuse(c.BodyBudget < 32<<20 || c.BodyBudget > 1<<40, "body-budget", "must be 33554432 to 1099511627776 bytes")
	f.refuse(c.Concurrency < 1 || c.Concurrency > 100_000, "concurrency", "must be 1 to 100000")
	f.refuse(c.HostConcurrency < 0 || c.HostConcurrency > 100_000, "host-concurrency", "must be 1 to 100000, or 0 for the default")
	f.refuse(c.DrainTimeout < time.Second || c.DrainTimeout > 10*time.Minute, "drain-timeout", "must be 1s to 10m")
	f.refuse(c.MaxData < 1<<10 || c.MaxData > 1<<20, "max-data", "must be 1024 to 1048576 bytes")
	f.refuse(c.IdempotencyTTL < time.Minute || c.IdempotencyTTL > 90*24*time.Hour, "idempotency-ttl", "must be 1m to 2160h")
	f.refuse(c.DisableAfter != 0 && (c.DisableAfter < time.Hour || c.DisableAfter > 90*24*time.Hour), "disable-after",
		"must be 0, or 1h to 2160h")
	f.refuse(c.WarnDeadPercent < 1 || c.WarnDeadPercent > 100, "warn-dead-percent", "must be 1 to 100")
	f.refuse(c.DisableDeadPercent < c.WarnDeadPercent || c.DisableDeadPercent > 100, "disable-dead-percent",
		"must be at least "+f.named("warn-dead-percent")+", and at most 100")
	f.refuse(c.EgressHTTP && c.Dev, "egress-http", "is already part of --dev")
	_, _, err := c.Ports()
	f.refuse(err != nil, "egress-ports", "must be any, or ports from 1 to 65535 with commas between")
	_, err = c.Proxy()
	f.refuse(err != nil, "egress-proxy", reasonOf(err))
	f.refuse(f.named("egress-proxy") == "--egress-proxy" && holdsPassword(c.EgressProxy), "egress-proxy",
		"must not hold a password, which every user of this machine can read; use POSTRIDER_EGRESS_PROXY or the file")
	f.refuse(!slices.Contains([]string{verifyOff, "challenge", "cloudevents"}, c.VerifyEndpoints), "verify-endpoints",
		"must be off, challenge or cloudevents")
	f.refuse(!slices.Contains([]string{"", "json", "text"}, c.LogFormat), "log-format", "must be json or text")
	_, err = parseLevels(c.LogLevel)
	f.refuse(err != nil, "log-level", reasonOf(err))
}

// PublicURLAt returns the URL at which people reach the server, without a slash at its end. In dev
// mode the default is the address of the listener. Empty: the URL is unknown.
func (c Config) PublicURLAt(listener net.Addr) string {
	if c.PublicURL == "" && c.Dev {
		return "http://" + listener.String()
	}
	return strings.TrimSuffix(c.PublicURL, "/")
}

// verifyOff is the value of VerifyEndpoints with which new URLs are not verified.
const verifyOff = "off"

// VerifyMethod returns the method with which new URLs are verified. Empty: new URLs are not
// verified.
func (c Config) VerifyMethod() string {
	if c.VerifyEndpoints == verifyOff {
		return ""
	}
	return c.VerifyEndpoints
}

// HealthLimits returns when endpoints are warned about and disabled. A percentage of zero becomes
// 100. Only a Config that was made without flags has zero.
func (c Config) HealthLimits() *postrider.HealthLimits {
	return &postrider.HealthLimits{
		DisableAfter: c.DisableAfter, WarnPercent: cmp.Or(c.WarnDeadPercent, 100), DisablePercent: cmp.Or(c.DisableDeadPercent, 100),
	}
}

// AllowsHTTP reports whether endpoints may have http URLs as well as https URLs.
func (c Config) AllowsHTTP() bool { return c.EgressHTTP || c.Dev }

// Ports returns the ports to which requests may go. If anyPort is true, the list is nil and every
// port is allowed.
func (c Config) Ports() (ports []uint16, anyPort bool, err error) {
	if slices.Equal(c.EgressPorts, []string{"any"}) {
		return nil, true, nil
	}
	if len(c.EgressPorts) == 0 {
		return nil, false, errors.New("no ports")
	}
	for _, text := range c.EgressPorts {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return nil, false, fmt.Errorf("port %q", text)
		}
		ports = append(ports, uint16(port))
	}
	return ports, false, nil
}

// Proxy returns the URL of the proxy for connections to receivers. Nil: connections are direct.
func (c Config) Proxy() (*url.URL, error) {
	if c.EgressProxy == "" {
		return nil, nil //nolint:nilnil // nil means no proxy
	}
	return egress.ParseProxy(c.EgressProxy)
}

// Allowed returns the networks to which requests may go besides the public Internet. Dev mode adds
// loopback and private networks. It does not add link-local addresses, because cloud metadata
// services use them.
func (c Config) Allowed() []netip.Prefix {
	if !c.Dev {
		return c.EgressAllow
	}
	return append(slices.Clone(c.EgressAllow), egress.PrivatePrefixes()...)
}

// SourceNetworks returns the networks in which databases of sources may be although they are not public.
func (c Config) SourceNetworks() []netip.Prefix { return slices.Concat(c.Allowed(), c.SourceAllow) }

// Effective returns the settings with everything that dev mode allows written out. It is used for
// the log. The services use the other methods.
func (c Config) Effective() Config {
	c.EgressAllow = c.Allowed()
	if c.Dev {
		c.EgressHTTP, c.EgressPorts = true, []string{"any"}
	}
	return c
}

// format returns the format of the log, "text" or "json".
func (c Config) format() string {
	if c.Dev {
		return cmp.Or(c.LogFormat, "text")
	}
	return cmp.Or(c.LogFormat, "json")
}

// Settings returns all settings, in the order of the help.
func (c Config) Settings() []Setting { return settingsOf(reflect.ValueOf(c)) }

// Retention returns the number of whole days for which the server keeps events, attempts, bodies
// and idempotency keys. An account may set fewer days.
func (c Config) Retention() postrider.AccountRetention {
	days := func(age time.Duration) int { return int(age / (24 * time.Hour)) }
	return postrider.AccountRetention{
		Events: days(c.KeepEvents), Attempts: days(c.KeepAttempts), Bodies: days(c.KeepBodies), IdempotencyKeys: days(c.IdempotencyTTL),
	}
}

// LogValue returns the effective settings that are not zero, with secrets masked. The server logs
// these settings when it starts.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, s := range c.Effective().Settings() {
		if !reflect.ValueOf(s.Value).IsZero() {
			attrs = append(attrs, slog.Any(strings.ReplaceAll(s.Name, "-", "_"), s.Value))
		}
	}
	return slog.GroupValue(attrs...)
}

// Logger returns the logger that the settings describe, which writes to w.
func Logger(c Config, w io.Writer) *slog.Logger {
	set, err := parseLevels(c.LogLevel)
	if err != nil { // Validate has refused such a text
		set = levels{others: slog.LevelInfo}
	}
	opts := &slog.HandlerOptions{Level: slog.LevelDebug} // leveled decides the level
	var handler slog.Handler = slog.NewJSONHandler(w, opts)
	if c.format() == "text" {
		handler = slog.NewTextHandler(w, opts)
	}
	return slog.New(leveled{handler, set, set.at("app")})
}
