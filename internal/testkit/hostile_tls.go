package testkit

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

func hostileHandshakes() []Hostile {
	answer := []step{request, say(ok + "Content-Length: 2\r\n\r\nok"), hold}
	wearing := func(h Hostile, config func(*wardrobe) (*tls.Config, error)) Hostile {
		h.config = config
		return h.over("https")
	}
	refused := func(err, name string, config func(*wardrobe) (*tls.Config, error)) Hostile {
		return wearing(unreachable(name, "tls_"+err, answer...), config)
	}
	below := func(h Hostile) Hostile {
		h.raw = true
		return h.over("https")
	}
	return in("tls", "T-40",
		refused("expired", "an expired certificate", shows(func(w *wardrobe) (tls.Certificate, error) {
			return w.plain(leaf(time.Now().Add(-time.Hour), "127.0.0.1"))
		})),
		refused("wrong_name", "another host's certificate", shows(func(w *wardrobe) (tls.Certificate, error) {
			return w.plain(leaf(w.later, "receiver.example"))
		})),
		refused("unknown_authority", "a certificate signed by itself", shows(signedByItself)),
		refused("unknown_authority", "an unknown authority", shows(signedByStrangers)),
		refused("bad_certificate", "a certificate that may only sign e-mail", shows(func(w *wardrobe) (tls.Certificate, error) {
			template := leaf(w.later, "127.0.0.1")
			template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}
			return w.plain(template)
		})),
		// These two cost CPU, so they take long if a sender has many of them.
		refused("handshake_failed", "a certificate of 1 MB", shows(huge)).or(postrider.OutcomeTimedOut, "tls_timeout"),
		refused("bad_certificate", "name constraints that burn CPU", shows(burner)).or(postrider.OutcomeTimedOut, "tls_timeout"),
		refused("refused", "only TLS 1.0", speaks(tls.VersionTLS10, tls.VersionTLS10)),
		refused("refused", "only TLS 1.1", speaks(tls.VersionTLS10, tls.VersionTLS11)),
		// Up to TLS 1.2 the handshake fails. From TLS 1.3 on, the request after it fails.
		refused("refused", "a client certificate demanded by TLS 1.2", demands(tls.RequireAnyClientCert, tls.VersionTLS12)),
		wearing(alarmed("a client certificate demanded by TLS 1.3", answer...), demands(tls.RequireAnyClientCert, tls.VersionTLS13)),
		wearing(accepted("a client certificate asked for", answer[:2]...).kept(), demands(tls.RequestClientCert, tls.VersionTLS13)),
		below(unreachable("plain HTTP instead of TLS", "tls_handshake_failed", say("HTTP/1.1 400 Bad Request\r\n\r\n"), linger)),
		below(unreachable("an application protocol that nobody offered", "tls_handshake_failed", some, helloWithALPN, linger)),
		wearing(accepted("only HTTP/2, to whom offers it", answer[:2]...).kept(), prefersHTTP2),
		below(timedOutAt("tls_timeout", "stall before the handshake", stall)),
		below(timedOutAt("tls_timeout", "stall in the handshake", some, say("\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03"), stall)),
		below(unreachable("close in the handshake", "tls_handshake_failed", some, say("\x16\x03\x03\x00\x7a\x02"))),
		below(unreachable("reset in the handshake", "tls_handshake_failed", some, reset)),
		below(unreachable("an alert in the handshake", "tls_refused", some, say("\x15\x03\x03\x00\x02\x02\x28"), linger)),
		wearing(alarmed("an alert in the head", request, say("HTTP/1.1 200 OK\r\nContent-"), alarm), nil),
		wearing(accepted("an alert in the body", request, say(ok+"Content-Length: 100\r\n\r\nhalf"), alarm), nil),
		wearing(cut("a record that is none", request, beneath("\x17\x03\x03\x00\x05hello"), linger), nil),
	)
}

// wardrobe has the TLS configurations of the receivers. Each is made when it is first needed, and
// shared afterwards.
type wardrobe struct {
	ca    *CA
	later time.Time

	mu   sync.Mutex
	made map[string]*tls.Config // by the name of the misbehaviour; "": the good one
}

func newWardrobe(ca *CA) *wardrobe {
	return &wardrobe{ca: ca, later: time.Now().Add(time.Hour), made: map[string]*tls.Config{}}
}

// dress returns the TLS configuration of a receiver.
func (w *wardrobe) dress(h Hostile) (*tls.Config, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, maker := h.Name, h.config
	if maker == nil {
		name, maker = "", demands(tls.NoClientCert, tls.VersionTLS13)
	}
	if config := w.made[name]; config != nil {
		return config, nil
	}
	config, err := maker(w)
	if err != nil {
		return nil, err
	}
	w.made[name] = config
	return config, nil
}

// plain returns a certificate of the authority from the template.
func (w *wardrobe) plain(template *x509.Certificate) (tls.Certificate, error) {
	c, err := w.ca.issue(template)
	if err != nil {
		return tls.Certificate{}, err
	}
	return c.tls(), nil
}

func (w *wardrobe) good() (tls.Certificate, error) { return w.plain(leaf(w.later, "127.0.0.1")) }

// shows returns a configuration whose only fault is the certificate.
func shows(certificate func(*wardrobe) (tls.Certificate, error)) func(*wardrobe) (*tls.Config, error) {
	return func(w *wardrobe) (*tls.Config, error) {
		c, err := certificate(w)
		return &tls.Config{Certificates: []tls.Certificate{c}}, err
	}
}

// bent returns a good configuration that bend has changed.
func bent(bend func(*tls.Config)) func(*wardrobe) (*tls.Config, error) {
	return func(w *wardrobe) (*tls.Config, error) {
		config, err := shows((*wardrobe).good)(w)
		if err == nil {
			bend(config)
		}
		return config, err
	}
}

func speaks(least, most uint16) func(*wardrobe) (*tls.Config, error) {
	return bent(func(c *tls.Config) { c.MinVersion, c.MaxVersion = least, most })
}

func demands(what tls.ClientAuthType, most uint16) func(*wardrobe) (*tls.Config, error) {
	return bent(func(c *tls.Config) { c.ClientAuth, c.MaxVersion = what, most })
}

func prefersHTTP2(w *wardrobe) (*tls.Config, error) {
	return bent(func(c *tls.Config) { c.NextProtos = []string{"h2"} })(w)
}

func signedByItself(w *wardrobe) (tls.Certificate, error) {
	c, err := (&CA{}).issue(leaf(w.later, "127.0.0.1"))
	if err != nil {
		return tls.Certificate{}, err
	}
	return c.tls(), nil
}

// signedByStrangers returns a certificate of another authority with the same name as the good one.
func signedByStrangers(w *wardrobe) (tls.Certificate, error) {
	ca, err := makeCA()
	if err != nil {
		return tls.Certificate{}, err
	}
	c, err := ca.issue(leaf(w.later, "127.0.0.1"))
	if err != nil {
		return tls.Certificate{}, err
	}
	return c.tls(ca.cert), nil
}

// huge returns a valid certificate with 1 MB of useless data.
func huge(w *wardrobe) (tls.Certificate, error) {
	value, err := asn1.Marshal(make([]byte, 1<<20))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := leaf(w.later, "127.0.0.1")
	template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Value: value}}
	return w.plain(template)
}

// burner returns a chain of the authority that makes verification expensive. Its intermediate
// certificate has thousands of constraints, and its leaf has thousands of names: nearly as many as
// a handshake allows. The last constraint refuses the chain.
func burner(w *wardrobe) (tls.Certificate, error) {
	const many = 4000
	middle := authority("constraints")
	end := leaf(w.later, "127.0.0.1")
	for i := range many {
		middle.ExcludedDNSDomains = append(middle.ExcludedDNSDomains, fmt.Sprintf("x%d.c.example", i))
		end.DNSNames = append(end.DNSNames, fmt.Sprintf("x%d.d.example", i))
	}
	end.DNSNames = append(end.DNSNames, fmt.Sprintf("a.x%d.c.example", many-1))
	between, err := w.ca.issue(middle)
	if err != nil {
		return tls.Certificate{}, err
	}
	c, err := between.authority().issue(end)
	if err != nil {
		return tls.Certificate{}, err
	}
	return c.tls(between.cert), nil
}

// helloWithALPN answers a ClientHello with a ServerHello of TLS 1.2 that selects an application
// protocol, h3, that nobody offered.
func helloWithALPN(p *peer) error {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	const alpn = "\x00\x10\x00\x05\x00\x03\x02h3"
	hello := "\x03\x03" + string(random) + "\x00" + "\xc0\x2b" + "\x00" + "\x00\x09" + alpn
	return say("\x16\x03\x03\x00" + string(rune(len(hello)+4)) + "\x02\x00\x00" + string(rune(len(hello))) + hello)(p)
}

// beneath writes the text to the socket, below TLS.
func beneath(text string) step {
	return func(p *peer) error {
		_, err := p.tcp.Write([]byte(text))
		return err
	}
}
