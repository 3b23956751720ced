package main

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// policyFlags holds the flags for the options of an endpoint, for create and update
// alike. Each field of [apitypes.Policy] has a flag of its name, which policy maps
// to the field; a test fails for a field without a flag.
//
// Pointers and empty texts are flags that are not given. They leave their option
// out of the request, so that create takes the default and update keeps the value.
type policyFlags struct {
	Retry           string         `placeholder:"PRESET|JSON" help:"When a delivery that failed is tried again: a preset, as in seven-step, or JSON. Default: the preset default."`
	Timeout         *time.Duration `placeholder:"DURATION" help:"Of one attempt, 1s to 30s. Default: 10s."`
	ClientErrors    string         `enum:",retry,dead_letter" default:"" placeholder:"retry|dead_letter" help:"What a 4xx does: retry or dead_letter. Default: retry."`
	Concurrency     *int           `placeholder:"N" help:"Requests at once, 1 to 1000; a node limits one endpoint to a quarter of its own --concurrency. Default: 10."`
	Expiry          *time.Duration `placeholder:"DURATION" help:"How long a delivery may be pending, 1m to 2160h. Default: 168h."`
	Signature       []string       `placeholder:"SCHEME" help:"How requests are signed, all with commas between: standard, stripe, github, github-sha1, shopify, slack, svix, timestamped, plain. A header and prefix of your own: github:X-Acme-Signature:sha256=. Default: standard."`
	Payload         string         `enum:",envelope,raw" default:"" placeholder:"envelope|raw" help:"What is sent: envelope or raw. Default: envelope."`
	AdaptiveTimeout *bool          `negatable:"" help:"Wait for less than the timeout while the endpoint keeps timing out. Default: no."`
	Circuit         string         `placeholder:"PRESET|JSON" help:"When failures stop the sending for a while: default (5 in a row, or half of the last 20), strict (5 in a row), windowed (half of 10 minutes) or never, or JSON like {\"failures\":3,\"cooldown_ms\":10000}."`
	Rate            string         `placeholder:"N/DURATION[+BURST]" help:"How many requests may start in a span of time, as in 100/1s, evenly spread but for a burst, a tenth of them or as in 100/1s+20; or unlimited, the default."`
	Order           string         `enum:",none,by_key" default:"" placeholder:"none|by_key" help:"by_key: events of one ordering key one at a time, in the order they were published. Default: none."`
	OnDead          string         `enum:",skip,pause" default:"" placeholder:"skip|pause" help:"With --order by_key, after a dead letter: skip it, or pause its key until a person replays or discards it. Default: skip."`

	// Secrets come from files or stdin, because every user of the machine can see a
	// command line.
	Header       []string `sep:"none" placeholder:"NAME=VALUE" help:"A header of the endpoint's own, again for each. They replace all that it had."`
	SecretHeader []string `sep:"none" placeholder:"NAME=FILE" help:"A header whose value is secret and in a file (- is stdin), again for each. NAME alone keeps the value that it has."`
	NoHeaders    bool     `help:"No headers of its own."`

	Auth           string   `enum:",none,basic,bearer,api_key,oauth2" default:"" placeholder:"TYPE" help:"How requests authenticate: none, basic, bearer, api_key or oauth2. Default: none."`
	AuthUser       string   `placeholder:"NAME" help:"User, with basic."`
	AuthHeader     string   `placeholder:"NAME" help:"Header that the key goes into, with api_key."`
	AuthTokenURL   string   `placeholder:"URL" help:"Where tokens come from, with oauth2."`
	AuthClientID   string   `placeholder:"ID" help:"Client, with oauth2."`
	AuthScopes     []string `placeholder:"SCOPE" help:"Scopes, with oauth2."`
	AuthAudience   string   `placeholder:"NAME" help:"Audience, with oauth2."`
	AuthSecretFile string   `placeholder:"FILE" help:"File with the password, token, key or client secret; - reads stdin. Default: the one that it has."`

	TLSCert        string `placeholder:"FILE" help:"PEM file of the certificate that is shown to the receiver."`
	TLSKey         string `placeholder:"FILE" help:"PEM file of its key; - reads stdin. Default: the one that it has."`
	TLSAuthorities string `placeholder:"FILE" help:"PEM file of the authorities that the receiver's certificate must come from."`
	NoTLS          bool   `name:"no-tls" help:"No certificate and authorities of its own."`

	MaxRedirects *int   `placeholder:"N" help:"Redirects that are followed, 0 to 3. Default: 0."`
	Compression  string `enum:",none,gzip" default:"" placeholder:"none|gzip" help:"How the body is compressed. Default: none."`
}

// policy returns the options that the flags name, and leaves the others out. It
// reads the files of secrets. Others are the other files that the command reads a
// secret from.
func (f *policyFlags) policy(t terminal, others ...string) (p apitypes.Policy, err error) {
	if err := f.checkDurations(); err != nil {
		return p, err
	}
	if err := f.checkStdin(others); err != nil {
		return p, err
	}
	p = apitypes.Policy{
		TimeoutMS:       milliseconds(f.Timeout),
		ClientErrors:    named[postrider.ClientErrors](f.ClientErrors),
		Concurrency:     apitypes.OfPointer(f.Concurrency),
		ExpiryMS:        milliseconds(f.Expiry),
		Signature:       signatureOf(f.Signature),
		Payload:         named[postrider.Payload](f.Payload),
		AdaptiveTimeout: apitypes.OfPointer(f.AdaptiveTimeout),
		Order:           named[postrider.Order](f.Order),
		OnDead:          named[postrider.OnDead](f.OnDead),
		MaxRedirects:    apitypes.OfPointer(f.MaxRedirects),
		Compression:     named[postrider.Compression](f.Compression),
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

// checkDurations refuses durations below a millisecond, which would become zero in
// the request. The server checks the other limits.
func (f *policyFlags) checkDurations() error {
	if f.Timeout != nil && *f.Timeout < time.Millisecond {
		return misused("--timeout: must be 1s to 30s")
	}
	if f.Expiry != nil && *f.Expiry < time.Millisecond {
		return misused("--expiry: must be 1m to 2160h")
	}
	return nil
}

// named returns the value of a flag with an enum of names. An empty flag leaves the
// option out.
func named[T ~string](flag string) apitypes.Optional[T] {
	if flag == "" {
		return apitypes.Optional[T]{}
	}
	return apitypes.Of(T(flag))
}

// milliseconds returns the value of a duration flag in the unit of the API. Nil
// leaves the option out.
func milliseconds(flag *time.Duration) apitypes.Optional[int64] {
	if flag == nil {
		return apitypes.Optional[int64]{}
	}
	return apitypes.Of(flag.Milliseconds())
}

// retry returns the retry policy: JSON if the text starts with a brace, else a
// preset, whose name the server checks.
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

// circuit returns the circuit policy: JSON if the text starts with a brace, else a
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

// signatureOf parses signature schemes: a name, and after colons an optional header
// and prefix, for example github:X-Acme-Signature:sha256=. The server checks the
// names.
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

// decode parses the JSON of a flag into to. It reports whether the text is exactly
// one value without unknown fields: a misspelt field must not be ignored.
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

// unlimited is the text of a null rate, in the flag and in the output.
const unlimited = "unlimited"

// parseRate parses a rate: attempts per duration with an optional burst, for
// example 100/1s, 100/s or 100/1s+20. The empty text leaves the option out.
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
