package postrider_test

import (
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
		p.Signatures = postrider.Schemes
		p.Rate, p.AdaptiveTimeout = postrider.Rate{Attempts: 100_000, Per: time.Hour}, true
		p.Order, p.OnDead = postrider.OrderByKey, postrider.PauseOnDead
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
		[]string{"expiry_ms must be one minute to 90 days"},
	},
	{
		"no scheme", func(p *postrider.Policy) { p.Signatures = nil },
		[]string{"signature.schemes must name at least one scheme"},
	},
	{"a scheme nobody knows, twice", func(p *postrider.Policy) {
		p.Signatures = []postrider.Scheme{"standard", "rot13", "rot13"}
	}, []string{
		"signature.schemes[1] must be standard, timestamped or plain",
		"signature.schemes[2] must be standard, timestamped or plain",
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
		"a circuit out of bounds", func(p *postrider.Policy) { p.Circuit.Failures = 1001 },
		[]string{"circuit.failures must be 0 to 1000"},
	},
	{"everything missing", func(p *postrider.Policy) { *p = postrider.Policy{} }, []string{
		"retry must have a preset, delays_ms, or base_ms, factor, cap_ms and max_attempts",
		"timeout_ms must be 1000 to 30000",
		"client_errors must be retry or dead_letter",
		"concurrency must be 1 to 1000",
		"expiry_ms must be one minute to 90 days",
		"signature.schemes must name at least one scheme",
		"payload must be envelope or raw",
		"order must be none or by_key",
		"on_dead must be skip or pause",
		"circuit.cooldown_ms must be 1000 to 86400000",
	}},
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range policyRows {
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

func TestSubscribes(t *testing.T) {
	t.Parallel()
	e := postrider.Endpoint{EventTypes: []postrider.Pattern{"order.*", "invoice.paid"}}
	for eventType, want := range map[string]bool{"order.created": true, "invoice.paid": true, "invoice.sent": false} {
		if got := e.Subscribes(eventType); got != want {
			t.Errorf("Subscribes(%s) = %t, want %t", eventType, got, want)
		}
	}
	if (postrider.Endpoint{}).Subscribes("order.created") {
		t.Error("an endpoint without patterns subscribes to order.created")
	}
}

func TestASecretSignsUntilItsExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		expires time.Time
		want    bool
	}{
		{"without an expiry, always", time.Time{}, true},
		{"before it", now.Add(1), true},
		{"not at it", now, false},
		{"not after it", now.Add(-1), false},
	} {
		if got := (postrider.Secret{ExpiresAt: tt.expires}).ActiveAt(now); got != tt.want {
			t.Errorf("%s: ActiveAt = %t, want %t", tt.name, got, tt.want)
		}
	}
}
