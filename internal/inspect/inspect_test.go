package inspect_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/inspect"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/webhook"
	"github.com/postrider/postrider/signature"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an inspector with a memory store, which signs as in production.
type world struct {
	*inspect.Inspector
	store *memory.Store
	ids   *store.IDs
}

func open(t *testing.T, change func(*inspect.Deps)) *world {
	t.Helper()
	over := memory.New(memory.Options{})
	door := egress.New(egress.Options{})
	t.Cleanup(door.Close)
	w := &world{store: over, ids: store.NewIDs(over.Clock().Wall, nil)}
	deps := inspect.Deps{
		Store: over, Signer: webhook.New(door, glass{}, webhook.Options{Now: over.Clock().Wall}), Vault: glass{}, IDs: w.ids,
		Now: over.Clock().Wall, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&deps)
	}
	w.Inspector = inspect.New(deps)
	return w
}

// glass is a vault that does not encrypt.
type glass struct{}

// DecryptSecret returns the stored text.
func (glass) DecryptSecret(_ context.Context, s postrider.Secret) (string, error) {
	return string(s.Encrypted), nil
}

// DecryptCredentials returns the same token for every endpoint.
func (glass) DecryptCredentials(context.Context, postrider.Endpoint) (postrider.Credentials, error) {
	return postrider.Credentials{Auth: "canary"}, nil
}

// endpoint returns an inspector endpoint with secrets, the newest first.
func (w *world) endpoint(schemes []postrider.Scheme, secrets ...signature.Secret) *store.EndpointSnapshot {
	to := &store.EndpointSnapshot{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](w.ids), Kind: postrider.KindInspector, Policy: postrider.DefaultPolicy(),
	}}
	to.Endpoint.Policy.Auth = postrider.Auth{Kind: postrider.AuthBearer}
	to.Endpoint.Policy.Signatures = nil
	for _, s := range schemes {
		to.Endpoint.Policy.Signatures = append(to.Endpoint.Policy.Signatures, postrider.Signature{Scheme: s})
	}
	for _, s := range secrets {
		to.Secrets = append(to.Secrets, postrider.Secret{ID: store.NewID[postrider.SecretID](w.ids), Encrypted: []byte(s.Text())})
	}
	return to
}

// send makes an attempt of a delivery with the data.
func (w *world) send(t *testing.T, to *store.EndpointSnapshot, data string) postrider.Attempt {
	t.Helper()
	c := &postrider.Claimed{
		ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: to.Endpoint.ID, Attempt: 2,
		Event: &postrider.Event{
			ID: store.NewID[postrider.EventID](w.ids), Type: "order.created", Data: []byte(data), CreatedAt: time.Now(),
		},
	}
	return w.Send(t.Context(), time.Now().Add(time.Minute), c, to)
}

// kept returns the requests that the endpoint got, with their bodies.
func (w *world) kept(t *testing.T, endpoint postrider.EndpointID) (all []postrider.Inspection) {
	t.Helper()
	page, err := w.store.Inspections(t.Context(), store.InspectionQuery{Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range page.Items {
		one, err := w.store.Inspections(t.Context(), store.InspectionQuery{Endpoint: endpoint, ID: i.ID})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one.Items...)
	}
	return all
}

// secret returns a new symmetric secret, private a new private key.
func secret(t *testing.T) signature.Secret {
	t.Helper()
	s, err := signature.NewSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func private(t *testing.T) signature.Secret {
	t.Helper()
	s, err := signature.NewPrivateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestARequestIsKeptAndVerifies(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	for name, to := range map[string]*store.EndpointSnapshot{
		"by every scheme":        w.endpoint(postrider.Schemes, secret(t)),
		"during a rotation":      w.endpoint(postrider.Schemes, secret(t), secret(t)),
		"by a private key":       w.endpoint([]postrider.Scheme{postrider.SchemeStandard, postrider.SchemeSvix}, private(t)),
		"by a key of their own":  w.endpoint([]postrider.Scheme{postrider.SchemeStripe}, textSecret(t, "twenty-four-characters-ok")),
		"by one of another kind": w.endpoint([]postrider.Scheme{postrider.SchemeStandard}, private(t), secret(t)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.send(t, to, `{"order":42}`)
			if a.Outcome != postrider.OutcomeAccepted || a.StatusCode != 200 || a.Number != 2 || a.Error != "" || a.Endpoint != to.Endpoint.ID {
				t.Errorf("attempt %+v", a)
			}
			all := w.kept(t, to.Endpoint.ID)
			if len(all) != 1 || all[0].Delivery != a.Delivery || all[0].Event != a.Event || all[0].Attempt != 2 ||
				all[0].EventType != "order.created" {
				t.Fatalf("kept %+v", all)
			}
			if !strings.Contains(string(all[0].Body), `"data":{"order":42}`) || all[0].BodyBytes != len(all[0].Body) {
				t.Errorf("body %s", all[0].Body)
			}
			if len(all[0].Verdicts) != len(to.Endpoint.Policy.Signatures) {
				t.Errorf("verdicts %+v", all[0].Verdicts)
			}
			for _, v := range all[0].Verdicts {
				if v.Error != "" || v.Secret != to.Secrets[0].ID || v.Header == "" {
					t.Errorf("verdict %+v, want that the newest secret verifies", v)
				}
			}
		})
	}
}

func textSecret(t *testing.T, text string) signature.Secret {
	t.Helper()
	s, err := signature.TextSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSignaturesAreShownAndCredentialsAreNot(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	to := w.endpoint([]postrider.Scheme{postrider.SchemeStandard}, secret(t))
	w.send(t, to, `{}`)
	fields := map[string]string{}
	for _, f := range w.kept(t, to.Endpoint.ID)[0].Header {
		fields[f.Name] = f.Value
	}
	if !strings.HasPrefix(fields["Webhook-Signature"], "v1,") || fields["Authorization"] != postrider.Masked ||
		fields["Host"] != "inspector.invalid" {
		t.Errorf("header %v", fields)
	}
}

func TestALongBodyIsCutAndVerifiesAsAWhole(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	to := w.endpoint([]postrider.Scheme{postrider.SchemeStandard}, secret(t))
	to.Endpoint.Policy.Payload = postrider.PayloadRaw
	data := `"` + strings.Repeat("x", postrider.MaxInspectionBody) + `"`
	w.send(t, to, data)
	kept := w.kept(t, to.Endpoint.ID)[0]
	if len(kept.Body) != postrider.MaxInspectionBody || kept.BodyBytes != len(data) || kept.Verdicts[0].Error != "" {
		t.Errorf("%d of %d bytes, verdict %+v", len(kept.Body), kept.BodyBytes, kept.Verdicts[0])
	}
}

// tampering is a signer that changes the body after signing.
type tampering struct{ inspect.Signer }

// Sign returns a request with another body.
func (s tampering) Sign(ctx context.Context, c *postrider.Claimed, to *store.EndpointSnapshot) (postrider.Request, error) {
	r, err := s.Signer.Sign(ctx, c, to)
	r.Body = append([]byte(" "), r.Body...)
	return r, err
}

func TestARequestThatWasChangedDoesNotVerify(t *testing.T) {
	t.Parallel()
	w := open(t, func(d *inspect.Deps) { d.Signer = tampering{d.Signer} })
	to := w.endpoint([]postrider.Scheme{postrider.SchemeStandard, postrider.SchemeGitHub}, secret(t))
	if a := w.send(t, to, `{}`); a.Outcome != postrider.OutcomeAccepted {
		t.Errorf("attempt %+v", a)
	}
	for _, v := range w.kept(t, to.Endpoint.ID)[0].Verdicts {
		if v.Error != "mismatch" || !v.Secret.IsZero() {
			t.Errorf("verdict %+v, want a mismatch", v)
		}
	}
}

// away is a store that does not respond.
type away struct{ inspections }

// inspections gives the embedded role a field name other than Inspections, the name of its method.
type inspections = store.Inspections

// PutInspection fails.
func (away) PutInspection(ctx context.Context, _ postrider.Inspection) error {
	if _, limited := ctx.Deadline(); !limited {
		return errors.New("a call without a deadline")
	}
	return errors.New("the database is away")
}

func TestARequestThatCannotBeKeptIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*inspect.Deps)
		secrets []signature.Secret
		want    postrider.Failure
	}{
		"the store is away":  {func(d *inspect.Deps) { d.Store = away{d.Store} }, []signature.Secret{secret(t)}, postrider.FailureInternal},
		"there is no secret": {nil, nil, postrider.FailureUnsigned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, test.change)
			a := w.send(t, w.endpoint([]postrider.Scheme{postrider.SchemeStandard}, test.secrets...), `{}`)
			if a.Outcome != postrider.OutcomeUnreachable || a.Error != string(test.want) || a.StatusCode != 0 {
				t.Errorf("attempt %+v, want it unreachable: %s", a, test.want)
			}
		})
	}
}

func TestOldRequestsAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, nil)
		to := w.endpoint([]postrider.Scheme{postrider.SchemeStandard}, secret(t))
		w.send(t, to, `{}`)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		time.AfterFunc(postrider.InspectionKeptFor+15*time.Minute, cancel)
		ended <- w.Run(ctx)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n, err := w.store.ForgetInspections(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("%d old requests are left, %v", n, err)
		}
		if all := w.kept(t, to.Endpoint.ID); len(all) != 0 {
			t.Errorf("%d requests are kept", len(all))
		}
	})
}
