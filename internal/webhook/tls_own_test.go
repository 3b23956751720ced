package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// brought is a certificate as an endpoint's owner supplies it.
type brought struct{ certificate, key string }

func bring(t *testing.T, c tls.Certificate) brought {
	t.Helper()
	return brought{chainOf(c), keyOf(t, c.PrivateKey)}
}

func chainOf(c tls.Certificate) string {
	var chain strings.Builder
	for _, der := range c.Certificate {
		chain.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return chain.String()
}

func keyOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// shows returns a change that gives the endpoint a client certificate.
func shows(b brought) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) {
		r.Endpoint.Policy.TLS.Certificate = b.certificate
		credentials(postrider.Credentials{TLSKey: b.key})(r)
	}
}

// trusts returns a change that gives the endpoint its own authorities.
func trusts(ca *testkit.CA) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) { r.Endpoint.Policy.TLS.Authorities = string(ca.PEM()) }
}

// endpoint returns a change of the endpoint's id.
func endpoint(n byte) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) { r.Endpoint.ID = postrider.EndpointID{n} }
}

// serveTLS starts a server with the TLS configuration, and counts its connections.
func serveTLS(t *testing.T, config *tls.Config, handler http.HandlerFunc) (url string, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	server := httptest.NewUnstartedServer(handler)
	server.TLS, server.EnableHTTP2 = config, true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, conns
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca, clients, strangers := testkit.NewCA(t), testkit.NewCA(t), testkit.NewCA(t)
	later := time.Now().Add(time.Hour)
	opts := laptop()
	opts.RootCAs = ca.Pool
	right := bring(t, clients.Certificate(t, later, "us"))
	for _, tt := range []struct {
		name   string
		change func(*store.EndpointSnapshot)
		ok     bool
	}{
		{"the right one", shows(right), true},
		{"of an unknown authority", shows(bring(t, strangers.Certificate(t, later, "us"))), false},
		{"that has expired", shows(bring(t, clients.Certificate(t, time.Now().Add(-time.Hour), "us"))), false},
		{"none", func(*store.EndpointSnapshot) {}, false},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tt.name+" over "+tls.VersionName(version), func(t *testing.T) {
				t.Parallel()
				url, _ := serveTLS(t, &tls.Config{
					Certificates: []tls.Certificate{ca.Certificate(t, later, "127.0.0.1")}, MaxVersion: version,
					ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool,
				}, func(http.ResponseWriter, *http.Request) {})
				e := open(t, opts)
				for range 2 { // the second attempt uses a kept connection or a resumed session
					a := send(t, e, routed(url, tt.change), testkit.Patience)
					if accepted := a.Outcome == postrider.OutcomeAccepted; accepted != tt.ok || !tt.ok && !strings.HasPrefix(a.Error, "tls_") {
						t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
					}
				}
			})
		}
	}
}

// TestIdentitiesAreKeptApart lets endpoints with different client certificates send to one receiver
// in turn, over kept connections and over TLS sessions that could be resumed.
func TestIdentitiesAreKeptApart(t *testing.T) {
	t.Parallel()
	ca, clients := testkit.NewCA(t), testkit.NewCA(t)
	later := time.Now().Add(time.Hour)
	opts := laptop()
	opts.RootCAs = ca.Pool
	a, b := bring(t, clients.Certificate(t, later, "a")), bring(t, clients.Certificate(t, later, "b"))
	url, conns := serveTLS(t, &tls.Config{
		Certificates: []tls.Certificate{ca.Certificate(t, later, "127.0.0.1")},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: clients.Pool,
	}, func(w http.ResponseWriter, r *http.Request) {
		who := "nobody"
		if shown := r.TLS.PeerCertificates; len(shown) > 0 {
			who = shown[0].DNSNames[0]
		}
		io.WriteString(w, who)
	})
	e := open(t, opts)
	for range 3 {
		for n, tt := range []struct {
			who    string
			change func(*store.EndpointSnapshot)
		}{
			{"a", shows(a)}, {"nobody", func(*store.EndpointSnapshot) {}}, {"b", shows(b)}, {"nobody", trusts(ca)}, {"a", shows(a)},
		} {
			got := send(t, e, routed(url, endpoint(byte(n)), tt.change), testkit.Patience)
			if string(got.ResponseBody) != tt.who {
				t.Errorf("received as %q, want %q (error %q)", got.ResponseBody, tt.who, got.Error)
			}
		}
	}
	if n := conns.Load(); n != 4 { // the two endpoints with certificate a share a connection
		t.Errorf("%d connections, want 4", n)
	}
}

func TestSessionsAreNotShared(t *testing.T) {
	t.Parallel()
	ca, clients := testkit.NewCA(t), testkit.NewCA(t)
	later := time.Now().Add(time.Hour)
	opts := laptop()
	opts.RootCAs = ca.Pool
	url, _ := serveTLS(t, &tls.Config{
		Certificates: []tls.Certificate{ca.Certificate(t, later, "127.0.0.1")},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: clients.Pool,
	}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if r.TLS.DidResume {
			io.WriteString(w, "resumed ")
		}
		if shown := r.TLS.PeerCertificates; len(shown) > 0 {
			io.WriteString(w, shown[0].DNSNames[0])
		}
	})
	e := open(t, opts)
	a, b := bring(t, clients.Certificate(t, later, "a")), bring(t, clients.Certificate(t, later, "b"))
	for _, tt := range []struct {
		n      byte
		change func(*store.EndpointSnapshot)
		want   string
	}{
		{1, shows(a), "a"},
		{2, func(*store.EndpointSnapshot) {}, ""},
		{3, shows(b), "b"},
		{1, shows(a), "resumed a"},
		{2, func(*store.EndpointSnapshot) {}, "resumed "},
		{4, shows(b), "resumed b"},
	} {
		got := send(t, e, routed(url, endpoint(tt.n), tt.change), testkit.Patience)
		if string(got.ResponseBody) != tt.want {
			t.Errorf("endpoint %d: %q, want %q (error %q)", tt.n, got.ResponseBody, tt.want, got.Error)
		}
	}
}

func TestOwnAuthorities(t *testing.T) {
	t.Parallel()
	ours, theirs := testkit.NewCA(t), testkit.NewCA(t)
	later := time.Now().Add(time.Hour)
	good := theirs.Certificate(t, later, "127.0.0.1")
	for _, tt := range []struct {
		name   string
		shown  tls.Certificate
		change func(*store.EndpointSnapshot)
		most   uint16
		err    string
	}{
		{"theirs", good, trusts(theirs), 0, ""},
		{"theirs, unknown to the others", good, func(*store.EndpointSnapshot) {}, 0, "tls_unknown_authority"},
		{"the operator's, which they do not trust", ours.Certificate(t, later, "127.0.0.1"), trusts(theirs), 0, "tls_unknown_authority"},
		{"an expired one", theirs.Certificate(t, time.Now().Add(-time.Hour), "127.0.0.1"), trusts(theirs), 0, "tls_expired"},
		{"another host's", theirs.Certificate(t, later, "receiver.example"), trusts(theirs), 0, "tls_wrong_name"},
		{"an old version", good, trusts(theirs), tls.VersionTLS11, "tls_refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := laptop()
			opts.RootCAs = ours.Pool
			url, _ := serveTLS(t, &tls.Config{
				Certificates: []tls.Certificate{tt.shown}, MinVersion: tls.VersionTLS10, MaxVersion: tt.most,
			}, func(http.ResponseWriter, *http.Request) {})
			if a := send(t, open(t, opts), routed(url, tt.change), testkit.Patience); a.Error != tt.err {
				t.Errorf("outcome %s, error %q, want %q", a.Outcome, a.Error, tt.err)
			}
		})
	}
}

func TestCheckTLS(t *testing.T) {
	t.Parallel()
	e := open(t, laptop())
	ca := testkit.NewCA(t)
	good := bring(t, ca.Certificate(t, time.Now().Add(time.Hour), "us"))
	other := bring(t, ca.Certificate(t, time.Now().Add(time.Hour), "us"))
	old := bring(t, ca.Certificate(t, time.Now().Add(-time.Hour), "us"))
	trusted := string(ca.PEM())
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak := selfSigned(t, small)
	encrypted := "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n"
	for _, tt := range []struct {
		name                          string
		certificate, key, authorities string
		fields                        []string
	}{
		{"nothing", "", "", "", nil},
		{"a certificate", good.certificate, good.key, "", nil},
		{"a chain", good.certificate + trusted, good.key, "", nil},
		{"authorities", "", "", trusted + trusted, nil},
		{"all", good.certificate, good.key, trusted, nil},
		{"spaces around", "\n" + good.certificate + "\n\n", " \n" + good.key + "\n", trusted, nil},
		{"a key alone", "", good.key, "", []string{"tls.certificate"}},
		{"a certificate alone", good.certificate, "", "", []string{"tls.key"}},
		{"another key", good.certificate, other.key, "", []string{"tls.key"}},
		{"an encrypted key", good.certificate, encrypted, "", []string{"tls.key"}},
		{"a weak key", weak.certificate, weak.key, "", []string{"tls.key"}},
		{"a certificate as key", good.certificate, good.certificate, "", []string{"tls.key"}},
		{"a key among the certificates", good.certificate + good.key, good.key, "", []string{"tls.certificate"}},
		{"an expired certificate", old.certificate, old.key, "", []string{"tls.certificate"}},
		{"expired authorities", "", "", trusted + old.certificate, []string{"tls.authorities"}},
		{"text", "x", "x", "x", []string{"tls.certificate", "tls.key", "tls.authorities"}},
		{"text behind", good.certificate + "x", good.key + "x", trusted + "x", []string{"tls.certificate", "tls.key", "tls.authorities"}},
		{
			"no DER", pemText("CERTIFICATE"), pemText("PRIVATE KEY"), pemText("CERTIFICATE"),
			[]string{"tls.certificate", "tls.key", "tls.authorities"},
		},
		{"too long", good.certificate + strings.Repeat("\n", 64<<10), good.key, "", []string{"tls.certificate"}},
		{"too many", strings.Repeat(good.certificate, 9), good.key, strings.Repeat(trusted, 65), []string{"tls.certificate", "tls.authorities"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var fields []string
			err := e.CheckTLS(postrider.TLS{Certificate: tt.certificate, Authorities: tt.authorities}, tt.key)
			for _, fault := range postrider.Faults(err) {
				fields = append(fields, fault.Field)
			}
			if diff := cmp.Diff(tt.fields, fields); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func pemText(kind string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("nothing")}))
}

// selfSigned returns a self-signed certificate of the key.
func selfSigned(t *testing.T, key *rsa.PrivateKey) brought {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return bring(t, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
}
