package postrider_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*postrider.Policy)
		want   []string
	}{
		{"the default is fine", func(*postrider.Policy) {}, nil},
		{"least of everything", func(p *postrider.Policy) {
			p.Timeout, p.Concurrency, p.Expiry = time.Second, 1, time.Minute
		}, nil},
		{"most of everything", func(p *postrider.Policy) {
			p.Timeout, p.Concurrency, p.Expiry = 30*time.Second, 1000, 90*24*time.Hour
			p.ClientErrors, p.Payload = postrider.DeadLetterClientErrors, postrider.PayloadRaw
			p.Signatures = postrider.Schemes
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
		{"everything missing", func(p *postrider.Policy) { *p = postrider.Policy{} }, []string{
			"retry must have a preset, delays_ms, or base_ms, factor, cap_ms and max_attempts",
			"timeout_ms must be 1000 to 30000",
			"client_errors must be retry or dead_letter",
			"concurrency must be 1 to 1000",
			"expiry_ms must be one minute to 90 days",
			"signature.schemes must name at least one scheme",
			"payload must be envelope or raw",
		}},
	} {
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
