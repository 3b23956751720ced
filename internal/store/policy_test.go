package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/storetest"
)

var update = flag.Bool("update", false, "rewrite testdata/policy.json")

// fullPolicy has a value in every field. No real endpoint has all of them together.
func fullPolicy() postrider.Policy {
	p := postrider.Policy{
		Filter: `{ "data": {"total": [{"numeric": [">=", 100.0]}]}, "type": ["<\u00e9>"] }`, Changed: []string{"$.a", "$"},
		Channels:  []string{"shop-7", "a b"},
		Condition: `data.a == "<é>"`,
		Retry: postrider.RetryPolicy{
			Preset: "seven-step", Delays: []time.Duration{0, 1500 * time.Millisecond, time.Hour},
			Base: time.Second, Factor: 1.76, Cap: time.Hour, MaxAttempts: 9, Jitter: "+20%",
		},
		Timeout: 3 * time.Second, ClientErrors: postrider.DeadLetterClientErrors, Concurrency: 7,
		Expiry: 90 * 24 * time.Hour, Payload: postrider.PayloadRaw,
		Signatures: []postrider.Signature{
			{Scheme: postrider.SchemePlain, Header: "X-Acme", Prefix: "v1="},
			{Scheme: postrider.SchemeTimestamped},
		},
		Circuit: postrider.CircuitPolicy{
			Failures: 5, Percent: 50, Attempts: 20, Window: 10 * time.Minute, Cooldown: time.Minute, MaxCooldown: time.Hour,
		},
		Rate:    postrider.Rate{Attempts: 100, Per: time.Second, Burst: 20},
		Order:   postrider.OrderByKey,
		OnDead:  postrider.PauseOnDead,
		Headers: []postrider.Header{{Name: "X-Token", Secret: true}, {Name: "X-Tenant", Value: "acme"}},
		Auth: postrider.Auth{
			Kind: postrider.AuthOAuth2, User: "us", Header: "X-Key", TokenURL: "https://acme.example/token",
			ClientID: "us", Scopes: []string{"a", "b"}, Audience: "acme",
		},
		TLS:          postrider.TLS{Certificate: "a certificate", Authorities: "another"},
		MaxRedirects: 3, Compression: postrider.CompressionGzip,
	}
	storetest.SetFlags(&p)
	return p
}

// TestStoredPolicyHasItsNames checks the names of a stored policy, because a policy that was
// stored years ago must be readable today.
func TestStoredPolicyHasItsNames(t *testing.T) {
	t.Parallel()
	requireFull(t, "Policy", reflect.ValueOf(fullPolicy()))
	document, err := store.EncodePolicy(fullPolicy())
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := json.Indent(&got, document, "", "  "); err != nil {
		t.Fatal(err)
	}
	got.WriteByte('\n')
	path := filepath.Join("testdata", "policy.json")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if diff := cmp.Diff(string(want), got.String()); err != nil || diff != "" {
		t.Errorf("a name of the stored policy has changed; no document that is stored has the new one: %v (-want +got):\n%s", err, diff)
	}
	read, err := store.DecodePolicy(postrider.EndpointID{1}, want)
	if diff := cmp.Diff(fullPolicy(), read); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// requireFull fails the test for each field without a value. Such a field would be missing in the
// golden file, and perhaps in the document.
func requireFull(t *testing.T, at string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Slice && v.Len() > 0 {
		last := v.Index(v.Len() - 1)
		if last.Kind() != reflect.Struct {
			return
		}
		for name := range last.Type().Fields() {
			found := false
			for i := range v.Len() {
				found = found || !v.Index(i).FieldByIndex(name.Index).IsZero()
			}
			if !found {
				t.Errorf("%s[].%s: give it a value in fullPolicy, a name in policyDocument, and run with -update", at, name.Name)
			}
		}
		return
	}
	if v.IsZero() {
		t.Errorf("%s: give it a value in fullPolicy, a name in policyDocument, and run with -update", at)
	}
	if v.Kind() == reflect.Struct {
		for field, value := range v.Fields() {
			requireFull(t, at+"."+field.Name, value)
		}
	}
}

func TestPolicyComesBack(t *testing.T) {
	t.Parallel()
	formula := postrider.DefaultPolicy()
	formula.Retry = postrider.RetryPolicy{Base: time.Second, Factor: 1.7600, Cap: time.Hour, MaxAttempts: 9, Jitter: "+20%"}
	listed := postrider.DefaultPolicy()
	listed.Retry = postrider.RetryPolicy{Delays: []time.Duration{0, time.Millisecond, 7 * 24 * time.Hour}, Jitter: "full"}
	for name, want := range map[string]postrider.Policy{"the default": postrider.DefaultPolicy(), "a formula": formula, "a list": listed} {
		document, err := store.EncodePolicy(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := store.DecodePolicy(postrider.EndpointID{1}, document)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	old := postrider.DefaultPolicy()
	old.Headers = []postrider.Header{{Name: "X-Old", Value: "refused today: \x01"}}
	if document, err := store.EncodePolicy(old); err != nil {
		t.Error(err)
	} else if got, err := store.DecodePolicy(postrider.EndpointID{1}, document); err != nil || !reflect.DeepEqual(got, old) {
		t.Errorf("a value that the API refuses today cannot be read any more: %v", err)
	}
	fine := postrider.DefaultPolicy()
	fine.Timeout = time.Second + time.Microsecond
	if _, err := store.EncodePolicy(fine); err == nil ||
		!strings.Contains(err.Error(), "TimeoutMS: 1.000001s is no whole number of milliseconds") {
		t.Errorf("EncodePolicy rounds: %v", err)
	}
}

func TestPolicyThatCannotBeReadNamesEndpointAndField(t *testing.T) {
	t.Parallel()
	document, err := store.EncodePolicy(postrider.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	endpoint := postrider.EndpointID{1}
	for _, tt := range []struct{ was, is, want string }{
		{`"concurrency":10`, `"concurency":10`, "concurency is not a field"},
		{`"concurrency":10`, `"Concurrency":10`, "Concurrency is not a field"},
		{`"concurrency":10,`, ``, "concurrency is required"},
		{`"concurrency":10`, `"concurrency":"ten"`, "concurrency must be a whole number"},
		{`"concurrency":10`, `"concurrency":10,"concurrency":10`, "concurrency must be JSON by RFC 7493: duplicate"},
		{`"adaptive_timeout":false`, `"adaptive_timeout":null`, "adaptive_timeout must not be null"},
		{`{"preset":"default"}`, `{"preset":"weekly"}`, `retry.preset "weekly" is none of the names`},
		{`{"preset":"default"}`, `{"delay_ms":[0]}`, `retry.delay_ms is not a field`},
		{`"order":"none"`, `"order":"by_account"`, `order "by_account" is none of the names`},
		{`"scheme":"standard"`, `"scheme":"rot13"`, `signatures[0].scheme "rot13" is none of the names`},
		{`"type":"none"`, `"type":"kerberos"`, `auth.type "kerberos" is none of the names`},
		{`"version":1`, `"version":2`, "version 2 is newer than this program"},
		{`"version":1`, `"version":2,"surprise":true`, "version 2 is newer than this program"},
		{`"version":1`, `"version":0`, "version 0 is unknown"},
		{`"version":1,`, ``, "version is required"},
	} {
		bad := strings.Replace(string(document), tt.was, tt.is, 1)
		p, err := store.DecodePolicy(endpoint, []byte(bad))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), endpoint.String()) {
			t.Errorf("%s: error = %v, want one that names %s and says %q", tt.is, err, endpoint, tt.want)
		}
		if !reflect.ValueOf(p).IsZero() || errors.Is(err, postrider.ErrInvalid) {
			t.Errorf("%s: policy %+v, error %v: want no policy, and an error that is no fault of a request", tt.is, p, err)
		}
		if bad == string(document) {
			t.Errorf("%s is not in the document", tt.was)
		}
	}
}

func BenchmarkDecodePolicy(b *testing.B) {
	document, err := store.EncodePolicy(postrider.DefaultPolicy())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.DecodePolicy(postrider.EndpointID{1}, document); err != nil {
			b.Fatal(err)
		}
	}
}
