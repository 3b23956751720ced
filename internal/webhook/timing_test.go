package webhook_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
)

// slowly is the least time of each step in these tests.
const slowly = 10 * time.Millisecond

// pause waits for slowly.
func pause() { <-time.After(slowly) }

// slowResolver returns the address after a while; without an address, it never responds.
type slowResolver struct{ address netip.Addr }

// LookupNetIP returns the address.
func (r slowResolver) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	if !r.address.IsValid() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	pause()
	return []netip.Addr{r.address}, nil
}

// slowHandshake returns a TLS configuration with a slow handshake.
func slowHandshake(certificate tls.Certificate) *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pause()
		return &certificate, nil
	}}
}

func TestTheTimeOfAnAttemptIsSplit(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	certificate := ca.Certificate(t, time.Now().Add(time.Hour), "hooks.acme.example")
	// The header comes a while after the request, and the body a while after the header.
	listener, err := tls.Listen("tcp", "127.0.0.1:0", slowHandshake(certificate))
	if err != nil {
		t.Fatal(err)
	}
	serving := serveConns(listener, func(c net.Conn) {
		defer c.Close()
		for buffer := make([]byte, 64<<10); ; {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			for _, part := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok"} {
				pause()
				if _, err := c.Write([]byte(part)); err != nil {
					return
				}
			}
		}
	})
	t.Cleanup(func() { listener.Close(); serving() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	opts := laptop()
	opts.RootCAs, opts.Resolver = ca.Pool, slowResolver{netip.MustParseAddr("127.0.0.1")}
	to := routed("https://hooks.acme.example:" + port)

	// The part of a step is shorter than the step if the machine stops the sender between
	// the step and the look at the clock. So the sender may try again.
	testkit.Eventually(t, "each step has its part of the time", func() bool {
		sender := open(t, opts)
		defer sender.Close()
		first, second := send(t, sender, to, testkit.Patience), send(t, sender, to, testkit.Patience)
		if first.Outcome != postrider.OutcomeAccepted || first.Timing.Reused || !second.Timing.Reused ||
			second.Timing.DNS+second.Timing.Connect+second.Timing.TLS != 0 {
			t.Fatalf("the attempts: %s with %+v, then %s with %+v", first.Outcome, first.Timing, second.Outcome, second.Timing)
		}
		a, b := first.Timing, second.Timing
		return a.DNS >= slowly && a.Connect > 0 && a.TLS >= slowly && a.FirstByte >= slowly && a.Rest(first.Duration) >= slowly &&
			b.FirstByte >= slowly && b.Rest(second.Duration) >= slowly
	})
}

func TestThePartInWhichAnAttemptFailsHasItsTime(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	address := silent.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	for _, test := range []struct {
		name, url string
		part      func(postrider.Timing) time.Duration
	}{
		{"dns", "http://hooks.acme.example:" + port, func(t postrider.Timing) time.Duration { return t.DNS }},
		{"tls", "https://" + address, func(t postrider.Timing) time.Duration { return t.TLS }},
		{"first byte", "http://" + address, func(t postrider.Timing) time.Duration { return t.FirstByte }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opts := laptop()
			opts.Resolver = slowResolver{}
			a := send(t, open(t, opts), routed(test.url), 50*time.Millisecond)
			took := test.part(a.Timing)
			a.Timing.Connect = 0 // of the parts before the request, only this one happened
			if a.Outcome != postrider.OutcomeTimedOut || took <= 0 || a.Timing.Rest(took) != 0 || a.Timing.Reused {
				t.Errorf("%s after %v: %+v", a.Outcome, a.Duration, a.Timing)
			}
		})
	}
	refused := send(t, open(t, laptop()), routed("http://"+address, policy(func(p *postrider.Policy) { p.Signatures = nil })),
		testkit.Patience)
	if refused.Timing != (postrider.Timing{}) {
		t.Errorf("an attempt that made no request has the timing %+v", refused.Timing)
	}
}
