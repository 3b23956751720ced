package signature_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/signature"
)

// vector is an entry of testdata/vectors.json.
type vector struct {
	Name    string             `json:"name"`
	Schemes []signature.Scheme `json:"schemes"`
	Keys    []struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	} `json:"keys"`
	ID        string            `json:"id"`
	Delivery  string            `json:"delivery"`
	Type      string            `json:"type"`
	Timestamp int64             `json:"timestamp"`
	Body      string            `json:"body"`
	Headers   map[string]string `json:"headers"`
}

func vectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 10 {
		t.Fatalf("testdata/vectors.json has %d vectors", len(file.Vectors))
	}
	return file.Vectors
}

func (v vector) message() signature.Message {
	return signature.Message{
		ID: v.ID, Delivery: v.Delivery, Type: v.Type,
		Timestamp: time.Unix(v.Timestamp, 0), Body: []byte(v.Body),
	}
}

func (v vector) keys(t *testing.T) []signature.Key {
	t.Helper()
	var keys []signature.Key
	for _, k := range v.Keys {
		// Not by ParseSecret: one of the published secrets has 18 bytes.
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(k.Secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, signature.Key{ID: k.ID, Secret: secret})
	}
	return keys
}

func (v vector) header() http.Header {
	h := http.Header{}
	for name, value := range v.Headers {
		h.Set(name, value)
	}
	return h
}

func TestSignVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			got := http.Header{}
			if err := signature.Sign(got, v.message(), v.keys(t), v.Schemes...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.header(), got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerifyVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		for _, scheme := range v.Schemes {
			t.Run(v.Name+" as "+string(scheme), func(t *testing.T) {
				t.Parallel()
				checkVector(t, v, signature.Verifier{Scheme: scheme, Keys: v.keys(t)[:1]})
			})
		}
	}
}

func checkVector(t *testing.T, v vector, verifier signature.Verifier) {
	t.Helper()
	now, h, body := time.Unix(v.Timestamp, 0), v.header(), []byte(v.Body)
	if err := verifier.Verify(h, body, now); err != nil {
		t.Errorf("Verify = %v", err)
	}
	if err := verifier.Verify(h, append(body, '!'), now); !errors.Is(err, signature.ErrMismatch) {
		t.Errorf("Verify of another body = %v, want ErrMismatch", err)
	}
	stranger := verifier
	stranger.Keys = []signature.Key{{Secret: bytes.Repeat([]byte{7}, 32)}}
	if err := stranger.Verify(h, body, now); !errors.Is(err, signature.ErrMismatch) {
		t.Errorf("Verify with another key = %v, want ErrMismatch", err)
	}
}

func TestSignReplacesEarlierHeaders(t *testing.T) {
	t.Parallel()
	v := vectors(t)[0]
	h := http.Header{}
	for range 2 {
		if err := signature.Sign(h, v.message(), v.keys(t), v.Schemes...); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(v.header(), h); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	good := signature.Message{ID: "evt_1", Type: "a.b", Timestamp: time.Unix(1, 0)}
	key := signature.Key{Secret: make([]byte, 32)}
	change := func(f func(*signature.Message)) signature.Message {
		m := good
		f(&m)
		return m
	}
	for _, tt := range []struct {
		name    string
		message signature.Message
		keys    []signature.Key
		scheme  signature.Scheme
		want    error
	}{
		{"no key", good, nil, signature.Standard, signature.ErrNoKey},
		{"an empty secret", good, []signature.Key{key, {ID: "sec_1"}}, signature.Standard, signature.ErrNoKey},
		{"no scheme of the name", good, []signature.Key{key}, "none", signature.ErrScheme},
		{"no id", change(func(m *signature.Message) { m.ID = "" }), []signature.Key{key}, signature.Standard, signature.ErrMessage},
		{"a dot in the id", change(func(m *signature.Message) { m.ID = "a.1" }), []signature.Key{key}, signature.Standard, signature.ErrMessage},
		{"a line break in the id", change(func(m *signature.Message) { m.ID = "a\r\nb" }), []signature.Key{key}, signature.Standard, signature.ErrMessage},
		{"a line break in the type", change(func(m *signature.Message) { m.Type = "a\nb: c" }), []signature.Key{key}, signature.Plain, signature.ErrMessage},
		{"a space in the delivery", change(func(m *signature.Message) { m.Delivery = "a b" }), []signature.Key{key}, signature.Plain, signature.ErrMessage},
		{"a time before 1970", change(func(m *signature.Message) { m.Timestamp = time.Unix(-1, 0) }), []signature.Key{key}, signature.Standard, signature.ErrMessage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := signature.Sign(http.Header{}, tt.message, tt.keys, tt.scheme); !errors.Is(err, tt.want) {
				t.Errorf("Sign = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestVerifyTolerance(t *testing.T) {
	t.Parallel()
	v := vectors(t)[0]
	verifier := signature.Verifier{Scheme: signature.Standard, Keys: v.keys(t)}
	for _, tt := range []struct {
		name      string
		offset    time.Duration
		tolerance time.Duration
		want      error
	}{
		{"five minutes old", 5 * time.Minute, 0, nil},
		{"five minutes early", -5 * time.Minute, 0, nil},
		{"older", 5*time.Minute + time.Second, 0, signature.ErrExpired},
		{"earlier", -5*time.Minute - time.Second, 0, signature.ErrExpired},
		{"an own tolerance", time.Hour, time.Hour, nil},
		{"outside an own tolerance", 2 * time.Second, time.Second, signature.ErrExpired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			verifier := verifier
			verifier.Tolerance = tt.tolerance
			err := verifier.Verify(v.header(), []byte(v.Body), time.Unix(v.Timestamp, 0).Add(tt.offset))
			if !errors.Is(err, tt.want) {
				t.Errorf("Verify = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestPlainNeverExpires(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	keys := []signature.Key{{Secret: make([]byte, 32)}}
	m := signature.Message{ID: "evt_1", Timestamp: time.Unix(1, 0), Body: []byte("{}")}
	if err := signature.Sign(h, m, keys, signature.Plain); err != nil {
		t.Fatal(err)
	}
	verifier := signature.Verifier{Scheme: signature.Plain, Keys: keys}
	if err := verifier.Verify(h, m.Body, time.Now()); err != nil {
		t.Errorf("Verify = %v", err)
	}
}

func TestParseSecret(t *testing.T) {
	t.Parallel()
	long := signature.FormatSecret(make([]byte, 64))
	for _, tt := range []struct {
		name, text string
		size       int // 0: refused
	}{
		{"as formatted", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 24},
		{"without its prefix", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 24},
		{"64 bytes", long, 64},
		{"65 bytes", signature.FormatSecret(make([]byte, 65)), 0},
		{"23 bytes", signature.FormatSecret(make([]byte, 23)), 0},
		{"nothing", "", 0},
		{"the prefix alone", "whsec_", 0},
		{"no padding", strings.TrimRight(long, "="), 0},
		{"the URL alphabet", "whsec_" + strings.Repeat("-_--", 10), 0},
		{"a line break", "whsec_MfKQ9r8GKYqrTwjUPD8I\nLPZIo2LaLaSw", 0},
		{"twice the prefix", "whsec_whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := signature.ParseSecret(tt.text)
			if len(got) != tt.size || (err == nil) != (tt.size > 0) {
				t.Errorf("ParseSecret = %d bytes, %v; want %d", len(got), err, tt.size)
			}
		})
	}
}

func TestNewSecret(t *testing.T) {
	t.Parallel()
	got, err := signature.NewSecret(strings.NewReader(strings.Repeat("x", 40)))
	if err != nil || string(got) != strings.Repeat("x", 32) {
		t.Errorf("NewSecret = %q, %v", got, err)
	}
	if _, err := signature.NewSecret(strings.NewReader("short")); err == nil {
		t.Error("NewSecret of a source that ends: no error")
	}
	parsed, err := signature.ParseSecret(signature.FormatSecret(got))
	if err != nil || !bytes.Equal(parsed, got) {
		t.Errorf("ParseSecret(FormatSecret(s)) = %q, %v", parsed, err)
	}
}
