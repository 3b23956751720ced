package signature_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/signature"
)

var sentAt = time.Unix(1760000000, 0)

// key returns a symmetric key whose bytes all are the letter.
func key(id string, letter byte) signature.Key {
	secret, err := signature.NewSecret(bytes.NewReader(bytes.Repeat([]byte{letter}, 32)))
	if err != nil {
		panic(err)
	}
	return signature.Key{ID: id, Secret: secret}
}

func privateKey(id string, letter byte) signature.Key {
	secret, err := signature.NewPrivateKey(bytes.NewReader(bytes.Repeat([]byte{letter}, 32)))
	if err != nil {
		panic(err)
	}
	return signature.Key{ID: id, Secret: secret}
}

func publicKey(id string, letter byte) signature.Key {
	return signature.Key{ID: id, Secret: privateKey(id, letter).Secret.Public()}
}

func allFormats() []signature.Format {
	var formats []signature.Format
	for _, s := range signature.Schemes() {
		formats = append(formats, signature.Format{Scheme: s})
	}
	return formats
}

func message() signature.Message {
	return signature.Message{
		ID: "evt_1", Delivery: "dlv_1", Type: "a.b", Occurred: sentAt, Timestamp: sentAt, Body: []byte(`{"a":1}`),
	}
}

// TestSignerSignsAsSignDoes uses one signer in many goroutines, for messages of different lengths.
func TestSignerSignsAsSignDoes(t *testing.T) {
	t.Parallel()
	keys := []signature.Key{key("sec_1", 1), privateKey("sec_2", 2), key("", 3)}
	signer, err := signature.NewSigner(keys, allFormats()...)
	if err != nil {
		t.Fatal(err)
	}
	var signing sync.WaitGroup
	for worker := range 4 {
		signing.Go(func() {
			for i := range 50 {
				m := message()
				m.ID, m.Timestamp = fmt.Sprintf("evt_%d", i), time.Unix(int64(i)*1e7, 0)
				m.Body = bytes.Repeat([]byte{byte(worker)}, i*i*7)
				checkSigner(t, signer, m, keys)
			}
		})
	}
	signing.Wait()
}

func checkSigner(t *testing.T, signer *signature.Signer, m signature.Message, keys []signature.Key) {
	t.Helper()
	head, err := signer.AppendHeader([]byte("Before: yes\r\n"), m)
	if err != nil {
		t.Error(err)
	}
	got, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(head, "\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		t.Error(err)
	}
	want := http.Header{"Before": {"yes"}}
	if err := signature.Sign(want, m, keys, allFormats()...); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, http.Header(got)); diff != "" {
		t.Errorf("header (-Sign +AppendHeader):\n%s", diff)
	}
}

// TestSignerSpelling checks what net/http would not keep: the exact spelling of header names, and
// that no name occurs twice.
func TestSignerSpelling(t *testing.T) {
	t.Parallel()
	formats := append(allFormats(), signature.Format{Scheme: signature.GitHub, Header: "X-ACME-sig"})
	signer, err := signature.NewSigner([]signature.Key{key("sec_1", 1)}, formats...)
	if err != nil {
		t.Fatal(err)
	}
	head, err := signer.AppendHeader(nil, message())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(head), "\r\n"), "\r\n") {
		name, _, _ := strings.Cut(line, ": ")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"Stripe-Signature", "Svix-Id", "Svix-Signature", "Svix-Timestamp", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp",
		"X-ACME-sig", "X-Event-ID", "X-GitHub-Delivery", "X-GitHub-Event", "X-Hub-Signature", "X-Hub-Signature-256",
		"X-Idempotency-Key", "X-Shopify-Event-Id", "X-Shopify-Hmac-Sha256", "X-Shopify-Topic", "X-Shopify-Triggered-At",
		"X-Shopify-Webhook-Id", "X-Slack-Request-Timestamp", "X-Slack-Signature", "X-Webhook-Event", "X-Webhook-ID",
		"X-Webhook-Signature", "X-Webhook-Timestamp",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestSignReplacesEarlierHeaders(t *testing.T) {
	t.Parallel()
	keys := []signature.Key{key("sec_1", 1)}
	h, want, m := http.Header{}, http.Header{}, message()
	if err := signature.Sign(h, m, keys, allFormats()...); err != nil {
		t.Fatal(err)
	}
	m.Type, m.Delivery, m.Occurred = "", "", time.Time{} // their headers are left out
	for _, header := range []http.Header{h, want} {
		if err := signature.Sign(header, m, keys, allFormats()...); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if h.Get("X-GitHub-Event")+h.Get("X-Shopify-Triggered-At") != "" {
		t.Errorf("headers of empty values: %v", h)
	}
}

func TestSignRefusesMessages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		bend func(*signature.Message)
	}{
		{"no id", func(m *signature.Message) { m.ID = "" }},
		{"a dot in the id", func(m *signature.Message) { m.ID = "a.1" }},
		{"a line break in the id", func(m *signature.Message) { m.ID = "a\r\nX-Evil: 1" }},
		{"a line break in the type", func(m *signature.Message) { m.Type = "a\nb: c" }},
		{"a space in the delivery", func(m *signature.Message) { m.Delivery = "a b" }},
		{"a time before 1970", func(m *signature.Message) { m.Timestamp = time.Unix(-1, 0) }},
		{"no time", func(m *signature.Message) { m.Timestamp = time.Time{} }},
		{"a time after 9999", func(m *signature.Message) { m.Timestamp = time.Unix(253402300800, 0) }},
		{"an event after 9999", func(m *signature.Message) { m.Occurred = time.Unix(253402300800, 0) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			signer, err := signature.NewSigner([]signature.Key{key("sec_1", 1)}, allFormats()...)
			if err != nil {
				t.Fatal(err)
			}
			m := message()
			tt.bend(&m)
			before := []byte("Before: yes\r\n")
			head, err := signer.AppendHeader(slices.Clone(before), m)
			if !errors.Is(err, signature.ErrMessage) || !bytes.Equal(head, before) {
				t.Errorf("AppendHeader = %q, %v", head, err)
			}
		})
	}
}

func TestNewSignerRefuses(t *testing.T) {
	t.Parallel()
	shared, own := key("sec_1", 1), privateKey("sec_2", 2)
	type formats = []signature.Format
	for _, tt := range []struct {
		name    string
		keys    []signature.Key
		formats formats
		want    error
	}{
		{"no key", nil, allFormats(), signature.ErrNoKey},
		{"an empty secret", []signature.Key{shared, {ID: "sec_3"}}, allFormats(), signature.ErrNoKey},
		{"a public key", []signature.Key{shared, publicKey("", 2)}, formats{{}}, signature.ErrNoKey},
		{"a private key alone", []signature.Key{own}, formats{{}, {Scheme: signature.Stripe}}, signature.ErrNoKey},
		{"no format", []signature.Key{shared}, nil, signature.ErrScheme},
		{"no such scheme", []signature.Key{shared}, formats{{Scheme: "none"}}, signature.ErrScheme},
		{"a header for standard", []signature.Key{shared}, formats{{Header: "X-Acme"}}, signature.ErrFormat},
		{"a prefix alone", []signature.Key{shared}, formats{{Scheme: signature.Plain, Prefix: "a="}}, signature.ErrFormat},
		{"a header that is no name", []signature.Key{shared}, formats{{Scheme: signature.Plain, Header: "a: b"}}, signature.ErrFormat},
		{
			"a line break in a prefix",
			[]signature.Key{shared},
			formats{{Scheme: signature.Plain, Header: "a", Prefix: "\r\n"}},
			signature.ErrFormat,
		},
		{"a format twice", []signature.Key{shared}, formats{{}, {Scheme: signature.Standard}}, signature.ErrFormat},
		{
			"a header twice",
			[]signature.Key{shared},
			formats{{Scheme: signature.Plain, Header: "X-A"}, {Scheme: signature.Shopify, Header: "x-a"}},
			signature.ErrFormat,
		},
		{
			"a header of another scheme",
			[]signature.Key{shared},
			formats{{}, {Scheme: signature.Plain, Header: "webhook-signature"}},
			signature.ErrFormat,
		},
		{"a companion's header", []signature.Key{shared}, formats{{Scheme: signature.Plain, Header: "x-event-id"}}, signature.ErrFormat},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := signature.NewSigner(tt.keys, tt.formats...); !errors.Is(err, tt.want) {
				t.Errorf("NewSigner: %v, want %v", err, tt.want)
			}
		})
	}
}

// TestRootAgrees: the root package has the same schemes, and no endpoint can set a header that a
// scheme writes.
func TestRootAgrees(t *testing.T) {
	t.Parallel()
	keys := []signature.Key{key("sec_1", 1)}
	var schemes []signature.Scheme
	for _, s := range postrider.Schemes {
		schemes = append(schemes, signature.Scheme(s))
		_, err := signature.NewSigner(keys, signature.Format{Scheme: signature.Scheme(s), Header: "X-Acme-Signature"})
		if (err == nil) != s.CustomHeaderAllowed() {
			t.Errorf("scheme %s with a header of its own: %v, but CustomHeaderAllowed is %v", s, err, s.CustomHeaderAllowed())
		}
	}
	if diff := cmp.Diff(signature.Schemes(), schemes); diff != "" {
		t.Errorf("schemes (-signature +postrider):\n%s", diff)
	}
	h := http.Header{}
	if err := signature.Sign(h, message(), keys, allFormats()...); err != nil {
		t.Fatal(err)
	}
	for name := range h {
		if postrider.CheckHeaderName("headers[0].name", name) == nil {
			t.Errorf("an endpoint may set %s, which a scheme writes", name)
		}
	}
}
