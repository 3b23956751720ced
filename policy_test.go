package postrider_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

var policyRows = []struct {
	name   string
	change func(*postrider.Policy)
	want   []string
}{
	{"the default is fine", func(*postrider.Policy) {}, nil},
	{"least of everything", func(p *postrider.Policy) {
		p.Timeout, p.Concurrency, p.Expiry = time.Second, 1, time.Minute
		p.Rate = postrider.Rate{Attempts: 1, Per: time.Second}
	}, nil},
	{"most of everything", func(p *postrider.Policy) {
		p.Timeout, p.Concurrency, p.Expiry = 30*time.Second, 1000, 90*24*time.Hour
		p.ClientErrors, p.Payload = postrider.DeadLetterClientErrors, postrider.PayloadRaw
		p.Signatures = nil
		for _, scheme := range postrider.Schemes {
			p.Signatures = append(p.Signatures, postrider.Signature{Scheme: scheme})
		}
		p.Rate, p.AdaptiveTimeout = postrider.Rate{Attempts: 100_000, Per: time.Hour}, true
		p.Order, p.OnDead = postrider.OrderByKey, postrider.PauseOnDead
		p.MaxRedirects, p.Compression = 3, postrider.CompressionGzip
		p.Circuit = postrider.CircuitPolicy{Failures: 1000, Percent: 100, Attempts: 60, Cooldown: 24 * hour, MaxCooldown: 24 * hour}
	}, nil},
	{
		"a timeout too short", func(p *postrider.Policy) { p.Timeout = time.Second - 1 },
		[]string{"timeout_ms must be 1000 to 30000"},
	},
	{
		"a timeout too long", func(p *postrider.Policy) { p.Timeout = 30*time.Second + 1 },
		[]string{"timeout_ms must be 1000 to 30000"},
	},
	{
		"too many at once", func(p *postrider.Policy) { p.Concurrency = 1001 },
		[]string{"concurrency must be 1 to 1000"},
	},
	{
		"an expiry too long", func(p *postrider.Policy) { p.Expiry = 90*24*time.Hour + 1 },
		[]string{"expiry_ms must be 60000 to 7776000000"},
	},
	{
		"no scheme", func(p *postrider.Policy) { p.Signatures = nil },
		[]string{"signature.schemes must name 1 to 16 schemes"},
	},
	{"more of everything than is looked at", func(p *postrider.Policy) {
		p.Signatures = make([]postrider.Signature, 1_000_000)
		p.Headers = make([]postrider.Header, 1_000_000)
	}, []string{"signature.schemes must name 1 to 16 schemes", "headers must be at most 32 of 8 KiB together"}},
	{"a scheme nobody knows, twice", func(p *postrider.Policy) {
		p.Signatures = []postrider.Signature{{Scheme: "standard"}, {Scheme: "rot13"}, {Scheme: "rot13"}}
	}, []string{
		"signature.schemes[1] must be standard, stripe, github, github-sha1, shopify, slack, svix, timestamped or plain",
		"signature.schemes[2] must be standard, stripe, github, github-sha1, shopify, slack, svix, timestamped or plain",
		"signature.schemes[2] must not repeat a scheme",
	}},
	{
		"a rate without a span", func(p *postrider.Policy) { p.Rate.Attempts = 1 },
		[]string{"rate.per_ms must be 1000 to 3600000"},
	},
	{
		"a span without a rate", func(p *postrider.Policy) { p.Rate.Per = hour },
		[]string{"rate.attempts must be 1 to 100000"},
	},
	{"a rate too high", func(p *postrider.Policy) {
		p.Rate = postrider.Rate{Attempts: 100_001, Per: hour + 1}
	}, []string{"rate.attempts must be 1 to 100000", "rate.per_ms must be 1000 to 3600000"}},
	{
		"an order nobody knows", func(p *postrider.Policy) { p.Order = "by_time" },
		[]string{"order must be none or by_key"},
	},
	{
		"a pause without an order", func(p *postrider.Policy) { p.OnDead = postrider.PauseOnDead },
		[]string{"on_dead must be skip unless order is by_key"},
	},
	{
		"a way to go on that nobody knows", func(p *postrider.Policy) { p.OnDead = "stop" },
		[]string{"on_dead must be skip or pause"},
	},
	{
		"more redirects than are followed", func(p *postrider.Policy) { p.MaxRedirects = 4 },
		[]string{"max_redirects must be 0 to 3"},
	},
	{
		"fewer redirects than none", func(p *postrider.Policy) { p.MaxRedirects = -1 },
		[]string{"max_redirects must be 0 to 3"},
	},
	{
		"a compression nobody knows", func(p *postrider.Policy) { p.Compression = "br" },
		[]string{"compression must be none or gzip"},
	},
	{
		"a circuit out of bounds", func(p *postrider.Policy) { p.Circuit.Failures = 1001 },
		[]string{"circuit.failures must be 0 to 1000"},
	},
	{"everything missing", func(p *postrider.Policy) { *p = postrider.Policy{} }, []string{
		"retry must have a preset, delays_ms, or base_ms, factor, cap_ms and max_attempts",
		"timeout_ms must be 1000 to 30000",
		"client_errors must be retry or dead_letter",
		"concurrency must be 1 to 1000",
		"expiry_ms must be 60000 to 7776000000",
		"payload must be envelope or raw",
		"order must be none or by_key",
		"on_dead must be skip or pause",
		"compression must be none or gzip",
		"circuit.cooldown_ms must be 1000 to 86400000",
		"signature.schemes must name 1 to 16 schemes",
		"auth.type must be none, basic, bearer, api_key or oauth2",
	}},
}

// Policies in which two fields set the same header, in any case of letters.
var sharedNameRows = []struct {
	name   string
	change func(*postrider.Policy)
	want   []string
}{
	{"each has its own", func(p *postrider.Policy) {
		p.Headers = []postrider.Header{{Name: "X-Tenant", Value: "acme"}}
		p.Signatures = []postrider.Signature{{Scheme: postrider.SchemePlain, Header: "X-Signature"}}
		p.Auth = postrider.Auth{Kind: postrider.AuthAPIKey, Header: "X-Key"}
	}, nil},
	{"a header is where a signature goes", func(p *postrider.Policy) {
		p.Headers = []postrider.Header{{Name: "x-signature", Value: "acme"}}
		p.Signatures = append(p.Signatures, postrider.Signature{Scheme: postrider.SchemePlain, Header: "X-Signature"})
	}, []string{"signature.schemes[1].header must not be a header that something else sets"}},
	{"the key goes where a signature does", func(p *postrider.Policy) {
		p.Signatures = []postrider.Signature{{Scheme: postrider.SchemePlain, Header: "X-Signature"}}
		p.Auth = postrider.Auth{Kind: postrider.AuthAPIKey, Header: "x-signature"}
	}, []string{"signature.schemes[0].header must not be a header that something else sets"}},
	{"the key goes where a header does", func(p *postrider.Policy) {
		p.Headers = []postrider.Header{{Name: "X-Key", Secret: true}}
		p.Auth = postrider.Auth{Kind: postrider.AuthAPIKey, Header: "x-key"}
	}, []string{"auth.header must not be one of headers"}},
	{"the object before in no envelope", func(p *postrider.Policy) {
		p.IncludePrevious, p.Payload = true, postrider.PayloadRaw
	}, []string{"include_previous must be false unless payload is envelope"}},
	{"a header is the traceparent, which is not sent", func(p *postrider.Policy) {
		p.Headers = []postrider.Header{{Name: "Traceparent", Value: "acme"}}
	}, nil},
	{"a header is the traceparent", func(p *postrider.Policy) {
		p.SendTraceParent, p.Headers = true, []postrider.Header{{Name: "Traceparent", Value: "acme"}}
	}, []string{"send_traceparent must be false where another option sets the header traceparent"}},
	{"a header is the tracestate", func(p *postrider.Policy) {
		p.SendTraceParent, p.Headers = true, []postrider.Header{{Name: "Tracestate", Value: "a=b"}}
	}, []string{"send_traceparent must be false where another option sets the header tracestate"}},
	{"the key is the traceparent", func(p *postrider.Policy) {
		p.SendTraceParent, p.Auth = true, postrider.Auth{Kind: postrider.AuthAPIKey, Header: "TraceParent"}
	}, []string{"send_traceparent must be false where another option sets the header traceparent"}},
	{"a signature is the traceparent", func(p *postrider.Policy) {
		p.SendTraceParent, p.Signatures = true, []postrider.Signature{{Scheme: postrider.SchemePlain, Header: "traceparent"}}
	}, []string{"send_traceparent must be false where another option sets the header traceparent"}},
	{"a fault of each part", func(p *postrider.Policy) {
		p.Headers = []postrider.Header{{Name: "Host"}}
		p.Auth = postrider.Auth{Kind: postrider.AuthBearer, User: "us"}
		p.Signatures = []postrider.Signature{{Scheme: postrider.SchemePlain, Prefix: "v1="}}
	}, []string{
		"signature.schemes[0].prefix needs a header",
		"headers[0].name must not be a header that is set for every request",
		"auth.username must be absent with the type bearer",
	}},
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range append(slices.Clone(policyRows), sharedNameRows...) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			policy := postrider.DefaultPolicy()
			tt.change(&policy)
			if diff := cmp.Diff(tt.want, faults(policy.Check())); diff != "" {
				t.Errorf("Check differs (-want +got):\n%s", diff)
			}
		})
	}
}
