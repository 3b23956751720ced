package config

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/traces"
)

// TraceConfig says where spans are sent, and for which share of the events. Without a URL nothing
// is recorded.
type TraceConfig struct {
	OTLPURL     string  `name:"otlp-url" setting:"" group:"Traces" placeholder:"URL" help:"OpenTelemetry collector that gets traces, by OTLP over HTTP with protobuf, for example http://collector:4318; /v1/traces is added. Default: none, and nothing is recorded."`
	OTLPHeaders string  `name:"otlp-headers" setting:"" group:"Traces" placeholder:"NAME=VALUE,…" help:"Headers of the requests to the collector, such as a token. Set them in the environment or the file of --config; as a flag they are refused. Default: none."`
	TraceSample float64 `name:"trace-sample" setting:"" group:"Traces" default:"0.01" placeholder:"SHARE" help:"Share of the events whose traces are recorded, 0 to 1. The server decides for each event by its id; producers cannot have theirs recorded."`
}

func (c TraceConfig) check(f *faultList) {
	f.refuse(c.OTLPURL != "" && !traces.CheckURL(c.OTLPURL), "otlp-url",
		"must be a URL like http://collector:4318, without a user and a query")
	f.refuse(c.OTLPHeaders != "" && f.named("otlp-headers") == "--otlp-headers", "otlp-headers",
		"must not be a flag, which every user of this machine can read; use POSTRIDER_OTLP_HEADERS or the file")
	_, err := c.headers()
	f.refuse(err != nil, "otlp-headers", reasonOf(err))
	// This form of the condition also refuses NaN.
	f.refuse(!(c.TraceSample >= 0 && c.TraceSample <= 1), "trace-sample", "must be 0 to 1")
}

// headers returns the headers of requests to the collector. The error does not contain the headers.
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

// Traces returns the options of the tracer. version is the version of this program.
func (c TraceConfig) Traces(version string) traces.Options {
	headers, _ := c.headers() // Validate has checked them
	return traces.Options{URL: c.OTLPURL, Share: c.TraceSample, Headers: headers, Version: version, Node: cmp.Or(Hostname(), "unknown")}
}

// Hostname returns the name of this machine, to show to people. Empty: the machine has no name. It
// replaces invalid UTF-8, which the kernel allows in a name and PostgreSQL does not.
func Hostname() string {
	name, _ := os.Hostname()
	return strings.ToValidUTF8(name, "?")
}
