package signature_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/signature"
)

func secretMAC(secret string, body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

// request is a message, with the keys and formats that sign it.
type request struct {
	message signature.Message
	keys    []signature.Key
	formats []signature.Format
	header  http.Header
}

func drawRequest(t *rapid.T) request {
	r := request{header: http.Header{}}
	r.message = signature.Message{
		ID:        rapid.StringMatching(`[!-\-/-~]{1,40}`).Draw(t, "id"),
		Delivery:  rapid.StringMatching(`[!-~]{0,40}`).Draw(t, "delivery"),
		Type:      rapid.StringMatching(`[a-z.]{0,20}`).Draw(t, "type"),
		Timestamp: time.Unix(rapid.Int64Range(0, 253402300799).Draw(t, "timestamp"), 0),
		Body:      rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
	}
	r.keys = []signature.Key{key("sec_0", 0)} // at least one key that every scheme can use
	for i := range rapid.IntRange(0, 4).Draw(t, "more keys") {
		more := key("sec", byte(i+1))
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			more = privateKey("sec", byte(i+1))
		case 2:
			more.Secret = secretOf(rapid.StringMatching(`[!-^a-~]{24,64}`).Draw(t, "text"))
		}
		r.keys = slices.Insert(r.keys, rapid.IntRange(0, len(r.keys)).Draw(t, "place"), more)
	}
	r.formats = rapid.SliceOfNDistinct(rapid.SampledFrom(allFormats()), 1, -1, func(f signature.Format) signature.Scheme {
		return f.Scheme
	}).Draw(t, "formats")
	if rapid.Bool().Draw(t, "bent") {
		r.formats = append(r.formats, signature.Format{
			Scheme: rapid.SampledFrom([]signature.Scheme{signature.GitHub, signature.GitHubSHA1, signature.Shopify, signature.Plain}).Draw(t,
				"scheme"),
			Header: "X-Acme-" + rapid.StringMatching(`[A-Za-z0-9-]{1,20}`).Draw(t, "header"),
			Prefix: rapid.StringMatching(`[!-~]{0,10}`).Draw(t, "prefix"),
		})
	}
	if err := signature.Sign(r.header, r.message, r.keys, r.formats...); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSignedIsVerified: a request in any set of formats is verified by a receiver that knows one of
// the formats, and all keys or one of them.
func TestSignedIsVerified(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		for _, f := range r.formats {
			verifier := signature.Verifier{Format: f, Keys: r.keys}
			if err := verifier.Verify(r.header, r.message.Body, r.message.Timestamp); err != nil {
				t.Errorf("%v: %v", f, err)
			}
			for _, k := range signing(f, r.keys) {
				if public := k.Secret.Public(); !public.IsZero() {
					k.Secret = public
				}
				verifier.Keys = []signature.Key{k}
				if err := verifier.Verify(r.header, r.message.Body, r.message.Timestamp); err != nil {
					t.Errorf("%v with one key: %v", f, err)
				}
			}
		}
	})
}

// TestOneFlippedBitFails flips a bit of the body, or a bit of every signature at once.
func TestOneFlippedBitFails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		f := rapid.SampledFrom(r.formats).Draw(t, "format")
		verifier := signature.Verifier{Format: f, Keys: r.keys}
		body := slices.Clone(r.message.Body)
		if len(body) > 0 {
			bit := rapid.IntRange(0, 8*len(body)-1).Draw(t, "bit")
			body[bit/8] ^= 1 << (bit % 8)
			if err := verifier.Verify(r.header, body, r.message.Timestamp); !errors.Is(err, signature.ErrMismatch) {
				t.Errorf("%v with another body: %v", f, err)
			}
		}
		name := signatureHeaders[f.Scheme]
		if f.Header != "" {
			name = f.Header
		}
		r.header.Set(name, flipItems(t, r.header.Get(name)))
		err := verifier.Verify(r.header, r.message.Body, r.message.Timestamp)
		if err == nil {
			t.Errorf("%v with signature %q: accepted", f, r.header.Get(name))
		}
	})
}

// flipItems flips a bit in the middle of every item of a signature header. It never flips bit 5,
// which only changes the case of a hexadecimal digit.
func flipItems(t *rapid.T, value string) string {
	bits := rapid.SampledFrom([]byte{1, 2, 4, 8, 16, 64, 128}).Draw(t, "flipped")
	items := strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ',' })
	for _, item := range items {
		if len(item) >= 28 {
			flipped := []byte(item)
			flipped[20] ^= bits
			value = strings.ReplaceAll(value, item, string(flipped))
		}
	}
	return value
}
