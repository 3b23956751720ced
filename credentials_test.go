package postrider_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/signature"
)

func TestCredentialsAreInNoText(t *testing.T) {
	t.Parallel()
	c := postrider.Credentials{Headers: map[string]string{"X-Token": "hush"}, Auth: "hush", TLSKey: "hush"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for name, value := range map[string]any{
			"a value": c, "a pointer": &c, "a list": []postrider.Credentials{c}, "a field": struct{ C postrider.Credentials }{c},
			"an error": fmt.Errorf("open %v: %w", c, postrider.ErrInvalid),
		} {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, "hush") || strings.Contains(text, fmt.Sprintf("%x", "hush")) {
				t.Errorf("%s of %s is %s", verb, name, text)
			}
		}
	}
	if got := fmt.Sprint(c); got != "credentials" {
		t.Errorf("they print as %q", got)
	}
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		slog.New(handler(&out)).Info("encrypted", "value", c, "pointer", &c)
		if line := out.String(); strings.Contains(line, "hush") || !strings.Contains(line, "credentials") {
			t.Errorf("%s logged %s", name, line)
		}
	}
}

func TestCheckHeaderName(t *testing.T) {
	t.Parallel()
	const (
		form     = "h must be a header name of at most 128 letters, digits and hyphens"
		reserved = "h must not be a header that is set for every request"
	)
	for name, want := range map[string]string{
		"X-Tenant": "", "x": "", "Accept": "", "X-1": "", "-": "", strings.Repeat("a", 128): "",
		"Webhook": "", "X-Hosts": "", "Sec": "", "X-Shopify-Shop-Domain": "",

		"": form, strings.Repeat("a", 129): form, "X Tenant": form, "X-Tenant:": form, "X_Tenant": form, "X-Tenant\r\n": form,
		"X-Größe": form, "X.Tenant": form, " X-Tenant": form,

		"Host": reserved, "CONTENT-LENGTH": reserved, "content-type": reserved, "Transfer-Encoding": reserved, "Connection": reserved,
		"Cookie": reserved, "Authorization": reserved, "User-Agent": reserved, "Webhook-Anything": reserved, "svix-x": reserved,
		"Proxy-Authorization": reserved, "Sec-Fetch-Site": reserved, "X-Forwarded-For": reserved, "HTTP2-Settings": reserved,
		"X-Webhook-Signature": reserved, "Stripe-Signature": reserved, "x-github-event": reserved,
	} {
		if got := strings.Join(faults(postrider.CheckHeaderName("h", name)), ", "); got != want {
			t.Errorf("CheckHeaderName(%q) = %q, want %q", name, got, want)
		}
	}
}

// A customer may not set any header that a scheme sets.
func TestHeadersOfSchemesAreReserved(t *testing.T) {
	t.Parallel()
	secret, err := signature.ParseSecret("whsec_" + strings.Repeat("A", 32))
	if err != nil {
		t.Fatal(err)
	}
	var formats []signature.Format
	for _, scheme := range signature.Schemes() {
		formats = append(formats, signature.Format{Scheme: scheme})
	}
	written := http.Header{}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	message := signature.Message{ID: "evt_1", Delivery: "dlv_1", Type: "order.created", Occurred: noon, Timestamp: noon}
	if err := signature.Sign(written, message, []signature.Key{{ID: "sec_1", Secret: secret}}, formats...); err != nil {
		t.Fatal(err)
	}
	if len(written) < len(formats) {
		t.Fatalf("%d schemes wrote %d headers", len(formats), len(written))
	}
	for name := range written {
		if postrider.CheckHeaderName("h", name) == nil {
			t.Errorf("%s is not reserved", name)
		}
	}
}

func TestCheckHeaderValue(t *testing.T) {
	t.Parallel()
	for value, valid := range map[string]bool{
		"": true, "acme": true, "a b": true, "~!\"#": true, strings.Repeat("a", 4096): true,
		strings.Repeat("a", 4097): false, " a": false, "a ": false, " ": false, "a\r\nX: y": false, "a\tb": false,
		"a\x00": false, "\x7f": false, "größe": false, "\xff": false,
	} {
		want := "v must be at most 4096 printable ASCII characters, without spaces at either end"
		if valid {
			want = ""
		}
		if got := strings.Join(faults(postrider.CheckHeaderValue("v", value)), ", "); got != want {
			t.Errorf("CheckHeaderValue(%.20q) = %q, want %q", value, got, want)
		}
	}
}

// sized returns n headers that take size bytes together in a request.
func sized(n, size int) (list []postrider.Header) {
	for i := range n {
		h := postrider.Header{Name: "X-" + strconv.Itoa(i)}
		share := size / n
		if i == n-1 {
			share += size % n
		}
		h.Value = strings.Repeat("a", share-len(h.Name)-len(": \r\n"))
		list = append(list, h)
	}
	return list
}

func TestPolicyCheckOfHeaders(t *testing.T) {
	t.Parallel()
	const bounds = "headers must be at most 32 of 8 KiB together"
	for _, tt := range []struct {
		name    string
		headers []postrider.Header
		want    []string
	}{
		{"a value and a secret", []postrider.Header{{Name: "X-Tenant", Value: "acme"}, {Name: "X-Token", Secret: true}}, nil},
		{"as many as may be", sized(32, 8<<10), nil},
		{"too many", sized(33, 8<<10), []string{bounds}},
		{"too large", sized(3, 8<<10+1), []string{bounds}},
		{"a name and a value that cannot be", []postrider.Header{{Name: "X-Tenant"}, {Name: "Host:", Value: "a\n"}}, []string{
			"headers[1].name must be a header name of at most 128 letters, digits and hyphens",
			"headers[1].value must be at most 4096 printable ASCII characters, without spaces at either end",
		}},
		{
			"one twice",
			[]postrider.Header{{Name: "X-Tenant"}, {Name: "x-tenant"}},
			[]string{"headers[1].name must not repeat a header"},
		},
		{
			"a secret in the open",
			[]postrider.Header{{Name: "X-Token", Value: "hush", Secret: true}},
			[]string{"headers[0].value must be kept apart"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			policy := postrider.DefaultPolicy()
			policy.Headers = tt.headers
			if diff := cmp.Diff(tt.want, faults(policy.Check())); diff != "" {
				t.Errorf("Check differs (-want +got):\n%s", diff)
			}
		})
	}
}

var authRows = []struct {
	name string
	auth postrider.Auth
	want []string
}{
	{"none", postrider.Auth{Kind: postrider.AuthNone}, nil},
	{"basic", postrider.Auth{Kind: postrider.AuthBasic, User: "us"}, nil},
	{"basic without a user", postrider.Auth{Kind: postrider.AuthBasic}, []string{"auth.username is required"}},
	{"bearer", postrider.Auth{Kind: postrider.AuthBearer}, nil},
	{"a key", postrider.Auth{Kind: postrider.AuthAPIKey, Header: "X-Key"}, nil},
	{"a key as the authorization", postrider.Auth{Kind: postrider.AuthAPIKey, Header: "Authorization"}, nil},
	{"client credentials", postrider.Auth{
		Kind: postrider.AuthOAuth2, TokenURL: "https://acme.example/token", ClientID: "us", Scopes: []string{"a", "b"}, Audience: "acme",
	}, nil},
	{
		"a kind nobody knows",
		postrider.Auth{Kind: "digest", User: "a:b"},
		[]string{"auth.type must be none, basic, bearer, api_key or oauth2"},
	},
	{"none with what belongs to others", postrider.Auth{
		Kind: postrider.AuthNone, User: "us", Header: "X-Key", TokenURL: "https://acme.example", ClientID: "us", Scopes: []string{"a"},
		Audience: "acme",
	}, []string{
		"auth.username must be absent with the type none", "auth.header must be absent with the type none",
		"auth.token_url must be absent with the type none", "auth.client_id must be absent with the type none",
		"auth.scopes must be absent with the type none", "auth.audience must be absent with the type none",
	}},
	{
		"a user with a colon",
		postrider.Auth{Kind: postrider.AuthBasic, User: "a:b"},
		[]string{"auth.username must not have a colon"},
	},
	{
		"a key without a header",
		postrider.Auth{Kind: postrider.AuthAPIKey},
		[]string{"auth.header must be a header name of at most 128 letters, digits and hyphens"},
	},
	{
		"a key in a header of ours",
		postrider.Auth{Kind: postrider.AuthAPIKey, Header: "Cookie"},
		[]string{"auth.header must not be a header that is set for every request"},
	},
	{"texts that are no header's value", postrider.Auth{
		Kind: postrider.AuthOAuth2, ClientID: "\n", Scopes: []string{"a", "\n"}, Audience: "\n",
	}, []string{
		"auth.client_id must be at most 4096 printable ASCII characters, without spaces at either end",
		"auth.audience must be at most 4096 printable ASCII characters, without spaces at either end",
		"auth.scopes must be at most 4096 printable ASCII characters, without spaces at either end",
	}},
	{"client credentials of nobody", postrider.Auth{Kind: postrider.AuthOAuth2}, []string{"auth.client_id is required"}},
}

func TestPolicyCheckOfAuth(t *testing.T) {
	t.Parallel()
	for _, tt := range authRows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			policy := postrider.DefaultPolicy()
			policy.Auth = tt.auth
			if diff := cmp.Diff(tt.want, faults(policy.Check())); diff != "" {
				t.Errorf("Check differs (-want +got):\n%s", diff)
			}
		})
	}
}
