package webhook_test

import (
	"crypto/tls"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/signature"
)

// following returns a change that lets attempts follow that many redirects. The endpoint also gets
// secrets that must not leak.
func following(hops int) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) {
		p := &r.Endpoint.Policy
		p.MaxRedirects, p.SendTraceParent = hops, true
		p.Headers = []postrider.Header{{Name: "X-Env", Value: "canary-plain"}, {Name: "X-Hidden", Secret: true}}
		p.Auth = postrider.Auth{Kind: postrider.AuthBearer}
		signedBy(postrider.Schemes...)(r)
		credentials(postrider.Credentials{Headers: map[string]string{"X-Hidden": "canary-hidden"}, Auth: "canary-token"})(r)
	}
}

// redirectTo responds to the first request with a redirect, and to all others with 200.
func redirectTo(code int, location string) testkit.Answer {
	return func(w http.ResponseWriter, r testkit.Request) {
		if strings.HasPrefix(r.Target, "/there") {
			return
		}
		w.Header().Set("Location", location)
		w.WriteHeader(code)
	}
}

// redirects are the servers to which a request can be redirected.
type redirects struct {
	first, other *testkit.Receiver
}

func newRedirects(t *testing.T, secure *tls.Config) redirects {
	t.Helper()
	if secure != nil {
		return redirects{testkit.NewTLSReceiver(t, secure, testkit.Status(500)), testkit.NewReceiver(t, testkit.Status(200))}
	}
	return redirects{testkit.NewReceiver(t, testkit.Status(500)), testkit.NewReceiver(t, testkit.Status(200))}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	secure := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	opts := laptop()
	opts.RootCAs = ca.Pool
	opts.Resolver = &answers{list: [][]string{{"10.0.0.1"}}}
	for _, tt := range []struct {
		name, location string // FIRST and OTHER stand for the URLs of the receivers
		secure         bool
		cause          string // why the redirect is not followed; empty: it is followed
		same, other    int    // requests that follow at the same receiver and at the other
		shown          string // part of the location that the error shows
	}{
		{"a path", "/there?canary=1", false, "", 1, 0, "/there"},
		{"a relative path", "there", false, "", 1, 0, "there"},
		{"the same host", "FIRST/there?canary=1#part", false, "", 1, 0, "FIRST/there"},
		{"the same host over TLS", "FIRST/there", true, "", 1, 0, "FIRST/there"},
		{"another port", "OTHER/there?canary=1", false, "", 0, 1, "OTHER/there"},
		{"no scheme", "//OTHERHOST/there", false, "", 0, 1, "//OTHERHOST/there"},
		{"from https to http", "OTHER/there", true, "tls_downgrade", 0, 0, "OTHER/there"},
		{"a private address", "http://10.0.0.1/there", false, "target_forbidden", 0, 0, "http://10.0.0.1/there"},
		{"a name of a private address", "http://rebind.example/there", false, "target_forbidden", 0, 0, "http://rebind.example/there"},
		{"metadata", "http://169.254.169.254/latest", false, "target_forbidden", 0, 0, "http://169.254.169.254/latest"},
		{"a file", "file:///etc/passwd", false, "target_forbidden", 0, 0, ""},
		{"a user", "http://u:canary@OTHERHOST/there", false, "target_forbidden", 0, 0, "OTHER/there"},
		{"a backslash", `http:\\OTHERHOST/there`, false, "target_forbidden", 0, 0, ""},
		{"a space", "/there or not", false, "target_forbidden", 0, 0, "/there%20or%20not"},
		{"a script", "http://127.0.0.1:1/<script>&'", false, "connection_refused", 0, 0, "http://127.0.0.1:1"},
		{"nowhere", "", false, "target_forbidden", 0, 0, ""},
		{"a closed port", "http://127.0.0.1:1/there", false, "connection_refused", 0, 0, "http://127.0.0.1:1/there"},
	} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			for hops := range 2 {
				t.Run(tt.name+" "+strconv.Itoa(code)+" with "+strconv.Itoa(hops), func(t *testing.T) {
					t.Parallel()
					config := secure
					if !tt.secure {
						config = nil
					}
					rs := newRedirects(t, config)
					names := strings.NewReplacer("FIRST", rs.first.URL, "OTHERHOST", strings.TrimPrefix(rs.other.URL, "http://"), "OTHER", rs.other.URL)
					rs.first.Answer(redirectTo(code, names.Replace(tt.location)))
					a := send(t, open(t, opts), routed(rs.first.URL+"/hooks", following(hops)), testkit.Patience)
					same, other := tt.same, tt.other
					if code < 307 || hops == 0 {
						same, other = 0, 0
					}
					want := ""
					if same+other == 0 {
						want = redirectError(code >= 307 && hops > 0, tt.cause, names.Replace(tt.shown))
					}
					if (a.StatusCode == 200) != (want == "") || a.Error != want || strings.Contains(a.Error, "canary") {
						t.Errorf("outcome %s, status %d, error %q; want %q", a.Outcome, a.StatusCode, a.Error, want)
					}
					if len(rs.first.Requests()) != 1+same || len(rs.other.Requests()) != other {
						t.Fatalf("%d and %d requests, want %d and %d", len(rs.first.Requests()), len(rs.other.Requests()), 1+same, other)
					}
					checkHop(t, rs, a)
				})
			}
		}
	}
}

// redirectError returns the error of an attempt that got a redirect to the location. If the
// redirect should have been followed, the error says why it was not.
func redirectError(wanted bool, cause, location string) string {
	text := "redirect"
	if wanted {
		text += ": " + cause
	}
	if location != "" {
		text += ": to " + location
	}
	return text
}

// checkHop checks what a second request carries.
func checkHop(t *testing.T, rs redirects, a postrider.Attempt) {
	t.Helper()
	first := rs.first.Requests()[0]
	var hop testkit.Request
	switch same, other := rs.first.Requests()[1:], rs.other.Requests(); {
	case len(same) > 0:
		hop = same[0]
		if diff := slices.Sorted(maps.Keys(hop.Header)); !slices.Equal(diff, slices.Sorted(maps.Keys(first.Header))) {
			t.Errorf("headers %v, first %v", diff, first.Header)
		}
		v := signature.Verifier{Keys: []signature.Key{{Secret: secretOf(1)}}}
		if err := v.Verify(hop.Header, hop.Body, hop.At); err != nil {
			t.Error(err)
		}
	case len(other) > 0:
		hop = other[0]
		want := []string{"Content-Length", "Content-Type", "User-Agent", "Webhook-Hops", "Webhook-Id"}
		if got := slices.Sorted(maps.Keys(hop.Header)); !slices.Equal(got, want) {
			t.Errorf("another host gets %v", got)
		}
	default:
		if a.FinalURL != "" {
			t.Errorf("final URL %q", a.FinalURL)
		}
		return
	}
	if hop.Method != http.MethodPost || string(hop.Body) != string(first.Body) ||
		hop.Header.Get("Webhook-Id") != first.Header.Get("Webhook-Id") {
		t.Errorf("%s with %q and id %q", hop.Method, hop.Body, hop.Header.Get("Webhook-Id"))
	}
	if !strings.HasSuffix(a.FinalURL, "/there") || !strings.Contains(a.FinalURL, hop.Host) {
		t.Errorf("final URL %q", a.FinalURL)
	}
}

// TestRedirectsAreCounted has two receivers that redirect to each other for ever. After the first
// redirect, no request carries a signature or a credential.
func TestRedirectsAreCounted(t *testing.T) {
	t.Parallel()
	for hops := range 4 {
		ping, pong := testkit.NewReceiver(t, testkit.Status(500)), testkit.NewReceiver(t, testkit.Status(500))
		ping.Answer(redirectTo(307, pong.URL+"/pong"))
		pong.Answer(redirectTo(308, ping.URL+"/ping"))
		a := send(t, open(t, laptop()), routed(ping.URL, following(hops)), testkit.Patience)
		if n := len(ping.Requests()) + len(pong.Requests()); n != 1+hops {
			t.Errorf("%d requests for %d hops", n, hops)
		}
		if a.Outcome != postrider.OutcomeRejected || !strings.HasPrefix(a.Error, "redirect: to http://127.0.0.1:") ||
			(a.FinalURL == "") != (hops == 0) {
			t.Errorf("outcome %s, error %q, final URL %q", a.Outcome, a.Error, a.FinalURL)
		}
		for _, r := range append(ping.Requests()[1:], pong.Requests()...) {
			for name, values := range r.Header {
				if strings.Contains(name, "Signature") || strings.Contains(strings.Join(values, ""), "canary") {
					t.Errorf("%s: %q after another host", name, values)
				}
			}
		}
	}
}

// TestRedirectsShareTheDeadline has two receivers, of which the second never responds.
func TestRedirectsShareTheDeadline(t *testing.T) {
	t.Parallel()
	silent := testkit.NewReceiver(t, func(http.ResponseWriter, testkit.Request) { <-t.Context().Done() })
	first := testkit.NewReceiver(t, redirectTo(307, silent.URL+"/there"))
	follows := func(a postrider.Attempt) bool { return a.FinalURL != "" }
	a, within := sendUntil(t, open(t, laptop()), routed(first.URL, following(3)), follows)
	if a.Outcome != postrider.OutcomeTimedOut || a.Duration > within+grace || a.FinalURL != silent.URL+"/there" {
		t.Errorf("outcome %s after %v, final URL %q", a.Outcome, a.Duration, a.FinalURL)
	}
	if strings.Contains(string(a.RequestHead), "canary") {
		t.Errorf("head %q", a.RequestHead)
	}
}
