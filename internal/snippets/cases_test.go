package snippets_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/snippets"
	"github.com/postrider/postrider/signature"
)

// variant is one use for which each language has a snippet.
type variant struct {
	name  string // a valid identifier in every language
	use   snippets.Use
	signs signature.Format // format of the sender's signature
	timed bool             // a timestamp is signed
	lists bool             // every active key signs, not only the newest
}

// variants returns all schemes, both schemes with public keys, and headers of an endpoint's own.
// Their prefix would break any language that does not quote it.
func variants() []variant {
	var all []variant
	for _, scheme := range signature.Schemes() {
		v := variant{name: strings.ReplaceAll(string(scheme), "-", "_"), signs: signature.Format{Scheme: scheme}}
		v.use.Format = v.signs
		v.timed = !slices.Contains([]signature.Scheme{signature.GitHub, signature.GitHubSHA1, signature.Shopify, signature.Plain}, scheme)
		v.lists = slices.Contains([]signature.Scheme{signature.Standard, signature.Svix, signature.Stripe}, scheme)
		all = append(all, v)
		switch {
		case scheme == signature.Standard || scheme == signature.Svix:
			v.use.PublicKey = true
			v.name += "_public"
			all = append(all, v)
		case !v.timed:
			v.signs.Header, v.signs.Prefix = "X-Acme'sSignature", "v\"'`\\\\$x#{y}%s*/?>=\\"
			v.use.Format = v.signs
			v.name += "_custom"
			all = append(all, v)
		}
	}
	return all
}

// request is a request to a receiver, with the secrets that the receiver knows.
type request struct {
	what    string
	header  http.Header
	body    []byte
	secrets []string
	genuine bool
}

// line returns the request in the format of the drivers.
func (r request) line(snippet string) string {
	secrets := ""
	for _, s := range r.secrets {
		secrets += "." + hex.EncodeToString([]byte(s))
	}
	fields := []string{snippet, hex.EncodeToString(r.body), secrets}
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		fields = append(fields, name, hex.EncodeToString([]byte(r.header.Get(name))))
	}
	return strings.Join(fields, "\t")
}

// sender signs requests of a variant.
type sender struct {
	t          *testing.T
	v          variant
	older      signature.Secret
	newer      signature.Secret
	body       []byte
	now        time.Time
	makeSecret func() signature.Secret
}

func newSender(t *testing.T, v variant) *sender {
	t.Helper()
	s := &sender{t: t, v: v, now: time.Now(), body: []byte(`{"id":"evt_1","data":{"name":"Zoë","amount":10.0}}`)}
	s.makeSecret = func() signature.Secret {
		draw := signature.NewSecret
		if v.use.PublicKey {
			draw = signature.NewPrivateKey
		}
		secret, err := draw(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	s.older, s.newer = s.makeSecret(), s.makeSecret()
	return s
}

// known returns the secrets in the form in which a receiver has them.
func (s *sender) known(secrets ...signature.Secret) []string {
	var texts []string
	for _, secret := range secrets {
		if s.v.use.PublicKey {
			secret = secret.Public()
		}
		texts = append(texts, secret.Text())
	}
	return texts
}

// sign returns a header that is signed with the secrets, newest first, with a timestamp at that
// distance from now. more are further formats.
func (s *sender) sign(body []byte, at time.Duration, secrets []signature.Secret, more ...signature.Format) http.Header {
	s.t.Helper()
	var keys []signature.Key
	for i, secret := range secrets {
		keys = append(keys, signature.Key{ID: "sec_" + strconv.Itoa(i), Secret: secret})
	}
	h := http.Header{}
	m := signature.Message{
		ID: "evt_1", Delivery: "dlv_1", Type: "order.created", Occurred: s.now, Timestamp: s.now.Add(at), Body: body,
	}
	if err := signature.Sign(h, m, keys, append([]signature.Format{s.v.signs}, more...)...); err != nil {
		s.t.Fatal(err)
	}
	return h
}

// requests returns genuine and forged requests of a variant.
func requests(t *testing.T, v variant) []request {
	t.Helper()
	s := newSender(t, v)
	one, both := []signature.Secret{s.older}, []signature.Secret{s.newer, s.older}
	signed := s.sign(s.body, 0, one)
	all := []request{
		{"genuine", signed, s.body, s.known(s.older), true},
		{"genuine, and another secret is tried first", signed, s.body, s.known(s.newer, s.older), true},
		{"genuine, an empty body", s.sign(nil, 0, one), nil, s.known(s.older), true},
		{"genuine, a body that is no text", s.sign([]byte("\xff\x00\r\n\xfe"), 0, one), []byte("\xff\x00\r\n\xfe"), s.known(s.older), true},
		{"sent 200 s ago", s.sign(s.body, -200*time.Second, one), s.body, s.known(s.older), true},
		{"sent 200 s ahead", s.sign(s.body, 200*time.Second, one), s.body, s.known(s.older), true},
		{"rotation, the receiver knows the newer secret", s.sign(s.body, 0, both), s.body, s.known(s.newer), true},
		{"rotation, the receiver knows the older secret", s.sign(s.body, 0, both), s.body, s.known(s.older), v.lists},
		{"rotation, the receiver knows both", s.sign(s.body, 0, both), s.body, s.known(s.older, s.newer), true},
		{"old", s.sign(s.body, -10*time.Minute, one), s.body, s.known(s.older), !v.timed},
		{"from the future", s.sign(s.body, 10*time.Minute, one), s.body, s.known(s.older), !v.timed},
		{"another body", signed, []byte(`{"id":"evt_1","data":{"name":"Zoë","amount":10}}`), s.known(s.older), false},
		{"a longer body", signed, append(slices.Clone(s.body), '\n'), s.known(s.older), false},
		{"another secret", signed, s.body, s.known(s.makeSecret()), false},
		{"no secret", signed, s.body, nil, false},
		{"not signed", http.Header{"Content-Type": {"application/json"}}, s.body, s.known(s.older), false},
	}
	if !v.use.PublicKey {
		all = append(all, s.ofSymmetricSecrets(signed)...)
	}
	return append(all, s.malformed(signed)...)
}

// ofSymmetricSecrets returns the cases that depend on the text of a secret.
func (s *sender) ofSymmetricSecrets(signed http.Header) []request {
	s.t.Helper()
	text, err := signature.TextSecret("=a.text,of-'another\"sender\\#{x}$")
	if err != nil {
		s.t.Fatal(err)
	}
	var others []signature.Format
	for _, f := range []signature.Scheme{
		signature.Standard, signature.Stripe, signature.GitHub, signature.GitHubSHA1,
		signature.Shopify, signature.Slack, signature.Svix, signature.Timestamped, signature.Plain,
	} {
		if f != s.v.signs.Scheme {
			others = append(others, signature.Format{Scheme: f})
		}
	}
	one := []signature.Secret{s.older}
	return []request{
		{"a secret that is text", s.sign(s.body, 0, []signature.Secret{text}), s.body, []string{text.Text()}, true},
		{"a secret that is not configured", signed, s.body, []string{""}, false},
		{"signed with an empty key", s.forge(), s.body, []string{""}, false},
		{"signed with an empty key, a secret without bytes", s.forge(), s.body, []string{"whsec_"}, false},
		{"beside a secret that is not configured", signed, s.body, []string{"", s.older.Text()}, true},
		{"signed in all schemes", s.sign(s.body, 0, one, others...), s.body, s.known(s.older), true},
	}
}

// forge returns headers that are signed with an empty key, in the two schemes in which that is
// easiest. In other schemes it returns headers that are signed with a wrong key.
func (s *sender) forge() http.Header {
	s.t.Helper()
	mac := hmac.New(sha256.New, nil)
	mac.Write(s.body)
	h := s.sign(s.body, 0, []signature.Secret{s.older})
	switch s.v.signs.Scheme {
	case signature.GitHub, signature.Plain:
		name := map[signature.Scheme]string{signature.GitHub: "X-Hub-Signature-256", signature.Plain: "X-Webhook-Signature"}[s.v.signs.Scheme]
		if s.v.signs.Header == "" {
			h.Set(name, "sha256="+hex.EncodeToString(mac.Sum(nil)))
		} else {
			h.Set(s.v.signs.Header, s.v.signs.Prefix+hex.EncodeToString(mac.Sum(nil)))
		}
	case signature.Standard, signature.Svix:
		return s.forgeListed()
	default:
	}
	return h
}

func (s *sender) forgeListed() http.Header {
	s.t.Helper()
	prefix := map[signature.Scheme]string{signature.Standard: "Webhook", signature.Svix: "Svix"}[s.v.signs.Scheme]
	at := strconv.FormatInt(s.now.Unix(), 10)
	mac := hmac.New(sha256.New, nil)
	mac.Write([]byte("evt_1." + at + "."))
	mac.Write(s.body)
	return http.Header{prefix + "-Id": {"evt_1"}, prefix + "-Timestamp": {at}, prefix + "-Signature": {"v1," + base64Of(mac.Sum(nil))}}
}

// malformed returns requests in which a needed header is missing or malformed. It does not change
// headers that only accompany a signature.
func (s *sender) malformed(signed http.Header) []request {
	s.t.Helper()
	var all []request
	change := func(name, to string) {
		h := signed.Clone()
		if h.Del(name); to != "" {
			h.Set(name, to)
		}
		r := request{name + ": " + strconv.Quote(to), h, s.body, s.known(s.older), false}
		verifier := signature.Verifier{Format: s.v.use.Format, Keys: []signature.Key{{Secret: s.older}}}
		if verifier.Verify(h, s.body, s.now) != nil {
			all = append(all, r)
		}
	}
	for name := range signed {
		for _, to := range []string{
			"", "abc", "é", ",", " ", "=", "v1,", "v1a,", "v1=", "v0=", "sha256=", "sha1=", "t=,v1=", "99999999999999999999999999",
		} {
			change(name, to)
		}
		// Some base64 decoders need no padding and ignore what follows it. For them, this is the
		// same ed25519 signature. A MAC is compared as text.
		if original := signed.Get(name); !s.v.use.PublicKey {
			change(name, original[:len(original)-1])
			change(name, original+"0")
			change(name, strings.ReplaceAll(original, "=", ""))
		}
	}
	return all
}
