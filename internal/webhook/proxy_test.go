package webhook_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

// testProxy is a proxy that records its targets.
type testProxy struct {
	url string

	mu      sync.Mutex
	targets []string
	conns   int
}

func (p *testProxy) met() (targets []string, conns int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.targets), p.conns
}

func (p *testProxy) note(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if target == "" {
		p.conns++
		return
	}
	p.targets = append(p.targets, target)
}

// newProxy starts a proxy that calls serve for each connection. The connection that serve returns
// is joined with the client's; nil: the client's is closed.
func newProxy(t *testing.T, scheme string, config *tls.Config, serve func(*testProxy, net.Conn) net.Conn) *testProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &testProxy{url: scheme + "://" + listener.Addr().String()}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	done := serveConns(listener, func(client net.Conn) {
		defer client.Close()
		p.note("")
		client.SetDeadline(time.Now().Add(testkit.Patience))
		if server := serve(p, client); server != nil {
			join(client, server)
		}
	})
	t.Cleanup(func() {
		listener.Close()
		done()
	})
	return p
}

// join copies between two connections until both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			io.Copy(way[1], way[0])
			a.Close()
			b.Close()
		})
	}
	both.Wait()
}

// tunnels accepts a CONNECT that has the authorization.
func tunnels(authorization string) func(*testProxy, net.Conn) net.Conn {
	return func(p *testProxy, client net.Conn) net.Conn {
		req, err := http.ReadRequest(bufio.NewReader(client))
		if err != nil {
			return nil
		}
		p.note(req.Method + " " + req.RequestURI)
		if req.Header.Get("Proxy-Authorization") != authorization {
			io.WriteString(client, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
			return nil
		}
		server, err := net.Dial("tcp", req.RequestURI)
		if err != nil {
			io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
			return nil
		}
		io.WriteString(client, "HTTP/1.1 200 Connection established\r\nVia: 1.1 test\r\n\r\n")
		return server
	}
}

// relays accepts a SOCKS5 client that sends the user and the password.
func relays(user, password string) func(*testProxy, net.Conn) net.Conn {
	return func(p *testProxy, client net.Conn) net.Conn {
		in := bufio.NewReader(client)
		take := func(n int) []byte {
			b := make([]byte, n)
			if _, err := io.ReadFull(in, b); err != nil {
				return make([]byte, n)
			}
			return b
		}
		methods := take(int(take(2)[1]))
		want := byte(0)
		if user != "" {
			want = 2
		}
		if !slices.Contains(methods, want) {
			client.Write([]byte{5, 0xff})
			return nil
		}
		client.Write([]byte{5, want})
		if want == 2 {
			name := take(int(take(2)[1]))
			if got := take(int(take(1)[0])); string(name) != user || string(got) != password {
				client.Write([]byte{1, 1})
				return nil
			}
			client.Write([]byte{1, 0})
		}
		kind := take(4)[3]
		size := map[byte]int{1: 4, 4: 16}[kind]
		if size == 0 {
			p.note("a name")
			client.Write([]byte{5, 8, 0, 1, 0, 0, 0, 0, 0, 0})
			return nil
		}
		ip, _ := netip.AddrFromSlice(take(size))
		target := netip.AddrPortFrom(ip, binary.BigEndian.Uint16(take(2)))
		p.note("SOCKS " + target.String())
		server, err := net.Dial("tcp", target.String())
		if err != nil {
			client.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return nil
		}
		client.Write([]byte{5, 0, 0, 1, 127, 0, 0, 1, 0, 80})
		return server
	}
}

// through returns options that send everything through the proxy, with names that resolve to this
// machine.
func through(t *testing.T, p *testProxy, user *url.Userinfo) egress.Options {
	t.Helper()
	u, err := egress.ParseProxy(p.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = user
	opts := laptop()
	opts.Proxy, opts.Resolver = u, &answers{list: [][]string{{"127.0.0.1"}}}
	return opts
}

// named returns the URL with a host name instead of the address.
func named(url string) string { return strings.Replace(url, "127.0.0.1", "receiver.example", 1) }

// onlyTo reports whether the only target of the proxy was the URL's server, as an address.
func onlyTo(targets []string, verb, url string) bool {
	_, address, _ := strings.Cut(url, "://")
	return len(targets) > 0 && !slices.ContainsFunc(targets, func(target string) bool { return target != verb+" "+address })
}

func TestProxies(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	later := time.Now().Add(time.Hour)
	atProxy := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, later, "127.0.0.1")}}
	atTarget := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, later, "receiver.example")}}
	user := url.UserPassword("us", "pass:word")
	const basic = "Basic dXM6cGFzczp3b3Jk"
	for _, tt := range []struct {
		name, scheme string
		config       *tls.Config
		user         *url.Userinfo
		serve        func(*testProxy, net.Conn) net.Conn
		verb         string
	}{
		{"http", "http", nil, nil, tunnels(""), "CONNECT"},
		{"http with a password", "http", nil, user, tunnels(basic), "CONNECT"},
		{"https", "https", atProxy, nil, tunnels(""), "CONNECT"},
		{"https with a password", "https", atProxy, user, tunnels(basic), "CONNECT"},
		{"SOCKS5", "socks5", nil, nil, relays("", ""), "SOCKS"},
		{"SOCKS5 with a password", "socks5", nil, user, relays("us", "pass:word"), "SOCKS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for scheme, config := range map[string]*tls.Config{"http": nil, "https": atTarget} {
				r := testkit.NewReceiver(t, testkit.Status(204))
				if config != nil {
					r = testkit.NewTLSReceiver(t, config, testkit.Status(204))
				}
				p := newProxy(t, tt.scheme, tt.config, tt.serve)
				opts := through(t, p, tt.user)
				opts.RootCAs = ca.Pool
				e := open(t, opts)
				for range 3 {
					if a := send(t, e, routed(named(r.URL)), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
						t.Errorf("to %s: outcome %s, error %q", scheme, a.Outcome, a.Error)
					}
				}
				targets, conns := p.met()
				if !onlyTo(targets, tt.verb, r.URL) || conns != 1 {
					t.Errorf("to %s: proxy was asked for %q on %d connections, want only %s on 1", scheme, targets, conns, r.URL)
				}
				for _, got := range r.Requests() {
					if !strings.HasPrefix(got.Host, "receiver.example:") || got.Header.Get("Proxy-Authorization") != "" {
						t.Errorf("received for %q with %q", got.Host, got.Header)
					}
				}
				e.Close() // the proxy waits until the connection is closed
			}
		})
	}
}

// TestForbiddenTargetsNeverReachTheProxy: the proxy has a private address because the operator
// chose it. Targets with private addresses are still forbidden.
func TestForbiddenTargetsNeverReachTheProxy(t *testing.T) {
	t.Parallel()
	port, hits := canary(t)
	p := newProxy(t, "http", nil, tunnels(""))
	opts := through(t, p, nil)
	refuses := func(reach egress.Reach, ips []string, urls ...string) {
		opts.Reach, opts.Resolver = reach, &answers{list: [][]string{ips}}
		e := open(t, opts)
		for _, url := range urls {
			if a := send(t, e, routed(url), testkit.Patience); a.Outcome != postrider.OutcomeBlocked || a.Error != "target_forbidden" {
				t.Errorf("Send to %q at %s: outcome %s, error %q", url, ips, a.Outcome, a.Error)
			}
		}
	}
	refuses(egress.Reach{AllowHTTP: true}, []string{"127.0.0.1"}, vectors(t)...)
	refuses(egress.Reach{AllowHTTP: true}, []string{"93.184.216.34"}, "https://receiver.example:25/")
	refuses(egress.Reach{AllowHTTP: true, AnyPort: true}, []string{"127.0.0.1"}, "http://receiver.example:"+port+"/")
	refuses(egress.Reach{AllowHTTP: true, AnyPort: true}, []string{"93.184.216.34", "127.0.0.1"}, "http://receiver.example:"+port+"/")
	if targets, conns := p.met(); conns != 0 || hits.Load() != 0 {
		t.Errorf("%d connections to the proxy for %q, %d to the canary", conns, targets, hits.Load())
	}
}

// saying returns a serve function that reads what the client sends and writes the text.
func saying(text string) func(*testProxy, net.Conn) net.Conn {
	return func(_ *testProxy, client net.Conn) net.Conn {
		client.Read(make([]byte, 1024))
		io.WriteString(client, text)
		client.Read(make([]byte, 1))
		return nil
	}
}

// repeating returns a serve function that writes the text again and again.
func repeating(text string, every time.Duration) func(*testProxy, net.Conn) net.Conn {
	return func(_ *testProxy, client net.Conn) net.Conn {
		client.Read(make([]byte, 1024))
		tick := time.NewTicker(max(every, time.Microsecond))
		defer tick.Stop()
		for {
			if _, err := io.WriteString(client, text); err != nil {
				return nil
			}
			if every > 0 {
				<-tick.C
			}
		}
	}
}

func TestProxyFaults(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	unknown := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	for _, tt := range []struct {
		name, scheme string
		serve        func(*testProxy, net.Conn) net.Conn
		slow         bool // true: the attempt ends at its deadline
	}{
		{"wants a password", "http", tunnels("Basic x"), false},
		{"refuses", "http", saying("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), false},
		{"speaks first", "http", saying("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), false},
		{"says garbage", "http", saying("SSH-2.0-OpenSSH_9.6\r\n"), false},
		{"closes", "http", func(*testProxy, net.Conn) net.Conn { return nil }, false},
		{"says nothing", "http", saying(""), true},
		{"an endless head", "http", repeating("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1000), 0), false},
		{"endless fields", "http", func(p *testProxy, c net.Conn) net.Conn {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			return repeating("X: y\r\n", 0)(p, c)
		}, false},
		{"endless interim answers", "http", repeating("HTTP/1.1 103 Early Hints\r\n\r\n", 0), false},
		{"drips", "http", func(p *testProxy, c net.Conn) net.Conn {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			return repeating("y", 20*time.Millisecond)(p, c)
		}, true},
		{"an unknown authority", "https", tunnels(""), false},
		{"SOCKS wants a password", "socks5", relays("us", "password"), false},
		{"SOCKS refuses", "socks5", saying("\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"), false},
		{"SOCKS garbage", "socks5", saying("HTTP/1.1 400 Bad Request\r\n\r\n"), false},
		{"SOCKS closes", "socks5", func(*testProxy, net.Conn) net.Conn { return nil }, false},
		{"SOCKS says nothing", "socks5", saying(""), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, testkit.Status(200))
			var config *tls.Config
			if tt.scheme == "https" {
				config = unknown
			}
			p := newProxy(t, tt.scheme, config, tt.serve)
			within, outcome, class := testkit.Patience, postrider.OutcomeUnreachable, "proxy_error"
			if tt.slow {
				within, outcome, class = slow, postrider.OutcomeTimedOut, "timeout"
			}
			a := send(t, open(t, through(t, p, nil)), routed(named(r.URL)), within)
			if a.Outcome != outcome || a.Error != class || a.Duration > within+grace || a.RequestHead != nil {
				t.Errorf("outcome %s, error %q after %v, head %q; want %s, %q", a.Outcome, a.Error, a.Duration, a.RequestHead, outcome, class)
			}
			if n := len(r.Requests()); n != 0 {
				t.Errorf("%d requests came", n)
			}
		})
	}
}

// TestProxyOfAnAttemptThatEnds ends attempts just when TLS with their proxy begins. The race
// detector finds mistakes.
func TestProxyOfAnAttemptThatEnds(t *testing.T) {
	t.Parallel()
	var end atomic.Pointer[context.CancelFunc]
	opts := through(t, newProxy(t, "https", nil, func(*testProxy, net.Conn) net.Conn {
		(*end.Load())()
		return nil
	}), nil)
	e := open(t, opts)
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		end.Store(&cancel)
		a := e.Send(ctx, claimed(event(`{}`)), routed("http://receiver.example:1/"))
		cancel()
		if a.Outcome != postrider.OutcomeUnreachable {
			t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
		}
	}
}

func TestProxyThatIsNotThere(t *testing.T) {
	t.Parallel()
	opts := through(t, &testProxy{url: "http://127.0.0.1:" + closedPort}, nil)
	a := send(t, open(t, opts), routed("http://receiver.example/"), testkit.Patience)
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "proxy_error" {
		t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
	}
}

// TestProxiesOfTheEnvironmentAreIgnored is not parallel, because it sets environment variables.
func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	port, hits := canary(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:"+port)
		t.Setenv(strings.ToLower(name), "http://127.0.0.1:"+port)
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("REQUEST_METHOD", "") // otherwise net/http would refuse HTTP_PROXY
	ca := testkit.NewCA(t)
	certificate := ca.Certificate(t, time.Now().Add(time.Hour), "receiver.example")
	secure, _ := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{certificate}}, func(http.ResponseWriter, *http.Request) {})
	plain := testkit.NewReceiver(t, testkit.Status(200))
	opts := laptop()
	opts.RootCAs, opts.Resolver = ca.Pool, &answers{list: [][]string{{"127.0.0.1"}}}
	for _, url := range []string{secure, plain.URL} {
		if a := send(t, open(t, opts), routed(named(url)), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
			t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections to the proxy of the environment", n)
	}
}
