package signature_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/signature"
)

var (
	sentAt      = time.Unix(1760000000, 0)
	hostileBody = []byte(`{"a":1}`)
	hostileKeys = []signature.Key{{ID: "sec_1", Secret: []byte(strings.Repeat("k", 32))}}
)

func signed(tb testing.TB, scheme signature.Scheme) http.Header {
	tb.Helper()
	h := http.Header{}
	m := signature.Message{ID: "evt_1", Delivery: "dlv_1", Type: "a.b", Timestamp: sentAt, Body: hostileBody}
	if err := signature.Sign(h, m, hostileKeys, scheme); err != nil {
		tb.Fatal(err)
	}
	return h
}

// TestVerifyHostileLists bends the signature header of a genuine request. In
// the list, GOOD stands for the genuine item.
func TestVerifyHostileLists(t *testing.T) {
	t.Parallel()
	wrong := "v1," + strings.Repeat("A", 43) + "="
	for _, tt := range []struct {
		name, list string
		want       error
	}{
		{"as it was", "GOOD", nil},
		{"after a wrong one", wrong + " GOOD", nil},
		{"before a wrong one", "GOOD " + wrong, nil},
		{"after 1,000 wrong ones", strings.Repeat(wrong+" ", 1000) + "GOOD", nil},
		{"after an unknown version", "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw== GOOD", nil},
		{"after items of no form", "v1 , v1, ,v1 v1,,, GOOD", nil},
		{"with spaces around", "  GOOD  ", nil},
		{"1,000 wrong ones", strings.Repeat(wrong+" ", 1000), signature.ErrMismatch},
		{"spaces alone", "   ", signature.ErrMismatch},
		{"an empty signature", "v1,", signature.ErrMismatch},
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
			h := signed(t, signature.Standard)
			h.Set("webhook-signature", strings.ReplaceAll(tt.list, "GOOD", h.Get("webhook-signature")))
			verifier := signature.Verifier{Scheme: signature.Standard, Keys: hostileKeys}
			if err := verifier.Verify(h, hostileBody, sentAt); !errors.Is(err, tt.want) {
				t.Errorf("Verify = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestVerifyHostileHeaders(t *testing.T) {
	t.Parallel()
	const id, timestamp, list, plain = "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "X-Webhook-Signature"
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := signed(t, tt.scheme)
			h[tt.header] = tt.values
			verifier := signature.Verifier{Scheme: tt.scheme, Keys: hostileKeys}
			if err := verifier.Verify(h, hostileBody, sentAt); !errors.Is(err, tt.want) {
				t.Errorf("Verify = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestBordersDoNotMove holds that no part of what is signed can be moved into
// another part: here, digits of a body that is a number into the timestamp.
func TestBordersDoNotMove(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	m := signature.Message{ID: "evt_1", Timestamp: sentAt, Body: []byte("1760000007.5")}
	if err := signature.Sign(h, m, hostileKeys, signature.Standard); err != nil {
		t.Fatal(err)
	}
	h.Set("webhook-id", "evt_1.1760000000")
	h.Set("webhook-timestamp", "1760000007")
	verifier := signature.Verifier{Scheme: signature.Standard, Keys: hostileKeys}
	if err := verifier.Verify(h, []byte("5"), sentAt); !errors.Is(err, signature.ErrMalformed) {
		t.Errorf("Verify = %v, want ErrMalformed", err)
	}
}

func TestVerifierWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]signature.Key{nil, {{ID: "sec_1"}}} {
		verifier := signature.Verifier{Scheme: signature.Standard, Keys: keys}
		if err := verifier.Verify(signed(t, signature.Standard), hostileBody, sentAt); !errors.Is(err, signature.ErrNoKey) {
			t.Errorf("Verify with keys %v = %v, want ErrNoKey", keys, err)
		}
	}
}

func FuzzVerifyStandard(f *testing.F) {
	genuine := signed(f, signature.Standard)
	f.Add("evt_1", "1760000000", genuine.Get("webhook-signature"))
	f.Add("evt_1", "1760000000", "v1, v1,AAAA v1a,x")
	f.Add("", "-1", "\x00")
	f.Fuzz(func(t *testing.T, id, timestamp, list string) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {list}}
		verifier := signature.Verifier{Scheme: signature.Standard, Keys: hostileKeys}
		if verifier.Verify(h, hostileBody, sentAt) != nil {
			return
		}
		if id != "evt_1" || timestamp != "1760000000" || !strings.Contains(list, genuine.Get("webhook-signature")) {
			t.Errorf("verified id %q, timestamp %q, list %q", id, timestamp, list)
		}
	})
}

func FuzzVerifyTimestamped(f *testing.F) {
	genuine := signed(f, signature.Timestamped)
	digits, _, _ := strings.Cut(strings.TrimPrefix(genuine.Get("webhook-signature"), "sha256="), ",")
	f.Add("1760000000", genuine.Get("webhook-signature"))
	f.Add("1760000000", "sha256=,keyId= sha256")
	f.Fuzz(func(t *testing.T, timestamp, list string) {
		h := http.Header{"Webhook-Timestamp": {timestamp}, "Webhook-Signature": {list}}
		verifier := signature.Verifier{Scheme: signature.Timestamped, Keys: hostileKeys}
		if verifier.Verify(h, hostileBody, sentAt) != nil {
			return
		}
		if timestamp != "1760000000" || !strings.Contains(strings.ToLower(list), digits) {
			t.Errorf("verified timestamp %q, list %q", timestamp, list)
		}
	})
}

func FuzzParseSecret(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	f.Add("whsec_")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := signature.ParseSecret(text)
		if err != nil {
			return
		}
		if again := signature.FormatSecret(got); again != "whsec_"+strings.TrimPrefix(text, "whsec_") {
			t.Errorf("ParseSecret(%q) formats as %q", text, again)
		}
	})
}
