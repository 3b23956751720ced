package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

// vectors returns the URLs that must be refused.
func vectors(tb testing.TB) (urls []string) {
	tb.Helper()
	for _, v := range testkit.Vectors(tb) {
		urls = append(urls, v.URL)
	}
	return urls
}

// canary listens on every loopback address and counts connections.
func canary(t *testing.T) (port string, hits *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", ":0") // reached also by 0.0.0.0, :: and mapped addresses
	if err != nil {
		t.Fatal(err)
	}
	hits = new(atomic.Int64)
	wait := serveConns(listener, func(conn net.Conn) {
		hits.Add(1)
		conn.Close()
	})
	t.Cleanup(func() {
		listener.Close()
		wait()
	})
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, hits
}

// answers is a resolver that returns its answers one after the other.
type answers struct {
	turn atomic.Int64
	list [][]string
	err  error
}

// LookupNetIP returns the next answer.
func (a *answers) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if a.err != nil {
		return nil, a.err
	}
	var ips []netip.Addr
	for _, text := range a.list[int(a.turn.Add(1)-1)%len(a.list)] {
		ips = append(ips, netip.MustParseAddr(text))
	}
	return ips, nil
}

func TestVectorsAreRefused(t *testing.T) {
	t.Parallel()
	e := open(t, egress.Options{Reach: egress.Reach{AllowHTTP: true}})
	for _, url := range vectors(t) {
		got, err := e.CheckURL(url)
		var invalid *postrider.InvalidError
		switch {
		case err == nil:
			t.Errorf("CheckURL(%q) = %q", url, got)
		case !errors.As(err, &invalid) || invalid.Field != "url":
			t.Errorf("CheckURL(%q) = %v, want an InvalidError for url", url, err)
		}
		if a := send(t, e, routed(url), time.Second); a.Outcome != postrider.OutcomeBlocked || a.Error != "target_forbidden" {
			t.Errorf("Send to %q: outcome %s, error %q; want blocked", url, a.Outcome, a.Error)
		}
	}
}

// TestPromise10NoRequestLeavesForAForbiddenAddress allows all ports, so that a listener's port
// passes that check, and resolves every name to this machine.
func TestPromise10NoRequestLeavesForAForbiddenAddress(t *testing.T) {
	t.Parallel()
	port, hits := canary(t)
	e := open(t, egress.Options{
		Reach:    egress.Reach{AllowHTTP: true, AnyPort: true},
		Resolver: &answers{list: [][]string{{"127.0.0.1"}, {"::1"}}},
	})
	for _, v := range testkit.Vectors(t) {
		url := v.URL
		if v.Row == "S-16" { // this test allows every port
			continue
		}
		for _, bent := range []string{url, strings.Replace(strings.TrimSuffix(url, "/"), ":8443", "", 1) + ":" + port + "/"} {
			if a := send(t, e, routed(bent), time.Second); a.Outcome != postrider.OutcomeBlocked {
				t.Errorf("Send to %q: outcome %s, error %q; want blocked", bent, a.Outcome, a.Error)
			} else if a.RequestHead != nil {
				t.Errorf("Send to %q, blocked, has a head: %q", bent, a.RequestHead)
			}
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestForbiddenAnswersOfTheDNS(t *testing.T) {
	t.Parallel()
	port, hits := canary(t)
	for _, tt := range []struct {
		name string
		list [][]string
	}{
		{"loopback", [][]string{{"127.0.0.1"}}},
		{"mapped", [][]string{{"::ffff:127.0.0.1"}}},
		{"unspecified", [][]string{{"0.0.0.0"}, {"::"}}},
		{"with a zone", [][]string{{"fe80::1%lo"}}},
		{"public and private", [][]string{{"93.184.216.34", "127.0.0.1"}}},
		{"private and public", [][]string{{"127.0.0.1", "93.184.216.34"}}},
		{"A public and AAAA private", [][]string{{"93.184.216.34", "::1"}}},
		{"the last of 1,000", [][]string{append(strings.Split(strings.Repeat("93.184.216.34 ", 999), " ")[:999], "10.0.0.1")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := open(t, egress.Options{Reach: egress.Reach{AllowHTTP: true, AnyPort: true}, Resolver: &answers{list: tt.list}})
			for range len(tt.list) {
				a := send(t, e, routed("http://receiver.example:"+port), time.Second)
				if a.Outcome != postrider.OutcomeBlocked || a.Error != "target_forbidden" {
					t.Errorf("outcome %s, error %q; want blocked", a.Outcome, a.Error)
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := hits.Load(); n != 0 {
			t.Errorf("%d connections were made", n)
		}
	})
}

// TestRebinding has a DNS that returns an allowed address for the first question and a forbidden
// one for the second. 127.0.0.0/9 stands for the public internet, 127.128.0.0/9 for the internal
// network.
func TestRebinding(t *testing.T) {
	t.Parallel()
	port, hits := canary(t)
	resolver := &answers{list: [][]string{{"127.0.0.1"}, {"127.200.0.1"}}}
	e := open(t,
		egress.Options{
			Reach:    egress.Reach{AllowHTTP: true, AnyPort: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/9")}},
			Resolver: resolver,
		})
	var reached, blocked int64
	for range 1000 {
		switch a := send(t, e, routed("http://rebind.example:"+port), testkit.Patience); a.Outcome {
		case postrider.OutcomeBlocked:
			blocked++
		case postrider.OutcomeBroken, postrider.OutcomeUnreachable: // the canary closes the connection
			reached++
		default:
			t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
		}
	}
	// Each attempt has one lookup, so the address that was checked is the one that was dialled, and
	// no name is remembered as allowed.
	if blocked != 500 || reached != 500 || hits.Load() > 500 {
		t.Errorf("%d blocked, %d let through, %d connections", blocked, reached, hits.Load())
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	port, hits := canary(t)
	e := open(t, laptop())
	for _, code := range []int{301, 302, 303, 307, 308} {
		r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("Location", "http://127.0.0.1:"+port+"/")
			w.WriteHeader(code)
		})
		a := send(t, e, routed(r.URL), testkit.Patience)
		if a.Outcome != postrider.OutcomeRejected || a.StatusCode != code || a.Error != "redirect: to http://127.0.0.1:"+port+"/" {
			t.Errorf("%d: outcome %s, status %d, error %q", code, a.Outcome, a.StatusCode, a.Error)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestFailuresOfTheDNS(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		resolver egress.Resolver
		outcome  postrider.Outcome
		err      string
	}{
		{"no such name", &answers{err: &net.DNSError{Err: "no such host", IsNotFound: true}}, postrider.OutcomeUnreachable, "dns_not_found"},
		{
			"a server that fails", &answers{err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}, postrider.OutcomeUnreachable,
			"dns_failed",
		},
		{
			"a server that does not answer", &answers{err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}}, postrider.OutcomeUnreachable,
			"dns_timeout",
		},
		{"an empty answer", &answers{list: [][]string{{}}}, postrider.OutcomeUnreachable, "dns_not_found"},
		{"silence", silence{}, postrider.OutcomeTimedOut, "dns_timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := open(t, egress.Options{Resolver: tt.resolver})
			a := send(t, e, routed("https://receiver.example/"), 200*time.Millisecond)
			if a.Outcome != tt.outcome || a.Error != tt.err {
				t.Errorf("outcome %s, error %q; want %s, %q", a.Outcome, a.Error, tt.outcome, tt.err)
			}
			if a.Duration > 200*time.Millisecond+grace {
				t.Errorf("took %v", a.Duration)
			}
		})
	}
}

// silence is a resolver that never responds.
type silence struct{}

// LookupNetIP waits until ctx ends.
func (silence) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestLookupsHaveNoSearchDomain(t *testing.T) {
	t.Parallel()
	asked := make(names, 1)
	e := open(t, egress.Options{Resolver: asked})
	send(t, e, routed("https://receiver.example/"), testkit.Patience)
	if name := <-asked; name != "receiver.example." {
		t.Errorf("asked for %q", name)
	}
}

// TestLocalhostIsFound uses the resolver of production, which reads /etc/hosts, where no name ends
// with a dot.
func TestLocalhostIsFound(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	url := strings.Replace(r.URL, "127.0.0.1", "localhost", 1)
	if a := send(t, open(t, laptop()), routed(url), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
		t.Errorf("outcome %s, error %q; want accepted", a.Outcome, a.Error)
	}
}

func TestNamesOfPrivateNetworksAreLookedUp(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"receiver": "receiver", "receiver.example": "receiver.example."} {
		asked := make(names, 1)
		e := open(t, egress.Options{Reach: egress.Reach{Allow: egress.PrivatePrefixes()}, Resolver: asked})
		send(t, e, routed("https://"+host+"/"), testkit.Patience)
		if name := <-asked; name != want {
			t.Errorf("%s: asked for %q, want %q", host, name, want)
		}
	}
}

// names is a resolver that knows no name and records the questions.
type names chan string

// LookupNetIP records the name.
func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n <- host
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}
