package signature_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/signature"
)

// vectorFile has the contents of testdata/vectors.json, which testdata/README.md describes.
type vectorFile struct {
	Vectors []vector
	Refused []refusal
}

type vector struct {
	Name       string
	Formats    []signature.Format
	Keys       []vectorKey
	ID         string
	Delivery   string
	Type       string
	Occurred   time.Time
	Timestamp  int64
	Body       string
	BodyBase64 []byte `json:"body_base64"`
	Headers    map[string]string
}

type vectorKey struct{ ID, Secret string }

type refusal struct {
	Name    string
	Format  signature.Format
	Keys    []vectorKey
	Now     int64
	Body    string
	Headers map[string]string
	Error   string
}

func readVectors(t *testing.T) vectorFile {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 75 || len(file.Refused) < 110 {
		t.Fatalf("testdata/vectors.json has %d vectors and %d refusals", len(file.Vectors), len(file.Refused))
	}
	return file
}

func (v vector) message() signature.Message {
	return signature.Message{
		ID: v.ID, Delivery: v.Delivery, Type: v.Type, Occurred: v.Occurred,
		Timestamp: time.Unix(v.Timestamp, 0), Body: append([]byte(v.Body), v.BodyBase64...),
	}
}

func keysOf(list []vectorKey) []signature.Key {
	var keys []signature.Key
	for _, k := range list {
		keys = append(keys, signature.Key{ID: k.ID, Secret: secretOf(k.Secret)})
	}
	return keys
}

func secretOf(text string) signature.Secret {
	if secret, err := signature.ParseSecret(text); err == nil {
		return secret
	}
	if secret, err := signature.TextSecret(text); err == nil {
		return secret
	}
	return signature.AnySecret(text)
}

func headerOf(headers map[string]string) http.Header {
	h := http.Header{}
	for name, value := range headers {
		h.Set(name, value)
	}
	return h
}

func TestSignVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			got := http.Header{}
			if err := signature.Sign(got, v.message(), keysOf(v.Keys), v.Formats...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(headerOf(v.Headers), got); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerifyVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Vectors {
		for _, f := range v.Formats {
			t.Run(v.Name+" as "+string(f.Scheme)+f.Header, func(t *testing.T) {
				t.Parallel()
				checkVector(t, v, f)
			})
		}
	}
}

// checkVector verifies a vector with all of its keys, and with each single key that signed it.
func checkVector(t *testing.T, v vector, f signature.Format) {
	t.Helper()
	keys := keysOf(v.Keys)
	verify := func(body []byte, keys ...signature.Key) error {
		verifier := signature.Verifier{Format: f, Keys: keys}
		return verifier.Verify(headerOf(v.Headers), body, time.Unix(v.Timestamp, 0))
	}
	body := v.message().Body
	if err := verify(body, keys...); err != nil {
		t.Errorf("Verify = %v", err)
	}
	if err := verify(append(slices.Clone(body), '!'), keys...); !errors.Is(err, signature.ErrMismatch) {
		t.Errorf("Verify of another body = %v, want ErrMismatch", err)
	}
	for _, k := range signing(f, keys) {
		if err := verify(body, k); err != nil {
			t.Errorf("Verify with key %s alone = %v", k.ID, err)
		}
		if public := k.Secret.Public(); !public.IsZero() {
			if err := verify(body, signature.Key{Secret: public}); err != nil {
				t.Errorf("Verify with the public half of key %s = %v", k.ID, err)
			}
		}
	}
}

// signing returns the keys with which a format signs.
func signing(f signature.Format, keys []signature.Key) []signature.Key {
	if f.Scheme == signature.Standard || f.Scheme == signature.Svix {
		return keys
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(k signature.Key) bool { return !k.Secret.Public().IsZero() })
	if f.Scheme != signature.Stripe {
		keys = keys[:1]
	}
	return keys
}

func TestRefuseVectors(t *testing.T) {
	t.Parallel()
	reasons := map[string]error{
		"mismatch": signature.ErrMismatch, "expired": signature.ErrExpired, "malformed": signature.ErrMalformed,
		"no signature": signature.ErrNoSignature, "no key": signature.ErrNoKey,
		"format": signature.ErrFormat, "scheme": signature.ErrScheme,
	}
	for _, r := range readVectors(t).Refused {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			verifier := signature.Verifier{Format: r.Format, Keys: keysOf(r.Keys)}
			err := verifier.Verify(headerOf(r.Headers), []byte(r.Body), time.Unix(r.Now, 0))
			if !errors.Is(err, reasons[r.Error]) {
				t.Errorf("Verify = %v, want %v", err, reasons[r.Error])
			}
		})
	}
}

// TestVectorsCoverEveryScheme fails for a scheme without vectors.
func TestVectorsCoverEveryScheme(t *testing.T) {
	t.Parallel()
	file := readVectors(t)
	for _, scheme := range signature.Schemes() {
		signs := slices.ContainsFunc(file.Vectors, func(v vector) bool {
			return len(v.Formats) == 1 && v.Formats[0].Scheme == scheme && strings.Contains(v.Name, "rotation")
		})
		refuses := slices.ContainsFunc(file.Refused, func(r refusal) bool { return r.Format.Scheme == scheme })
		if !signs || !refuses {
			t.Errorf("scheme %s has no vector of a rotation or none that is refused", scheme)
		}
	}
}
