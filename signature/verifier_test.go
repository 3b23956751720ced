package signature_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/signature"
)

// signed returns the header of message(), signed in the format with the keys.
func signed(tb testing.TB, f signature.Format, keys ...signature.Key) http.Header {
	tb.Helper()
	h := http.Header{}
	if err := signature.Sign(h, message(), keys, f); err != nil {
		tb.Fatal(err)
	}
	return h
}

// signatureHeaders are the names of the headers in which each scheme has its signatures.
var signatureHeaders = map[signature.Scheme]string{
	signature.Standard: "Webhook-Signature", signature.Stripe: "Stripe-Signature", signature.GitHub: "X-Hub-Signature-256",
	signature.GitHubSHA1: "X-Hub-Signature", signature.Shopify: "X-Shopify-Hmac-Sha256", signature.Slack: "X-Slack-Signature",
	signature.Svix: "Svix-Signature", signature.Timestamped: "Webhook-Signature", signature.Plain: "X-Webhook-Signature",
}

// TestVerifyHostileLists changes the signature header of a genuine request. In the list, GOOD
// stands for the genuine item.
func TestVerifyHostileLists(t *testing.T) {
	t.Parallel()
	wrong := "v1," + strings.Repeat("A", 43) + "="
	wrongEd25519 := "v1a," + strings.Repeat("A", 86) + "=="
	for _, tt := range []struct {
		name, list string
		want       error
	}{
		{"as it was", "GOOD", nil},
		{"after a wrong one", wrong + " GOOD", nil},
		{"before a wrong one", "GOOD " + wrong, nil},
		{"the 64th", strings.Repeat(wrong+" ", 63) + "GOOD", nil},
		{"before 1,000 wrong ones", "GOOD" + strings.Repeat(" "+wrong, 1000), nil},
		{"beyond what is looked at", strings.Repeat(wrong+" ", 64) + "GOOD", signature.ErrMismatch},
		{"after an unknown version", "v2,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw== GOOD", nil},
		{"after 1,000 of unknown versions", strings.Repeat("v2,x ", 1000) + "GOOD", nil},
		{"after a wrong one of ed25519", wrongEd25519 + " GOOD", nil},
		{"after items of no form", "v1 , v1, ,v1 v1,,, GOOD", nil},
		{"with spaces around", "  GOOD  ", nil},
		{"1,000 wrong ones", strings.Repeat(wrong+" ", 1000), signature.ErrMismatch},
		{"1,000 wrong ones of ed25519", strings.Repeat(wrongEd25519+" ", 1000), signature.ErrMismatch},
		{"spaces alone", "   ", signature.ErrMismatch},
		{"an empty signature", "v1,", signature.ErrMismatch},
		{"an empty one of ed25519", "v1a,", signature.ErrMismatch},
		{"no version", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", signature.ErrMismatch},
		{"short", "v1,AAAA", signature.ErrMismatch},
		{"long", "v1," + strings.Repeat("A", 10_000), signature.ErrMismatch},
		{"not base64", "v1," + strings.Repeat("!", 44), signature.ErrMismatch},
		{"line breaks for padding", "v1," + strings.Repeat("A", 40) + "\r\n\r\n", signature.ErrMismatch},
		{"another version's name", "V1,GOOD", signature.ErrMismatch},
		{"NUL and 0xff", "v1,\x00\xff", signature.ErrMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, k := range []signature.Key{key("sec_1", 1), privateKey("sec_1", 1)} {
				h := signed(t, signature.Format{}, k)
				h.Set("webhook-signature", strings.ReplaceAll(tt.list, "GOOD", h.Get("webhook-signature")))
				verifier := signature.Verifier{Keys: []signature.Key{key("", 2), k}}
				if err := verifier.Verify(h, message().Body, sentAt); !errors.Is(err, tt.want) {
					t.Errorf("Verify = %v, want %v", err, tt.want)
				}
			}
		})
	}
}

func TestVerifyHostileHeaders(t *testing.T) {
	t.Parallel()
	const id, timestamp, list, plain = "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "X-Webhook-Signature"
	const slack, slackTime, stripe = "X-Slack-Signature", "X-Slack-Request-Timestamp", "Stripe-Signature"
	for _, tt := range []struct {
		name   string
		scheme signature.Scheme
		header string
		values []string
		want   error
	}{
		{"no signature", signature.Standard, list, nil, signature.ErrNoSignature},
		{"no id", signature.Standard, id, nil, signature.ErrNoSignature},
		{"an empty id", signature.Standard, id, []string{""}, signature.ErrNoSignature},
		{"two ids", signature.Standard, id, []string{"evt_1", "evt_2"}, signature.ErrMalformed},
		{"a dot in the id", signature.Standard, id, []string{"evt.1"}, signature.ErrMalformed},
		{"another id", signature.Standard, id, []string{"evt_2"}, signature.ErrMismatch},
		{"no timestamp", signature.Standard, timestamp, nil, signature.ErrNoSignature},
		{"two timestamps", signature.Standard, timestamp, []string{"1760000000", "1"}, signature.ErrMalformed},
		{"a signed timestamp", signature.Standard, timestamp, []string{"+1760000000"}, signature.ErrMalformed},
		{"a fraction", signature.Standard, timestamp, []string{"1760000000.5"}, signature.ErrMalformed},
		{"an exponent", signature.Timestamped, timestamp, []string{"1e300"}, signature.ErrMalformed},
		{"hexadecimal", signature.Timestamped, timestamp, []string{"0x68e77800"}, signature.ErrMalformed},
		{"a huge timestamp", signature.Timestamped, timestamp, []string{strings.Repeat("9", 4096)}, signature.ErrMalformed},
		{"the last second", signature.Standard, timestamp, []string{"999999999999"}, signature.ErrExpired},
		{"zero", signature.Standard, timestamp, []string{"0"}, signature.ErrExpired},
		{"another timestamp", signature.Timestamped, timestamp, []string{"1760000001"}, signature.ErrMismatch},
		{"a leading zero", signature.Timestamped, timestamp, []string{"01760000000"}, signature.ErrMismatch},
		{"timestamped without a signature", signature.Timestamped, list, nil, signature.ErrNoSignature},
		{"half the digits", signature.Timestamped, list, []string{"sha256=abcd,keyId=sec_1"}, signature.ErrMismatch},
		{"no hexadecimal", signature.Timestamped, list, []string{"sha256=" + strings.Repeat("z", 64)}, signature.ErrMismatch},
		{"a weaker algorithm", signature.Timestamped, list, []string{"sha1=" + strings.Repeat("0", 40)}, signature.ErrMismatch},
		{"plain without a signature", signature.Plain, plain, nil, signature.ErrNoSignature},
		{"an empty plain signature", signature.Plain, plain, []string{""}, signature.ErrMismatch},
		{"no prefix", signature.Plain, plain, []string{strings.Repeat("0", 64)}, signature.ErrMismatch},
		{"two slack signatures", signature.Slack, slack, []string{"v0=", "v0="}, signature.ErrMalformed},
		{"two slack timestamps", signature.Slack, slackTime, []string{"1760000000", "1760000000"}, signature.ErrMalformed},
		{"stripe without a time", signature.Stripe, stripe, []string{"v1=" + strings.Repeat("0", 64)}, signature.ErrMalformed},
		{"stripe with an empty time", signature.Stripe, stripe, []string{"t=,v1="}, signature.ErrMalformed},
		{"stripe with two times", signature.Stripe, stripe, []string{"t=1760000000,t=1760000000"}, signature.ErrMalformed},
		{"stripe in two headers", signature.Stripe, stripe, []string{"t=1760000000", "v1="}, signature.ErrMalformed},
		{"stripe with commas alone", signature.Stripe, stripe, []string{",,,"}, signature.ErrMalformed},
		{"stripe without signatures", signature.Stripe, stripe, []string{"t=1760000000"}, signature.ErrMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keys := []signature.Key{key("sec_1", 1)}
			verifier := signature.Verifier{Format: signature.Format{Scheme: tt.scheme}, Keys: keys}
			h := signed(t, verifier.Format, keys...)
			h[tt.header] = tt.values
			if err := verifier.Verify(h, message().Body, sentAt); !errors.Is(err, tt.want) {
				t.Errorf("Verify = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestBordersDoNotMove: no part of the signed content can be moved into another part. Here the body
// is a number, whose digits are moved into the timestamp.
func TestBordersDoNotMove(t *testing.T) {
	t.Parallel()
	h, keys, m := http.Header{}, []signature.Key{key("sec_1", 1)}, message()
	m.Body = []byte("1760000007.5")
	if err := signature.Sign(h, m, keys, signature.Format{}); err != nil {
		t.Fatal(err)
	}
	h.Set("webhook-id", "evt_1.1760000000")
	h.Set("webhook-timestamp", "1760000007")
	verifier := signature.Verifier{Keys: keys}
	if err := verifier.Verify(h, []byte("5"), sentAt); !errors.Is(err, signature.ErrMalformed) {
		t.Errorf("Verify = %v, want ErrMalformed", err)
	}
}

func TestVerifierKeys(t *testing.T) {
	t.Parallel()
	empty := signature.Key{ID: "sec_1"}
	for _, f := range allFormats() {
		for _, tt := range []struct {
			name string
			keys []signature.Key
			want error
		}{
			{"none", nil, signature.ErrNoKey},
			{"an empty one", []signature.Key{key("", 1), empty}, signature.ErrNoKey},
			{"another and the right one", []signature.Key{key("", 2), key("", 1)}, nil},
			{"a public one and the right one", []signature.Key{publicKey("", 2), key("", 1)}, nil},
		} {
			t.Run(string(f.Scheme)+" with "+tt.name, func(t *testing.T) {
				t.Parallel()
				verifier := signature.Verifier{Format: f, Keys: tt.keys}
				if err := verifier.Verify(signed(t, f, key("", 1)), message().Body, sentAt); !errors.Is(err, tt.want) {
					t.Errorf("Verify = %v, want %v", err, tt.want)
				}
			})
		}
	}
}

func TestVerifyTolerance(t *testing.T) {
	t.Parallel()
	expires := func(s signature.Scheme) bool { // these schemes sign a timestamp
		return s != signature.GitHub && s != signature.GitHubSHA1 && s != signature.Shopify && s != signature.Plain
	}
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
		for _, f := range allFormats() {
			t.Run(tt.name+" "+string(f.Scheme), func(t *testing.T) {
				t.Parallel()
				verifier := signature.Verifier{Format: f, Keys: []signature.Key{key("", 1)}, Tolerance: tt.tolerance}
				want := tt.want
				if !expires(f.Scheme) {
					want = nil
				}
				err := verifier.Verify(signed(t, f, verifier.Keys...), message().Body, sentAt.Add(tt.offset))
				if !errors.Is(err, want) {
					t.Errorf("Verify = %v, want %v", err, want)
				}
			})
		}
	}
}

// TestVerifyErrorsShowNothing: no error contains bytes of a request or a key.
func TestVerifyErrorsShowNothing(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	text, err := signature.TextSecret(strings.Repeat(canary, 5))
	if err != nil {
		t.Fatal(err)
	}
	wanted := base64.StdEncoding.EncodeToString([]byte(canary))
	for _, f := range allFormats() {
		for _, value := range []string{canary, "t=" + canary, "v1," + canary, "sha256=" + canary, ""} {
			h := signed(t, f, key("", 1))
			for name := range h {
				h := h.Clone()
				h.Set(name, value)
				verifier := signature.Verifier{Format: f, Keys: []signature.Key{{ID: canary, Secret: text}}}
				err := verifier.Verify(h, []byte(canary), sentAt)
				if err == nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), wanted) {
					t.Errorf("%s with %s: %s: Verify = %v", f.Scheme, name, value, err)
				}
			}
		}
	}
}
