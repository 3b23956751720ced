package webhook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
	"github.com/postrider/postrider/signature"
)

// described are endpoints for every kind of request.
var described = map[string]func(*store.EndpointSnapshot){
	"every scheme": signedBy(postrider.Schemes...),
	"raw":          raw,
	"compressed":   policy(func(p *postrider.Policy) { p.Compression = postrider.CompressionGzip }),
	"raw and compressed": policy(func(p *postrider.Policy) {
		p.Payload, p.Compression = postrider.PayloadRaw, postrider.CompressionGzip
	}),
	"a header of its own": policy(func(p *postrider.Policy) {
		p.Signatures = []postrider.Signature{{Scheme: postrider.SchemePlain, Header: "X-Mac", Prefix: "v9="}}
	}),
	"headers and a password": func(r *store.EndpointSnapshot) {
		r.Endpoint.Policy.Headers = []postrider.Header{{Name: "X-Team", Value: "billing"}, {Name: "X-Pass", Secret: true}}
		r.Endpoint.Policy.Auth = postrider.Auth{Kind: postrider.AuthBasic, User: "ida"}
		credentials(postrider.Credentials{Auth: "canary", Headers: map[string]string{"X-Pass": "canary"}})(r)
	},
	"a key in a header": func(r *store.EndpointSnapshot) {
		r.Endpoint.Policy.Auth = postrider.Auth{Kind: postrider.AuthAPIKey, Header: "X-Api-Key"}
		credentials(postrider.Credentials{Auth: "canary"})(r)
	},
}

// TestADescribedRequestIsTheOneThatIsSent compares a described request with the record of a request
// that was sent, and with the request that its receiver got.
func TestADescribedRequestIsTheOneThatIsSent(t *testing.T) {
	t.Parallel()
	for name, change := range described {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) { w.WriteHeader(http.StatusTeapot) })
			sender, to := open(t, laptop()), routed(r.URL+"/hooks?token=canary", change)
			to.Secrets = append(to.Secrets, encrypted(2, 2))
			a := send(t, sender, to, testkit.Patience)
			claim := claimed(event(`{"order_id":42}`))
			got, err := sender.Describe(t.Context(), &claim, to.Endpoint, a.StartedAt)
			if err != nil {
				t.Fatal(err)
			}
			var head strings.Builder
			head.WriteString("POST /hooks?... HTTP/1.1\r\n")
			for _, f := range got.Header {
				head.WriteString(f.Name + ": " + f.Value + "\r\n")
			}
			if diff := cmp.Diff(string(a.RequestHead), head.String()+"\r\n"); diff != "" {
				t.Errorf("header (-recorded +described):\n%s", diff)
			}
			if got.URL != r.URL+"/hooks?..." || got.Method != http.MethodPost {
				t.Errorf("described as %s %s", got.Method, got.URL)
			}
			request := r.Only(t)
			if to.Endpoint.Policy.Compression != postrider.CompressionGzip && string(got.Body) != string(request.Body) {
				t.Errorf("body is described as %s, and was %s", got.Body, request.Body)
			}
			verifies(t, got, request.Header)
		})
	}
}

// verifies signs the described content, and compares the result with the signatures in the header.
func verifies(t *testing.T, r postrider.Request, header http.Header) {
	t.Helper()
	if len(r.Signed) == 0 {
		t.Error("nothing is signed")
	}
	for _, s := range r.Signed {
		format := signature.Format{Scheme: signature.Scheme(s.Scheme)}
		if s.Header == "X-Mac" {
			format.Header, format.Prefix = "X-Mac", "v9="
		}
		v := signature.Verifier{Format: format, Keys: []signature.Key{{Secret: secretOf(1)}}}
		if err := v.Verify(header, r.Body, time.Now()); err != nil {
			t.Errorf("%s: %v", s.Scheme, err)
		}
		if header.Get(s.Header) == "" {
			t.Errorf("%s: no header %s", s.Scheme, s.Header)
		}
	}
}

// shut is a vault that cannot decrypt anything.
type shut struct{}

var errShut = errors.New("the vault is shut")

// DecryptSecret returns errShut.
func (shut) DecryptSecret(context.Context, postrider.Secret) (string, error) { return "", errShut }

// DecryptCredentials returns errShut.
func (shut) DecryptCredentials(context.Context, postrider.Endpoint) (postrider.Credentials, error) {
	return postrider.Credentials{}, errShut
}

func TestADescribedRequestNeedsNoSecret(t *testing.T) {
	t.Parallel()
	sender := openWith(t, egress.Options{}, shut{}, webhook.Options{})
	to := routed("http://10.0.0.1/hooks", described["headers and a password"], func(r *store.EndpointSnapshot) {
		r.Endpoint.Policy.Auth = postrider.Auth{Kind: postrider.AuthOAuth2, TokenURL: "https://acme.example/token"}
	})
	claim := claimed(event(`{}`))
	got, err := sender.Describe(t.Context(), &claim, to.Endpoint, claim.Event.CreatedAt)
	if err != nil {
		t.Fatal(err)
	}
	masked := map[string]string{}
	for _, f := range got.Header {
		if f.Value == postrider.Masked {
			masked[f.Name] = f.Value
		}
	}
	want := map[string]string{"Webhook-Signature": "***", "X-Pass": "***", "Authorization": "***"}
	if diff := cmp.Diff(want, masked); diff != "" {
		t.Errorf("masked fields (-want +got):\n%s", diff)
	}
	claim.Event.Data = nil
	if got, err = sender.Describe(t.Context(), &claim, to.Endpoint, claim.Event.CreatedAt); err != nil || got.Body != nil {
		t.Errorf("body that is gone: %q, %v", got.Body, err)
	}
}

func TestASignedRequestHasItsSignaturesAndMasksCredentials(t *testing.T) {
	t.Parallel()
	for name, change := range described {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sender, to := open(t, egress.Options{}), routed("", change)
			to.Endpoint.Kind = postrider.KindInspector
			claim := claimed(event(`{"order_id":42}`))
			got, err := sender.Sign(t.Context(), &claim, &to)
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{}
			for _, f := range got.Header {
				if header.Add(f.Name, f.Value); strings.Contains(f.Value, "canary") {
					t.Errorf("%s: %s", f.Name, f.Value)
				}
			}
			verifies(t, got, header)
		})
	}
}

func TestCredentialsInAResponseAreMasked(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, func(w http.ResponseWriter, r testkit.Request) {
		w.Header().Set("Set-Cookie", "session=canary")
		w.Header().Set("X-Api-Key", r.Header.Get("X-Api-Key"))
		w.Header().Set("X-Plain", "seen")
		w.WriteHeader(http.StatusTeapot)
		if _, err := io.WriteString(w, "no"); err != nil {
			t.Error(err)
		}
	})
	a := send(t, open(t, laptop()), routed(r.URL, described["a key in a header"]), testkit.Patience)
	head := string(a.ResponseHead)
	if strings.Contains(head, "canary") || !strings.Contains(head, "\r\nX-Plain: seen\r\n") ||
		!strings.Contains(head, "\r\nSet-Cookie: ***\r\n") ||
		!strings.HasPrefix(head, "HTTP/1.1 418 ") || !strings.HasSuffix(head, "\r\n\r\n") {
		t.Errorf("recorded %q", head)
	}
}
