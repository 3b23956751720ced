package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
)

// policyFlags are how an endpoint wants to be treated.
type policyFlags struct {
	Retry        string           `placeholder:"PRESET|JSON" help:"When a delivery that failed is tried again: a preset, as in seven-step, or JSON. Default: the preset default."`
	Timeout      *time.Duration   `placeholder:"DURATION" help:"Of one attempt, 1s to 30s. Default: 10s."`
	ClientErrors string           `enum:",retry,dead_letter" default:"" placeholder:"retry|dead_letter" help:"What a 4xx does: retry or dead_letter. Default: retry."`
	Concurrency  *int             `placeholder:"N" help:"Requests at once, 1 to 1000. Default: 10."`
	Expiry       *time.Duration   `placeholder:"DURATION" help:"How long a delivery may be pending, 1m to 2160h. Default: 168h."`
	Signature    []string         `placeholder:"SCHEME" help:"How requests are signed, all with commas between: standard, stripe, github, github-sha1, shopify, slack, svix, timestamped, plain. A header and prefix of your own: github:X-Acme-Signature:sha256=. Default: standard."`
	Payload      string           `enum:",envelope,raw" default:"" placeholder:"envelope|raw" help:"What is sent: envelope or raw. Default: envelope."`
	Adaptive     *bool            `name:"adaptive-timeout" negatable:"" help:"Wait for less than the timeout while the endpoint keeps timing out. Default: no."`
	Circuit      string           `placeholder:"PRESET|JSON" help:"When failures stop the sending for a while: default (5 in a row, or half of the last 20), strict (5 in a row), windowed (half of 10 minutes) or never, or JSON like {\"failures\":3,\"cooldown_ms\":10000}."`
	Rate         string           `placeholder:"N/DURATION[+BURST]" help:"How many requests may start in a span of time, as in 100/1s, evenly spread but for a burst, a tenth of them or as in 100/1s+20; or unlimited, the default."`
	Order        postrider.Order  `enum:",none,by_key" default:"" placeholder:"none|by_key" help:"by_key: events of one ordering key one at a time, in the order they were published. Default: none."`
	OnDead       postrider.OnDead `enum:",skip,pause" default:"" placeholder:"skip|pause" help:"With --order by_key, after a dead letter: skip it, or pause its key until a person replays or discards it. Default: skip."`
}

// policy is what the flags say, in the API's shapes; what they do not say is
// zero.
type policy struct {
	retry     *client.Retry
	circuit   *client.CircuitPolicy
	rate      *client.Rate
	signature *client.Signature
}

func (f *policyFlags) read() (p policy, err error) {
	if f.Concurrency != nil && *f.Concurrency == 0 {
		return p, misused("--concurrency: must be 1 to 1000")
	}
	if f.Timeout != nil && *f.Timeout < time.Millisecond {
		return p, misused("--timeout: must be 1s to 30s")
	}
	if f.Expiry != nil && *f.Expiry < time.Millisecond {
		return p, misused("--expiry: must be 1m to 2160h")
	}
	p.signature = parseSignature(f.Signature)
	if p.rate, err = parseRate(f.Rate); err != nil {
		return p, err
	}
	switch {
	case f.Retry == "":
	case !strings.HasPrefix(f.Retry, "{"):
		p.retry = &client.Retry{Preset: f.Retry}
	case !decode(f.Retry, &p.retry):
		return p, misused("--retry: must be a preset or JSON like %s", `{"delays_ms":[0,1000],"jitter":"full"}`)
	}
	switch {
	case f.Circuit == "":
	case !strings.HasPrefix(f.Circuit, "{"):
		p.circuit = &client.CircuitPolicy{Preset: f.Circuit}
	case !decode(f.Circuit, &p.circuit):
		return p, misused("--circuit: must be a preset or JSON like %s", `{"failures":3,"cooldown_ms":10000}`)
	}
	return p, nil
}

// parseSignature reads schemes like standard and github:X-Acme-Signature:sha256=.
func parseSignature(texts []string) *client.Signature {
	if len(texts) == 0 {
		return nil
	}
	var s client.Signature
	for _, text := range texts {
		name, rest, _ := strings.Cut(text, ":")
		header, prefix, _ := strings.Cut(rest, ":")
		s.Schemes = append(s.Schemes, client.Scheme{Scheme: postrider.Scheme(name), Header: header, Prefix: prefix})
	}
	return &s
}

// signatureText returns schemes as --signature takes them.
func signatureText(s *client.Signature) string {
	var texts []string
	for _, scheme := range optional(s).Schemes {
		text := string(scheme.Scheme)
		if scheme.Header != "" {
			text += ":" + scheme.Header
		}
		if scheme.Prefix != "" {
			text += ":" + scheme.Prefix
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// decode reads a flag's JSON and reports whether it is that and nothing else:
// a misspelt name must not be lost.
func decode(text string, to any) bool {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(to) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

// unlimited is the rate that is none.
const unlimited = "unlimited"

// parseRate reads a rate like 100/1s, 100/s or 100/1s+20.
func parseRate(text string) (*client.Rate, error) {
	switch text {
	case "":
		return nil, nil //nolint:nilnil // no rate is the server's default
	case unlimited:
		return &client.Rate{}, nil
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
		return nil, misused("--rate: must be like 100/1s, 100/1s+20, or unlimited")
	}
	return &client.Rate{Attempts: attempts, PerMS: per.Milliseconds(), Burst: burst}, nil
}

// rateText returns a rate as --rate takes it.
func rateText(r *client.Rate) string {
	if r == nil {
		return unlimited
	}
	text := fmt.Sprintf("%d/%s", r.Attempts, span(r.PerMS))
	if r.Burst > 0 {
		text += fmt.Sprintf("+%d", r.Burst)
	}
	return text
}

// retryText returns a policy as --retry takes it.
func retryText(r *client.Retry) string {
	if r == nil || r.Preset != "" {
		return optional(r).Preset
	}
	return compact(r)
}

// circuitText returns a policy as --circuit takes it.
func circuitText(c *client.CircuitPolicy) string {
	if c == nil || c.Preset != "" {
		return optional(c).Preset
	}
	return compact(c)
}

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// span returns milliseconds as flags take them.
func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

type endpointsCreateCmd struct {
	target `embed:""`

	EndpointURL     string   `arg:"" name:"endpoint-url" help:"Where to send, as in https://acme.example/hooks."`
	Account         string   `required:"" help:"Whose endpoint it is: an account's id or uid."`
	EventTypes      []string `default:"*" help:"What it wants: order.created, order.* or *, with commas between."`
	UID             string   `help:"Your own name for the endpoint."`
	Description     string   `help:"What it is, for people."`
	secretFlags     `embed:""`
	policyFlags     `embed:""`
	connectionFlags `embed:""`
}

// Run makes the endpoint.
func (c *endpointsCreateCmd) Run(ctx context.Context, t terminal) error {
	p, err := c.policyFlags.read()
	if err != nil {
		return err
	}
	own, err := c.connectionFlags.read(t, c.SecretFile)
	if err != nil {
		return err
	}
	brought, err := c.brought(t)
	if err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	made, err := api.CreateEndpoint(ctx, client.NewEndpoint{
		Account: c.Account, URL: c.EndpointURL, EventTypes: c.EventTypes, UID: c.UID, Description: c.Description,
		Retry: p.retry, TimeoutMS: optional(c.Timeout).Milliseconds(), ClientErrors: c.ClientErrors,
		Concurrency: optional(c.Concurrency), Signature: p.signature, Payload: c.Payload,
		AdaptiveTimeout: optional(c.Adaptive), Circuit: p.circuit, Rate: p.rate, Order: c.Order, OnDead: c.OnDead,
		ExpiryMS: optional(c.Expiry).Milliseconds(), Headers: own.headers, Auth: own.auth, TLS: own.tls,
		MaxRedirects: optional(c.MaxRedirects), Compression: c.Compression,
		Secret: brought, KeyType: c.KeyType,
	})
	if err != nil {
		return err
	}
	if err := printOne(t, c.JSON, made, endpointTable); err != nil || c.JSON {
		return err
	}
	for _, s := range made.Secrets {
		label := "secret:"
		if s.Secret == "" {
			label = "public key:"
		}
		fmt.Fprintln(t.out, label, shownSecret(s))
	}
	return nil
}

type endpointsUpdateCmd struct {
	one

	EndpointURL     string   `placeholder:"URL" help:"Where to send, as in https://acme.example/hooks."`
	EventTypes      []string `placeholder:"TYPE" help:"What it wants: order.created, order.* or *, with commas between."`
	UID             *string  `placeholder:"NAME" help:"Your own name for the endpoint."`
	Description     *string  `placeholder:"TEXT" help:"What it is, for people."`
	policyFlags     `embed:""`
	connectionFlags `embed:""`
}

// Help is what the help of the command says besides its flags.
func (endpointsUpdateCmd) Help() string {
	return "What no flag names stays as it is. Headers are replaced all together. " +
		"With --auth of the type that it has, and with the --tls flags, what the others of them would say stays, too; " +
		"--auth none and --no-tls end it, with all that it was."
}

// Run changes the endpoint.
func (c *endpointsUpdateCmd) Run(ctx context.Context, t terminal) error {
	p, err := c.policyFlags.read()
	if err != nil {
		return err
	}
	own, err := c.connectionFlags.read(t)
	if err != nil {
		return err
	}
	change := client.EndpointChange{
		URL: c.EndpointURL, EventTypes: c.EventTypes, UID: c.UID, Description: c.Description,
		Retry: p.retry, TimeoutMS: optional(c.Timeout).Milliseconds(), ClientErrors: c.ClientErrors,
		Concurrency: optional(c.Concurrency), Signature: p.signature, Payload: c.Payload,
		AdaptiveTimeout: c.Adaptive, Circuit: p.circuit, Rate: p.rate, Order: c.Order, OnDead: c.OnDead,
		ExpiryMS: optional(c.Expiry).Milliseconds(), Headers: own.headers, Auth: own.auth, TLS: own.tls,
		MaxRedirects: c.MaxRedirects, Compression: c.Compression,
	}
	if compact(change) == "{}" {
		return misused("nothing to change: name at least one flag, as in --timeout 5s")
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	if own.partial() {
		has, err := api.Endpoint(ctx, c.ID)
		if err != nil {
			return err
		}
		own.keep(has)
	}
	changed, err := api.ChangeEndpoint(ctx, c.ID, change)
	if err != nil {
		return err
	}
	return printDetails(t, c.JSON, changed, endpointDetails)
}
