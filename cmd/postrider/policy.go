package main

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/shape"
)

// policyFlags has the flags for the options of an endpoint, for create and update. Each field of
// [apitypes.Policy] has a flag of its name, which policy maps to the field; a test fails for a
// field without a flag.
//
// The API tells three states of an option apart, and so must the flags:
//
//   - Absent: the flag is not given. Its field is then nil or empty, and the option is
//     not in the request. create applies the default, update keeps the value.
//   - Null: the value that removes an option, such as --rate unlimited, --auth none,
//     --no-headers or --no-tls.
//   - A value: every other text of the flag.
//
// Therefore kong has no default for any of these flags: update would send the default every time.
// The help names the default that the server applies.
type policyFlags struct {
	Filter string `placeholder:"JSON|@FILE|none" help:"Which events of the event types create deliveries: a pattern, for example {\"data\":{\"total\":[{\"numeric\":[\">=\",100]}]}}; @FILE reads a file; none removes the filter. docs/operate/filters.md has the operators. Default: all."`

	Changed   []string `sep:"none" placeholder:"PATH|none" help:"Only events in which this place in the data changed create deliveries, for example $.status. Can be repeated. none removes all. Default: all events."`
	Condition string   `placeholder:"CEL|@FILE|none" help:"Which of these events create deliveries, for what a filter cannot say: an expression in CEL, for example data.items.exists(i, i.price > 100.0); @FILE reads a file; none removes the condition. docs/operate/filters.md has the language. Default: all."`

	Channels []string `sep:"none" placeholder:"NAME|none" help:"Only events that have this channel create deliveries. Can be repeated: one of the channels must fit. none removes all. Default: all events."`

	// When and how often attempts are made, and how they are signed. --retry and --circuit accept a
	// preset or the JSON of the API, because they have too many numbers for single flags.
	Retry           string         `placeholder:"PRESET|JSON" help:"When a failed delivery is attempted again: default (10 attempts in 76 hours), seven-step (7 in 35 hours), full-jitter (7 in up to 35 hours), eight-step (8 in 14 hours), exponential (17 in 7 hours), hourly-cap (8 in up to an hour), 48h (19 in that time), 72h (16), or JSON with the delay before each attempt, the first included: {\"delays_ms\":[0,30000]} is two attempts. endpoints get prints the delays. Default: the preset default."`
	Timeout         *time.Duration `placeholder:"DURATION" help:"Time limit of one attempt, from the connection to the end of the response, 1s to 30s. Default: 10s."`
	ClientErrors    string         `enum:",retry,dead_letter" default:"" placeholder:"retry|dead_letter" help:"What a 4xx response does: retry the delivery, or make it a dead letter at once (dead_letter). Default: retry."`
	Concurrency     *int           `placeholder:"N" help:"Requests at the same time, 1 to 1000. A server gives one endpoint at most a quarter of its own --concurrency. Default: 10."`
	Expiry          *time.Duration `placeholder:"DURATION" help:"How long a delivery may be pending before it becomes a dead letter, 1m to 2160h. Default: 168h."`
	Signature       []string       `placeholder:"SCHEME" help:"How requests are signed; several schemes are separated by commas: standard, stripe, github, github-sha1, shopify, slack, svix, timestamped, plain. A header and a prefix follow after colons, for example github:X-Acme-Signature:sha256=. Default: standard."`
	Payload         string         `enum:",envelope,raw" default:"" placeholder:"envelope|raw" help:"The body of requests: envelope has the type, the time and the data; raw is the data alone. Default: envelope."`
	IncludePrevious *bool          `negatable:"" help:"Send the object before a change, if an event has it, as previous in the envelope. Needs the payload envelope. Default: no."`
	AdaptiveTimeout *bool          `negatable:"" help:"Shorten the timeout while attempts keep timing out. Default: no."`
	Circuit         string         `placeholder:"PRESET|JSON" help:"When failures stop requests for a while: default (5 in a row, or half of the last 20), strict (5 in a row), windowed (half of the last 10 minutes), never, or JSON, for example {\"failures\":3,\"cooldown_ms\":10000}. Default: the preset default."`
	Rate            string         `placeholder:"N/DURATION[+BURST]" help:"Requests that may start in a period, for example 100/1s. They are spread evenly except for a burst, by default a tenth of them; 100/1s+20 allows a burst of 20. Default: unlimited."`
	Order           string         `enum:",none,by_key" default:"" placeholder:"none|by_key" help:"In which order events are sent: none, or by_key for one event of an ordering key at a time, as they were published. Default: none."`
	OnDead          string         `enum:",skip,pause" default:"" placeholder:"skip|pause" help:"What a dead letter does to its ordering key, with --order by_key: skip continues with the next event, pause waits until a person replays or discards it. Default: skip."`

	// The connection: headers, authentication, TLS, redirects. Secrets come from files or stdin,
	// because every user of the machine can read command lines. The parts of the authentication and
	// of TLS are single flags here and one object in the API; see keepParts.
	Header       []string `sep:"none" placeholder:"NAME=VALUE" help:"A header that requests carry. Can be repeated. The headers replace all headers of the endpoint."`
	SecretHeader []string `sep:"none" placeholder:"NAME=FILE" help:"A header with a secret value, which is read from a file (- is stdin). Can be repeated. NAME without a file keeps the stored value."`
	NoHeaders    bool     `help:"Remove all headers of the endpoint."`

	Auth           string   `enum:",none,basic,bearer,api_key,oauth2" default:"" placeholder:"TYPE" help:"How requests authenticate: none, basic, bearer, api_key or oauth2. Default: none."`
	AuthUser       string   `placeholder:"NAME" help:"User name, with basic."`
	AuthHeader     string   `placeholder:"NAME" help:"Header that carries the key, with api_key."`
	AuthTokenURL   string   `placeholder:"URL" help:"URL that issues the tokens, with oauth2."`
	AuthClientID   string   `placeholder:"ID" help:"Client id, with oauth2."`
	AuthScopes     []string `placeholder:"SCOPE" help:"Scopes of the token, separated by commas, with oauth2."`
	AuthAudience   string   `placeholder:"NAME" help:"Audience of the token, with oauth2."`
	AuthSecretFile string   `placeholder:"FILE" help:"File with the password, token, key or client secret; - reads stdin. Default: the stored one."`

	TLSCert        string `placeholder:"FILE" help:"PEM file with the client certificate for the receiver."`
	TLSKey         string `placeholder:"FILE" help:"PEM file with the private key of the certificate; - reads stdin. Default: the stored key."`
	TLSAuthorities string `placeholder:"FILE" help:"PEM file with the authorities that must have issued the receiver's certificate. Default: those of the system."`
	NoTLS          bool   `name:"no-tls" help:"Remove the endpoint's certificate, key and authorities."`

	MaxRedirects *int   `placeholder:"N" help:"Number of redirects to follow, 0 to 3. Default: 0."`
	Compression  string `enum:",none,gzip" default:"" placeholder:"none|gzip" help:"Compression of the request body: none or gzip. Default: none."`

	SendTraceParent *bool `name:"send-traceparent" negatable:"" help:"Send the header traceparent: the event's trace, and a span id of its own for each attempt. Default: no."`
}

// policy returns the options that the flags name, and leaves out the others. No other function maps
// these flags to the API. policy reads the files of secrets. others are further files from which
// the command reads a secret.
//
// policy refuses only mistakes of the command line itself: a malformed text, or two flags that
// contradict each other. Only the server checks limits, so that they are written once;
// [flagNames.faults] translates the server's faults into flags.
func (f *policyFlags) policy(t terminal, others ...string) (p apitypes.Policy, err error) {
	if err := f.checkStdin(others); err != nil {
		return p, err
	}
	if err := f.plain(&p); err != nil {
		return p, err
	}
	p.Signature = signatureOf(f.Signature)
	// The flags below have a form of their own. The first fault ends the command. The server, in
	// contrast, reports all faults of a request together.
	if p.Filter, err = f.filter(t); err != nil {
		return p, err
	}
	if p.Condition, err = f.condition(t); err != nil {
		return p, err
	}
	if p.Retry, err = f.retry(); err != nil {
		return p, err
	}
	if p.Circuit, err = f.circuit(); err != nil {
		return p, err
	}
	if p.Rate, err = parseRate(f.Rate); err != nil {
		return p, err
	}
	if p.Headers, err = f.headers(t); err != nil {
		return p, err
	}
	if p.Auth, err = f.auth(t); err != nil {
		return p, err
	}
	p.TLS, err = f.tls(t)
	return p, err
}

// plain sets the options whose flags have the same form as the API: a number, a text, a duration,
// yes or no, a list of texts. It leaves out an option whose flag is not given. The list "none" is null.
func (f *policyFlags) plain(p *apitypes.Policy) error {
	flags := reflect.ValueOf(f).Elem()
	for option := range shape.Options(p, flags.Type()) {
		if option.Like == "" || flags.FieldByName(option.Like).IsZero() {
			continue
		}
		if err := shape.Set(option.Value(), flags.FieldByName(option.Like)); err != nil {
			return misused("--%s: %v", strings.TrimSuffix(option.Name, "_ms"), err)
		}
		if list, ok := reflect.TypeAssert[[]string](option.Value()); ok && slices.Equal(list, []string{"none"}) {
			option.SetNull()
		}
	}
	return nil
}

// filter returns the filter. The server checks the pattern.
func (f *policyFlags) filter(t terminal) (p apitypes.Optional[json.RawMessage], err error) {
	switch f.Filter {
	case "":
		return p, nil
	case "none":
		return apitypes.Null[json.RawMessage](), nil
	}
	text, err := readData(t, "--filter", f.Filter)
	return apitypes.Of(text), err
}

// condition returns the condition. The server checks the expression.
func (f *policyFlags) condition(t terminal) (c apitypes.Optional[string], err error) {
	switch file, isFile := strings.CutPrefix(f.Condition, "@"); {
	case f.Condition == "":
		return c, nil
	case f.Condition == "none":
		return apitypes.Null[string](), nil
	case isFile:
		text, err := readSource(t, file)
		return apitypes.Of(strings.TrimSpace(string(text))), err
	}
	return apitypes.Of(f.Condition), nil
}

// retry returns the retry policy. A text that starts with a brace is JSON, any other text is a
// preset. The server checks the name of the preset.
func (f *policyFlags) retry() (r apitypes.Optional[apitypes.Retry], err error) {
	switch {
	case f.Retry == "":
	case !strings.HasPrefix(f.Retry, "{"):
		r = apitypes.Of(apitypes.Retry{Preset: f.Retry})
	case !decode(f.Retry, &r):
		err = misused("--retry: must be a preset or JSON like %s", `{"delays_ms":[0,1000],"jitter":"full"}`)
	}
	return r, err
}

// circuit returns the circuit policy. A text that starts with a brace is JSON, any other text is a
// preset.
func (f *policyFlags) circuit() (c apitypes.Optional[apitypes.CircuitPolicy], err error) {
	switch {
	case f.Circuit == "":
	case !strings.HasPrefix(f.Circuit, "{"):
		c = apitypes.Of(apitypes.CircuitPolicy{Preset: f.Circuit})
	case !decode(f.Circuit, &c):
		err = misused("--circuit: must be a preset or JSON like %s", `{"failures":3,"cooldown_ms":10000}`)
	}
	return c, err
}

// signatureOf parses signature schemes: a name, and after colons an optional header and prefix, for
// example github:X-Acme-Signature:sha256=. A prefix may contain further colons; a header name never
// does. The server checks the names.
func signatureOf(texts []string) apitypes.Optional[apitypes.Signature] {
	if len(texts) == 0 {
		return apitypes.Optional[apitypes.Signature]{}
	}
	var s apitypes.Signature
	for _, text := range texts {
		name, rest, _ := strings.Cut(text, ":")
		header, prefix, _ := strings.Cut(rest, ":")
		s.Schemes = append(s.Schemes, apitypes.Scheme{Scheme: postrider.Scheme(name), Header: header, Prefix: prefix})
	}
	return apitypes.Of(s)
}

// decode parses the JSON of a flag into to. It returns false if the text is not exactly one value,
// or if it has an unknown field, which may be misspelt. Text after the value is a mistake too, for
// example a shell quote in the wrong place.
func decode[T any](text string, to *apitypes.Optional[T]) bool {
	var value T
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&value) != nil {
		return false
	}
	*to = apitypes.Of(value)
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

// unlimited is the text of a null rate, in the flag and in the output. The flag needs a word for
// null, because --rate without a value would be a missing argument.
const unlimited = "unlimited"

// parseRate parses a rate: attempts per duration with an optional burst, for example 100/1s, 100/s
// or 100/1s+20. An empty text leaves out the option. Without a burst, the server chooses one.
func parseRate(text string) (apitypes.Optional[apitypes.Rate], error) {
	switch text {
	case "":
		return apitypes.Optional[apitypes.Rate]{}, nil
	case unlimited:
		return apitypes.Null[apitypes.Rate](), nil
	}
	text, more, bursts := strings.Cut(text, "+")
	count, span, _ := strings.Cut(text, "/")
	if span != "" && (span[0] < '0' || span[0] > '9') {
		span = "1" + span
	}
	attempts, err := strconv.Atoi(count)
	per, spanErr := time.ParseDuration(span)
	burst := 0
	var burstErr error
	if bursts {
		burst, burstErr = strconv.Atoi(more)
	}
	if errors.Join(err, spanErr, burstErr) != nil || attempts < 1 || per < time.Millisecond || bursts && burst < 1 {
		return apitypes.Optional[apitypes.Rate]{}, misused("--rate: must be like 100/1s, 100/1s+20, or unlimited")
	}
	return apitypes.Of(apitypes.Rate{Attempts: attempts, PerMS: per.Milliseconds(), Burst: burst}), nil
}
