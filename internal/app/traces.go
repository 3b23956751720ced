package app

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/traces"
)

// TraceConfig says where spans are sent, and of which share of the events. Without a URL
// nothing is recorded.
type TraceConfig struct {
	OTLPURL     string  `name:"otlp-url" setting:"" group:"Traces" placeholder:"URL" help:"OpenTelemetry collector that gets traces, by OTLP over HTTP with protobuf, for example http://collector:4318; /v1/traces is added. Default: none, and nothing is recorded."`
	OTLPHeaders string  `name:"otlp-headers" setting:"" group:"Traces" placeholder:"NAME=VALUE,…" help:"Headers of the requests to the collector, such as a token. Set them in the environment or the file of --config; as a flag they are refused. Default: none."`
	TraceSample float64 `name:"trace-sample" setting:"" group:"Traces" default:"0.01" placeholder:"SHARE" help:"Share of the events whose traces are recorded, 0 to 1. The server decides for each event by its id; producers cannot have theirs recorded."`
}

// validate returns every fault of the settings, joined.
func (c TraceConfig) validate(named func(setting string) string) error {
	var faults []error
	refuse := func(wrong bool, setting, reason string) {
		if wrong {
			faults = append(faults, &Fault{Key: named(setting), Reason: reason})
		}
	}
	refuse(c.OTLPURL != "" && !traces.CheckURL(c.OTLPURL), "otlp-url", "must be a URL like http://collector:4318, without a user and a query")
	refuse(c.OTLPHeaders != "" && named("otlp-headers") == "--otlp-headers", "otlp-headers",
		"must not be a flag, which every user of this machine can read; use POSTRIDER_OTLP_HEADERS or the file")
	_, err := c.headers()
	refuse(err != nil, "otlp-headers", reasonOf(err))
	refuse(!(c.TraceSample >= 0 && c.TraceSample <= 1), "trace-sample", "must be 0 to 1") // NaN too
	return errors.Join(faults...)
}

// headers returns the headers of requests to the collector. The error does not repeat them.
func (c TraceConfig) headers() (map[string]string, error) {
	headers := map[string]string{}
	if c.OTLPHeaders == "" {
		return headers, nil
	}
	for part := range strings.SplitSeq(c.OTLPHeaders, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		strange := func(r rune) bool {
			return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z')
		}
		if !ok || name == "" || strings.ContainsFunc(name, strange) || postrider.CheckHeaderValue("", value) != nil {
			return nil, errors.New("must be NAME=VALUE with commas between, of printable ASCII")
		}
		headers[name] = value
	}
	return headers, nil
}

// newTracer returns what records spans. nil: nothing does.
func (a *App) newTracer() *traces.Tracer {
	if a.config.OTLPURL == "" {
		return nil
	}
	return traces.New(a.config.traces(traces.Options{
		Now: func() time.Time { return a.store.Clock().Wall() }, Target: a.target, Log: logOf(a.log, "traces"),
	}))
}

// target returns the URL of an endpoint; empty: it has none, or is deleted.
func (a *App) target(id postrider.EndpointID) string {
	known, ok := a.table.Lookup(id)
	if !ok {
		return ""
	}
	return known.Endpoint.URL
}

// traces adds the settings to the options.
func (c Config) traces(o traces.Options) traces.Options {
	o.URL, o.Share, o.Version = c.OTLPURL, c.TraceSample, Version()
	o.Headers, _ = c.headers() // Validate has checked them
	o.Node = cmp.Or(hostname(), "unknown")
	return o
}

// hostname returns the name of this machine, for people; empty: it has none. The kernel takes
// any bytes for a name, PostgreSQL does not.
func hostname() string {
	name, _ := os.Hostname()
	return strings.ToValidUTF8(name, "?")
}

// traced returns the hooks of the tracer, and which events are recorded. Without a tracer
// there are none.
func (a *App) traced() (observe.Hooks, func(postrider.EventID) bool) {
	if a.tracer == nil {
		return observe.Hooks{}, nil
	}
	return a.tracer.Hooks(), a.tracer.Sampled
}

// runTracer sends what the tracer records until ctx ends.
func (a *App) runTracer(ctx context.Context) error {
	if a.tracer == nil {
		<-ctx.Done()
		return nil
	}
	return a.tracer.Run(ctx)
}

// spans returns how many spans were sent and dropped.
func (a *App) spans() (sent, dropped int64) {
	if a.tracer == nil {
		return 0, 0
	}
	return a.tracer.Counts()
}
