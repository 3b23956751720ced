package signature_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/signature"
)

// Each fuzz target below changes what a receiver reads of a genuine request.
// Verify must not panic, and what it accepts must have the genuine id,
// timestamp and signature in it: nothing else did a key sign.

func FuzzVerifyStandard(f *testing.F) { fuzzList(f, signature.Standard, "Webhook-") }

func FuzzVerifySvix(f *testing.F) { fuzzList(f, signature.Svix, "Svix-") }

func fuzzList(f *testing.F, scheme signature.Scheme, prefix string) {
	f.Helper()
	verifier := signature.Verifier{
		Format: signature.Format{Scheme: scheme},
		Keys:   []signature.Key{key("sec_1", 1), publicKey("sec_2", 2)},
	}
	genuine := signed(f, verifier.Format, key("sec_1", 1), privateKey("sec_2", 2)).Get(prefix + "Signature")
	asymmetric, mac, _ := strings.Cut(genuine, " ")
	for _, list := range []string{genuine, asymmetric, mac, mac + " " + mac, "v1, v1,AAAA v1a,x", "v1a," + mac, "", "\x00"} {
		f.Add("evt_1", "1760000000", list)
	}
	f.Add("", "-1", "v1,")
	f.Add("evt_1.1760000000", "1760000000", genuine)
	f.Fuzz(func(t *testing.T, id, timestamp, list string) {
		h := http.Header{prefix + "Id": {id}, prefix + "Timestamp": {timestamp}, prefix + "Signature": {list}}
		if verifier.Verify(h, message().Body, sentAt) != nil {
			return
		}
		if id != "evt_1" || timestamp != "1760000000" || !strings.Contains(list, asymmetric) && !strings.Contains(list, mac) {
			t.Errorf("verified id %q, timestamp %q, list %q", id, timestamp, list)
		}
	})
}

func FuzzVerifyTimestamped(f *testing.F) {
	fuzzTimed(f, signature.Timestamped, "Webhook-Timestamp", "sha256=,keyId= sha256")
}

func FuzzVerifySlack(f *testing.F) {
	fuzzTimed(f, signature.Slack, "X-Slack-Request-Timestamp", "v0=v0=")
}

func fuzzTimed(f *testing.F, scheme signature.Scheme, timeHeader, odd string) {
	f.Helper()
	verifier := signature.Verifier{Format: signature.Format{Scheme: scheme}, Keys: []signature.Key{key("sec_1", 1)}}
	name := signatureHeaders[scheme]
	genuine := signed(f, verifier.Format, verifier.Keys...).Get(name)
	digits, _, _ := strings.Cut(genuine[strings.Index(genuine, "=")+1:], ",")
	for _, list := range []string{genuine, strings.ToUpper(genuine), digits, odd, "", "\x00"} {
		f.Add("1760000000", list)
	}
	f.Add("01760000000", genuine)
	f.Fuzz(func(t *testing.T, timestamp, list string) {
		h := http.Header{timeHeader: {timestamp}, name: {list}}
		if verifier.Verify(h, message().Body, sentAt) != nil {
			return
		}
		if timestamp != "1760000000" || !strings.Contains(strings.ToLower(list), digits) {
			t.Errorf("verified timestamp %q, signature %q", timestamp, list)
		}
	})
}

func FuzzVerifyStripe(f *testing.F) {
	verifier := signature.Verifier{Format: signature.Format{Scheme: signature.Stripe}, Keys: []signature.Key{key("sec_1", 1)}}
	genuine := signed(f, verifier.Format, verifier.Keys...).Get("Stripe-Signature")
	_, digits, _ := strings.Cut(genuine, ",v1=")
	for _, list := range []string{genuine, genuine + ",v0=x", "v1=,t=", ",,,", "t=1,t=1760000000,v1=" + digits, "t", "\x00"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		if verifier.Verify(http.Header{"Stripe-Signature": {list}}, message().Body, sentAt) != nil {
			return
		}
		items := strings.Split(list, ",")
		if !contains(items, "t=1760000000") || !contains(items, "v1="+digits) {
			t.Errorf("verified %q", list)
		}
	})
}

func contains(items []string, item string) bool {
	for _, other := range items {
		if strings.EqualFold(other, item) {
			return true
		}
	}
	return false
}

// FuzzVerifyBody tests the schemes that sign only the body, in another header with any prefix.
func FuzzVerifyBody(f *testing.F) {
	keys := []signature.Key{key("sec_1", 1)}
	schemes := []signature.Scheme{signature.GitHub, signature.GitHubSHA1, signature.Shopify, signature.Plain}
	for i, s := range schemes {
		genuine := signed(f, signature.Format{Scheme: s}, keys...).Get(signatureHeaders[s])
		f.Add(i, "", genuine)
		f.Add(i, "hmac=", "hmac="+genuine[strings.Index(genuine, "=")+1:])
		f.Add(i, "a", "")
	}
	f.Fuzz(func(t *testing.T, i int, prefix, value string) {
		format := signature.Format{Scheme: schemes[uint(i)%uint(len(schemes))], Header: "X-Acme-Signature", Prefix: prefix}
		verifier := signature.Verifier{Format: format, Keys: keys}
		h := http.Header{"X-Acme-Signature": {value}}
		if verifier.Verify(h, message().Body, sentAt) != nil {
			return
		}
		want := signed(t, format, keys...).Get("X-Acme-Signature")
		if format.Scheme != signature.Shopify {
			value = prefix + strings.ToLower(strings.TrimPrefix(value, prefix))
		}
		if value != want {
			t.Errorf("verified %q in %v, want %q", value, format, want)
		}
	})
}

func FuzzParseSecret(f *testing.F) {
	for _, text := range []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", privateText, publicText, "whsec_", "_", "whsk_\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := signature.ParseSecret(text)
		if err == nil && parsed.Text() != text {
			t.Errorf("ParseSecret(%q) is %q", text, parsed.Text())
		}
		brought, textErr := signature.TextSecret(text)
		if textErr == nil && brought.Text() != text {
			t.Errorf("TextSecret(%q) is %q", text, brought.Text())
		}
		if err == nil && textErr == nil {
			t.Errorf("%q is a secret of two kinds", text)
		}
	})
}

// FuzzSigner signs with header names and prefixes that customers choose. The header must parse as
// exactly these fields.
func FuzzSigner(f *testing.F) {
	f.Add("evt_1", "a.b", "X-Acme-Signature", "hmac=", []byte("{}"))
	f.Add("evt_1\r\n", "a b", "a:b", "\r\nX-Evil: 1", []byte{0})
	f.Fuzz(func(t *testing.T, id, kind, header, prefix string, body []byte) {
		keys := []signature.Key{key("sec_1", 1)}
		signer, err := signature.NewSigner(keys, signature.Format{Scheme: signature.Shopify, Header: header, Prefix: prefix})
		if err != nil {
			return
		}
		head, err := signer.AppendHeader(nil, signature.Message{ID: id, Type: kind, Timestamp: sentAt, Body: body})
		if err != nil {
			return
		}
		if header == "" {
			header = "X-Shopify-Hmac-Sha256"
		}
		mac := secretMAC(keys[0].Secret.Text(), body)
		want := header + ": " + prefix + base64.StdEncoding.EncodeToString(mac) + "\r\n"
		if kind != "" {
			want += "X-Shopify-Topic: " + kind + "\r\n"
		}
		want += "X-Shopify-Event-Id: " + id + "\r\n"
		if string(head) != want || bytes.Count(head, []byte("\n")) != strings.Count(want, "\r\n") {
			t.Errorf("head %q, want %q; MAC %s", head, want, hex.EncodeToString(mac))
		}
	})
}
