package app

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/egress"
)

// Config holds every setting of the server. The tags name the flag, its default and
// its help; kong reads them. [Sources] fills the fields with the tag setting from
// the environment and a file, where the command line does not set them.
//
// kong applies the defaults, not Config: code that makes a Config itself must set
// every field that has one.
type Config struct {
	StoreConfig     `embed:""`
	OIDCConfig      `embed:""`
	RetentionConfig `embed:""`
	ArchiveConfig   `embed:""`
	NoticeConfig    `embed:""`
	QuotaConfig     `embed:""`
	TraceConfig     `embed:""`
	MailConfig      `embed:""`

	// The listeners. Dev loosens what Validate and egress allow; see effective.
	Listen         string         `name:"listen" setting:"" group:"Server" default:"127.0.0.1:8080" help:"Address of the API, host:port. Port 0 takes a free port."`
	OpsListen      string         `name:"ops-listen" setting:"" group:"Server" default:"127.0.0.1:9090" help:"Address of the listener for operators (/livez, /readyz, /metrics, pprof), host:port. Keep it private. Profiles are served to this machine alone."`
	MetricsWorst   int            `name:"metrics-worst" setting:"" group:"Server" default:"0" help:"Endpoints with the most failed attempts that /metrics names by their ids, 0 to 10."`
	PublicURL      string         `name:"public-url" setting:"" group:"Server" placeholder:"URL" help:"URL by which people reach this server, without a path, for example https://hooks.example.com. Links to the customer portal begin with it, and cookies are Secure if it is https. Default: none, and no links are made; with --dev the address of the API."`
	TrustedProxies []netip.Prefix `name:"trusted-proxies" setting:"" group:"Server" placeholder:"CIDR" help:"Networks of the reverse proxies in front of this server, separated by commas, for example 10.0.0.0/8. Their X-Forwarded-For says which client a login comes from. Default: none, and all clients behind a proxy share the limit of logins that fail."`
	Dev            bool           `name:"dev" setting:"" group:"Server" help:"For development: allow http URLs, loopback and private addresses and every port, and log as text. Never set it in production."`

	// Limits of the API.
	AnswerTimeout time.Duration `name:"answer-timeout" setting:"" group:"Server" default:"5s" help:"Time that the store has for a publish or another write before the response is a 503, 100ms to 1m. After a 503 the write may still happen, so repeat it with the same idempotency key."`
	BodyBudget    int           `name:"body-budget" setting:"" group:"Server" default:"50331648" help:"Memory for the request bodies of the API in bytes, at least 33554432. One API key gets at most a quarter of it; more is refused with a 429."`

	// Limits of delivery and ingestion. HostConcurrency 0 stands for a quarter of
	// Concurrency; the dispatcher computes it.
	Concurrency     int           `name:"concurrency" setting:"" group:"Delivery" default:"1024" help:"Attempts in flight of this server to endpoints that respond, 1 to 100000; up to four times as many more wait for slow ones and those that hang. Each endpoint has its own limit, too."`
	HostConcurrency int           `name:"host-concurrency" setting:"" group:"Delivery" placeholder:"N" help:"Attempts in flight to one host, for all endpoints of that host together. Default: a quarter of --concurrency, at least 64."`
	PollOnly        bool          `name:"poll-only" setting:"" group:"Delivery" help:"Use no LISTEN and NOTIFY between servers, for connections that do not support them. Events that another server accepted then start up to a second later."`
	DrainTimeout    time.Duration `name:"drain-timeout" setting:"" group:"Delivery" default:"35s" help:"Time for attempts in flight to finish when the server stops, 1s to 10m."`
	MaxData         int           `name:"max-data" setting:"" group:"Delivery" default:"262144" help:"Largest data of an event in bytes, 1024 to 1048576."`
	IdempotencyTTL  time.Duration `name:"idempotency-ttl" setting:"" group:"Delivery" default:"168h" help:"How long an idempotency key detects duplicates, 1m to 2160h."`

	// Limits of endpoint health; see healthLimits. DisableAfter 0 disables no
	// endpoint for accepting nothing.
	DisableAfter       time.Duration `name:"disable-after" setting:"" group:"Delivery" default:"120h" help:"How long an endpoint may fail without accepting anything before it is disabled, 1h to 2160h. It is warned, in its health and in the log, after a twentieth, a fifth and three fifths of that. 0 disables none."`
	WarnDeadPercent    int           `name:"warn-dead-percent" setting:"" group:"Delivery" default:"25" help:"Percentage of dead letters among a day's deliveries, if there are 20 or more, above which an endpoint is warned, 1 to 100. 100 warns none."`
	DisableDeadPercent int           `name:"disable-dead-percent" setting:"" group:"Delivery" default:"50" help:"Percentage of dead letters among a day's deliveries, if there are 20 or more, above which an endpoint is disabled, from --warn-dead-percent to 100. It is warned at least an hour before. 100 disables none."`

	// Where requests to receivers may go. Code must read the networks with allowed
	// and the ports with ports, which add what dev mode allows or parse the text.
	EgressHTTP  bool           `name:"egress-http" setting:"" group:"Egress" help:"Allow endpoints with http URLs. Default: only https."`
	EgressAllow []netip.Prefix `name:"egress-allow" setting:"" group:"Egress" placeholder:"CIDR" help:"Private networks that requests may go to, separated by commas, for example 10.0.0.0/8. Default: only the public Internet."`
	EgressPorts []string       `name:"egress-ports" setting:"" group:"Egress" default:"80,443,8080,8443" help:"Ports that requests may go to, separated by commas, or any."`
	EgressProxy string         `name:"egress-proxy" setting:"" group:"Egress" placeholder:"URL" help:"Proxy for all connections to receivers: an http, https or socks5 URL. Postrider still resolves and checks the addresses itself and gives the proxy an address, not a name. A password in the flag is refused; set it in the environment or the file of --config. Default: no proxy."`

	// "off" or one of [apiendpoints.VerifyMethods]; see verify.
	VerifyEndpoints string `name:"verify-endpoints" setting:"" group:"Egress" default:"off" help:"How a receiver at a new URL must agree before events are sent to it: challenge (it echoes a signed POST), cloudevents (an OPTIONS handshake), or off for no such check."`

	// Empty: text in dev mode, else JSON; see format.
	LogFormat string `name:"log-format" setting:"" group:"Logs" placeholder:"json|text" help:"Format of the log on stderr: json or text. Default: json, or text with --dev."`
	LogLevel  string `name:"log-level" setting:"" group:"Logs" default:"info" placeholder:"LEVEL,…" help:"Lowest level that is logged: debug, info, warn or error. A package can have its own, for example info,dispatch=debug,webhook=warn. The packages are api, app, archive, dispatch, expunge, ingest, inspect, janitor, messenger, notify, observe, quota, replay, rollup, routing, secrets, store, telemetry, traces, web and webhook."`
}

// StoreConfig says where the store and its encryption keys are. Commands that work
// on the store without a server have only these settings.
//
// Without a database URL the store is SQLite in DataDir.
type StoreConfig struct {
	ConfigFile      string `name:"config" setting:"" group:"Store" placeholder:"FILE" help:"YAML file with settings, named like the flags. Flags and the environment override it. Default: none."`
	DataDir         string `name:"data-dir" setting:"" group:"Store" default:"./postrider-data" help:"Folder of the SQLite database, its encryption keys and admin.key."`
	DatabaseURL     string `name:"database-url" setting:"" group:"Store" placeholder:"postgres://…" help:"URL of a PostgreSQL database. A password in the flag is refused; set it in the environment or use --database-url-file. Default: SQLite in --data-dir."`
	DatabaseURLFile string `name:"database-url-file" setting:"" group:"Store" placeholder:"FILE" help:"File with the database URL. Default: none."`
	SecretsKeyFile  string `name:"secrets-key-file" setting:"" group:"Store" placeholder:"FILE" help:"File with the keys that encrypt secrets at rest. Only its owner may have access. Default: secrets.key in the data folder, or with PostgreSQL a key in the database."`
	SecretsKey      string `name:"secrets-key" setting:"" group:"Store" placeholder:"ID:KEY,…" help:"The encryption keys themselves. Set them in the environment or the file of --config; as a flag they are refused."`
}

// Fault is one wrong setting. The program exits with 2 for it.
type Fault struct {
	Key    string // as the operator typed it: flag, variable or key of the file
	Reason string // completes a sentence that starts with the key
}

// Error returns "key: reason". Neither contains the value of a secret.
func (f *Fault) Error() string { return f.Key + ": " + f.Reason }

// Validate returns every fault of the settings, joined, so that an operator can
// correct them in one go. Named returns how the operator typed a setting: a flag, a
// variable or a line of the file.
func (c Config) Validate(named func(setting string) string) error {
	faults := []error{c.StoreConfig.Validate(named), c.OIDCConfig.validate(named, c.PublicURL != "" || c.Dev), c.RetentionConfig.validate(named), c.ArchiveConfig.Validate(named), c.NoticeConfig.validate(named), c.TraceConfig.validate(named), c.QuotaConfig.validate(named), c.MailConfig.validate(named)}
	refuse := func(wrong bool, setting, reason string) {
		if wrong {
			faults = append(faults, &Fault{Key: named(setting), Reason: reason})
		}
	}
	refuse(!isAddress(c.Listen), "listen", "must be host:port, with a port from 0 to 65535")
	refuse(!isAddress(c.OpsListen), "ops-listen", "must be host:port, with a port from 0 to 65535")
	refuse(c.Listen == c.OpsListen && isAddress(c.Listen) && !strings.HasSuffix(c.Listen, ":0"),
		"ops-listen", "must not be the address of the API")
	refuse(c.MetricsWorst < 0 || c.MetricsWorst > 10, "metrics-worst", "must be 0 to 10")
	refuse(c.PublicURL != "" && !isPublicURL(c.PublicURL), "public-url", "must be https://host or http://host, perhaps with a port, and without a path")
	refuse(c.AnswerTimeout < 100*time.Millisecond || c.AnswerTimeout > time.Minute, "answer-timeout", "must be 100ms to 1m")
	refuse(c.BodyBudget < 32<<20 || c.BodyBudget > 1<<40, "body-budget", "must be 33554432 to 1099511627776 bytes")
	refuse(c.Concurrency < 1 || c.Concurrency > 100_000, "concurrency", "must be 1 to 100000")
	refuse(c.HostConcurrency < 0 || c.HostConcurrency > 100_000, "host-concurrency", "must be 1 to 100000, or 0 for the default")
	refuse(c.DrainTimeout < time.Second || c.DrainTimeout > 10*time.Minute, "drain-timeout", "must be 1s to 10m")
	refuse(c.MaxData < 1<<10 || c.MaxData > 1<<20, "max-data", "must be 1024 to 1048576 bytes")
	refuse(c.IdempotencyTTL < time.Minute || c.IdempotencyTTL > 90*24*time.Hour, "idempotency-ttl", "must be 1m to 2160h")
	refuse(c.DisableAfter != 0 && (c.DisableAfter < time.Hour || c.DisableAfter > 90*24*time.Hour), "disable-after", "must be 0, or 1h to 2160h")
	refuse(c.WarnDeadPercent < 1 || c.WarnDeadPercent > 100, "warn-dead-percent", "must be 1 to 100")
	refuse(c.DisableDeadPercent < c.WarnDeadPercent || c.DisableDeadPercent > 100, "disable-dead-percent",
		"must be at least "+named("warn-dead-percent")+", and at most 100")
	refuse(c.EgressHTTP && c.Dev, "egress-http", "is already part of --dev")
	_, _, err := c.ports()
	refuse(err != nil, "egress-ports", "must be any, or ports from 1 to 65535 with commas between")
	_, err = c.proxy()
	refuse(err != nil, "egress-proxy", reasonOf(err))
	refuse(named("egress-proxy") == "--egress-proxy" && holdsPassword(c.EgressProxy), "egress-proxy",
		"must not hold a password, which every user of this machine can read; use POSTRIDER_EGRESS_PROXY or the file")
	refuse(!slices.Contains(append([]string{verifyOff}, apiendpoints.VerifyMethods...), c.VerifyEndpoints), "verify-endpoints", "must be off, challenge or cloudevents")
	refuse(!slices.Contains([]string{"", "json", "text"}, c.LogFormat), "log-format", "must be json or text")
	_, err = parseLevels(c.LogLevel)
	refuse(err != nil, "log-level", reasonOf(err))
	return errors.Join(faults...)
}

// Validate returns every fault of the store's settings, joined. It reads the files
// that the settings name, so that a wrong path is found before the start. A
// password in a flag is a fault: every user of the machine can read it.
func (c StoreConfig) Validate(named func(setting string) string) error {
	var faults []error
	refuse := func(wrong bool, setting, reason string) {
		if wrong {
			faults = append(faults, &Fault{Key: named(setting), Reason: reason})
		}
	}
	refuse(c.DataDir == "", "data-dir", "must be a folder")
	refuse(c.SecretsKey != "" && c.SecretsKeyFile != "", "secrets-key-file", "must not be given together with "+named("secrets-key"))
	if c.SecretsKey != "" {
		err := c.keys().Check()
		refuse(err != nil, "secrets-key", reasonOf(err))
		refuse(named("secrets-key") == "--secrets-key", "secrets-key",
			"must not be a flag, which every user of this machine can read; use POSTRIDER_SECRETS_KEY or --secrets-key-file")
	} else if c.SecretsKeyFile != "" {
		err := c.keys().Check()
		refuse(err != nil, "secrets-key-file", "cannot be used: "+reasonOf(err))
	}
	refuse(c.DatabaseURL != "" && c.DatabaseURLFile != "", "database-url-file", "must not be given together with "+named("database-url"))
	if c.DatabaseURL != "" {
		refuse(!isPostgresURL(c.DatabaseURL), "database-url", "must be postgres://user@host:port/database")
		refuse(named("database-url") == "--database-url" && holdsPassword(c.DatabaseURL), "database-url",
			"must not hold a password, which every user of this machine can read; use POSTRIDER_DATABASE_URL or --database-url-file")
	} else if c.DatabaseURLFile != "" {
		dsn, err := c.dsn()
		refuse(err != nil, "database-url-file", "cannot be read: "+reasonOf(err))
		refuse(err == nil && !isPostgresURL(dsn), "database-url-file", "must hold postgres://user:password@host:port/database")
	}
	return errors.Join(faults...)
}

// isPublicURL reports whether the text is a URL of a server and no more.
func isPublicURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.Scheme+"://"+u.Host == strings.TrimSuffix(text, "/")
}

// publicURL returns the URL by which people reach the server, without a slash at its
// end. In dev mode it may be the address of the listener. Empty: it is not known.
func (c Config) publicURL(listener net.Addr) string {
	if c.PublicURL == "" && c.Dev {
		return "http://" + listener.String()
	}
	return strings.TrimSuffix(c.PublicURL, "/")
}

// reasonOf returns the text of an error without the path of the file, because the
// fault's key names the setting already. It is empty for nil.
func reasonOf(err error) string {
	var path *os.PathError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return err.Error()
}

// dsn returns the database URL, from the setting or from its file. Empty means
// SQLite. The file is read at each call, so that a replaced password is used at the
// next try to open the store.
func (c StoreConfig) dsn() (string, error) {
	if c.DatabaseURLFile == "" {
		return c.DatabaseURL, nil
	}
	text, err := os.ReadFile(c.DatabaseURLFile)
	if err != nil {
		return "", fmt.Errorf("read database URL: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// verifyOff is the value of VerifyEndpoints that verifies nothing.
const verifyOff = "off"

// verify returns the method that verifies new URLs. Empty: new URLs are not
// verified.
func (c Config) verify() string {
	if c.VerifyEndpoints == verifyOff {
		return ""
	}
	return c.VerifyEndpoints
}

// healthLimits returns when endpoints are warned about and disabled. A percentage
// of zero, which only configurations without flags have, becomes 100.
func (c Config) healthLimits() *postrider.HealthLimits {
	return &postrider.HealthLimits{
		DisableAfter: c.DisableAfter, WarnPercent: cmp.Or(c.WarnDeadPercent, 100), DisablePercent: cmp.Or(c.DisableDeadPercent, 100),
	}
}

// allowsHTTP reports whether endpoints may have http URLs, besides https.
func (c Config) allowsHTTP() bool { return c.EgressHTTP || c.Dev }

// ports returns the ports that requests may go to. With anyPort the list is nil and
// every port is allowed.
func (c Config) ports() (ports []uint16, anyPort bool, err error) {
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

// proxy returns the URL of the proxy for connections to receivers. Nil: connections
// are direct.
func (c Config) proxy() (*url.URL, error) {
	if c.EgressProxy == "" {
		return nil, nil //nolint:nilnil // no proxy is none
	}
	return egress.ParseProxy(c.EgressProxy)
}

// allowed returns the networks that requests may go to besides the public Internet.
// Dev mode adds loopback and private networks, but no link-local addresses: cloud
// metadata services are there.
func (c Config) allowed() []netip.Prefix {
	if !c.Dev {
		return c.EgressAllow
	}
	return append(slices.Clone(c.EgressAllow), egress.PrivatePrefixes()...)
}

// effective returns the settings with everything that dev mode allows written out.
// It is for the log; the services use the single settings.
func (c Config) effective() Config {
	c.EgressAllow = c.allowed()
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

// Setting is one setting with its effective value. Secrets are masked, so a Setting
// may be printed and logged.
type Setting struct {
	Name  string // as in the flag, without the hyphens in front
	Value any    // a string, bool, int or []string
}

// Settings returns every setting in the order of the help.
func (c Config) Settings() []Setting { return settingsOf(reflect.ValueOf(c)) }

// Settings returns the settings of the store in the order of the help.
func (c StoreConfig) Settings() []Setting { return settingsOf(reflect.ValueOf(c)) }

// LogValue returns the effective settings that are not zero, with secrets masked.
// The server logs them at its start.
func (c Config) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, s := range c.effective().Settings() {
		if !reflect.ValueOf(s.Value).IsZero() {
			attrs = append(attrs, slog.Any(strings.ReplaceAll(s.Name, "-", "_"), s.Value))
		}
	}
	return slog.GroupValue(attrs...)
}

// settingsOf lists the fields of a configuration with their flags' names, embedded
// structs included. It masks the settings that can hold a secret; a new secret
// setting must be added here.
func settingsOf(config reflect.Value) []Setting {
	var settings []Setting
	for i := range config.NumField() {
		field := config.Type().Field(i)
		if field.Anonymous {
			settings = append(settings, settingsOf(config.Field(i))...)
			continue
		}
		settings = append(settings, Setting{field.Tag.Get("name"), plain(config.Field(i).Interface())})
	}
	for i, s := range settings {
		switch {
		case s.Name == "database-url" || s.Name == "egress-proxy" || s.Name == "smtp-url":
			settings[i].Value = maskURL(s.Value.(string)) //nolint:errcheck // the field is a string
		case slices.Contains([]string{"secrets-key", "oidc-client-secret", "otlp-headers", "archive-secret-key", "smtp-password"}, s.Name) && s.Value != "":
			settings[i].Value = "xxxxx"
		}
	}
	return settings
}

// plain returns a setting's value as a YAML file holds it: durations and networks
// become text.
func plain(value any) any {
	switch v := value.(type) {
	case time.Duration:
		return v.String()
	case []netip.Prefix:
		texts := make([]string, 0, len(v))
		for _, p := range v {
			texts = append(texts, p.String())
		}
		return texts
	case []string:
		return append([]string{}, v...)
	}
	return value
}

// isAddress reports whether the text is host:port with a numeric port. The host may
// be empty, which stands for every address of the machine.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isPostgresURL reports whether the text is a PostgreSQL URL. Key-value connection
// strings are refused: holdsPassword would not find a password in them.
func isPostgresURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
}

// holdsPassword reports whether a URL has a password, in its user part or in a
// parameter of PostgreSQL.
func holdsPassword(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil {
		return true // a text that is no URL may hold a password anywhere
	}
	_, inUser := u.User.Password()
	return inUser || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// maskURL returns a URL with its passwords masked. A text that is no URL is masked
// as a whole.
func maskURL(dsn string) string {
	u, err := url.Parse(dsn)
	if dsn != "" && (err != nil || u.Scheme == "") {
		return "xxxxx"
	}
	if dsn == "" {
		return ""
	}
	query := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		if query.Has(secret) {
			query.Set(secret, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}

// Text returns the value in the form of a flag: lists with commas.
func (s Setting) Text() string {
	if list, ok := s.Value.([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(s.Value)
}
