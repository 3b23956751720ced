package webhook_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := testkit.NewCA(t), testkit.NewCA(t)
	later := time.Now().Add(time.Hour)
	good := ca.Certificate(t, later, "127.0.0.1")
	with := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	for _, tt := range []struct {
		name    string
		config  *tls.Config
		outcome postrider.Outcome
		err     string
	}{
		{"a good certificate", with(good), postrider.OutcomeAccepted, ""},
		{"TLS 1.2", &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12}, postrider.OutcomeAccepted, ""},
		{"TLS 1.1", &tls.Config{
			Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
		}, postrider.OutcomeUnreachable, "tls_refused"},
		{"an expired certificate", with(ca.Certificate(t, time.Now().Add(-time.Hour), "127.0.0.1")), postrider.OutcomeUnreachable, "tls_expired"},
		{"another host's certificate", with(ca.Certificate(t, later, "receiver.example")), postrider.OutcomeUnreachable, "tls_wrong_name"},
		{"an unknown authority", with(stranger.Certificate(t, later, "127.0.0.1")), postrider.OutcomeUnreachable, "tls_unknown_authority"},
		{"another protocol", &tls.Config{Certificates: []tls.Certificate{good}, NextProtos: []string{"h2"}}, postrider.OutcomeAccepted, ""},
		{"a client certificate wanted", &tls.Config{
			Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12,
		}, postrider.OutcomeUnreachable, "tls_refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewTLSReceiver(t, tt.config, testkit.Status(204))
			opts := laptop()
			opts.RootCAs = ca.Pool
			e := open(t, opts)
			for range 2 { // the second attempt resumes the session
				a := send(t, e, routed(r.URL), testkit.Patience)
				if a.Outcome != tt.outcome || a.Error != tt.err {
					t.Errorf("outcome %s, error %q; want %s, %q", a.Outcome, a.Error, tt.outcome, tt.err)
				}
				e.Close()
			}
		})
	}
}

func TestTLSHandshakeThatIsNone(t *testing.T) {
	t.Parallel()
	plain := testkit.NewReceiver(t, testkit.Status(200))
	a := send(t, open(t, laptop()), routed(strings.Replace(plain.URL, "http:", "https:", 1)), testkit.Patience)
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "tls_handshake_failed" || len(plain.Requests()) != 0 {
		t.Errorf("plain HTTP: outcome %s, error %q, %d requests", a.Outcome, a.Error, len(plain.Requests()))
	}
	for _, h := range testkit.Hostiles() {
		if h.Name != "accept and never read" {
			continue
		}
		url := strings.Replace(testkit.NewHostile(t, h), "http:", "https:", 1)
		a := send(t, open(t, laptop()), routed(url), slow)
		if a.Outcome != postrider.OutcomeTimedOut || a.Duration > slow+grace {
			t.Errorf("stalled handshake: outcome %s after %v", a.Outcome, a.Duration)
		}
	}
}

func TestHTTPIsRefusedByDefault(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	a := send(t, open(t, egress.Options{Reach: egress.Reach{AnyPort: true, Allow: loopback}}), routed(r.URL), testkit.Patience)
	if a.Outcome != postrider.OutcomeBlocked || len(r.Requests()) != 0 {
		t.Errorf("outcome %s, %d requests", a.Outcome, len(r.Requests()))
	}
}
