package endpoints

import (
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/text"
)

// secretsPage is the data of the page of an endpoint's secrets.
type secretsPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	Secrets  []apitypes.SecretState
	Shown    apitypes.Secret // the secret that the person asked to see, or may see only now; zero: none
	Faults   map[string]string
	Overlap  string        // as the person typed it
	KeyType  string        // that the person chose
	Confirm  bool          // the person is asked whether to rotate
	Lasts    time.Duration // with Confirm: the overlap
	Until    time.Time     // with Confirm: its end; zero: it is 0
}

// OverlapEnds returns the time at which the last replaced secret stops signing. Zero: only one
// secret signs.
func (p secretsPage) OverlapEnds() (end time.Time) {
	for _, s := range p.Secrets {
		if at := page.Instant(s.ExpiresAt); at.After(end) {
			end = at
		}
	}
	return end
}

// showSecrets lists the secrets of an endpoint without their texts. A person sees a text with a
// form (POST), because the audit log records who saw it.
func showSecrets(v *page.Visit, e apitypes.Endpoint) error {
	return secretsPage{Endpoint: e}.show(v)
}

func (p secretsPage) show(v *page.Visit) (err error) {
	if p.Secrets, err = v.API.SecretStates(v.Context, p.Endpoint.ID); err != nil {
		return err
	}
	p.Tab = "secrets"
	if p.Overlap == "" {
		p.Overlap = "24h"
	}
	id := p.Endpoint.ID.String()
	return v.Show(page.View{Name: "endpoints-secrets", Title: page.Where(v, p.Endpoint), Refused: p.Faults != nil, Data: p, Commands: []string{
		"endpoints secrets " + id + " --states", "endpoints reveal-secret " + id + " SECRET", "endpoints rotate " + id + " --overlap 24h",
	}})
}

// revealSecret shows the list with the text of one secret. A GET of the same URL shows the list
// without the text.
func revealSecret(v *page.Visit, e apitypes.Endpoint) error {
	id, err := postrider.ParseID[postrider.SecretID](v.Form("secret"))
	if err != nil {
		return fmt.Errorf("secret: %w", postrider.ErrNotFound)
	}
	shown, err := v.API.RevealSecret(v.Context, e.ID, id)
	if err != nil {
		return err
	}
	return secretsPage{Endpoint: e, Shown: shown}.show(v)
}

// rotateSecret gives an endpoint a new secret. It checks the overlap before it asks the person
// whether to rotate. A person without the scope to read secrets sees the new one in the response.
func rotateSecret(v *page.Visit, e apitypes.Endpoint) error {
	p := secretsPage{Endpoint: e, Overlap: v.Form("overlap_ms"), KeyType: v.Form("key_type")}
	overlap, err := text.ParseDuration(p.Overlap)
	switch {
	case err != nil:
		p.Faults = map[string]string{"overlap_ms": v.T("form.no_duration")}
	case overlap > postrider.MaxOverlap:
		p.Faults = map[string]string{"overlap_ms": v.Text.Reason(apitypes.Fault{
			Field: "overlap_ms", Code: postrider.FaultOutOfRange, Min: new(int64), Max: new(postrider.MaxOverlap.Milliseconds()),
		})}
	case v.Form("confirmed") == "" && v.Can(postrider.ScopeEndpointsWrite):
		p.Confirm, p.Lasts = true, overlap
		if overlap > 0 {
			p.Until = v.Now.Add(overlap)
		}
	}
	if p.Faults != nil || p.Confirm {
		return p.show(v)
	}
	made, err := v.API.RotateSecret(v.Context, e.ID, apitypes.SecretRotation{
		OverlapMS: new(overlap.Milliseconds()), KeyType: p.KeyType,
		Secret: v.Form("secret"),
	})
	if faults := v.Faulty(err); faults != nil {
		p.Faults = faults
		return p.show(v)
	}
	if err != nil {
		return err
	}
	text := "secret.done.rotate"
	if overlap == 0 {
		text = "secret.done.rotate_at_once"
	}
	done := page.Flash{Text: v.T(text, "id", made.ID, "overlap", overlap)}
	if !v.Can(postrider.ScopeSecretsRead) { // only the response to the rotation has the secret
		v.Say(done)
		return secretsPage{Endpoint: e, Shown: made}.show(v)
	}
	return v.Done(v.Path("endpoints", e.ID, "secrets"), done)
}

// revokeSecret ends a secret at once.
func revokeSecret(v *page.Visit, e apitypes.Endpoint) error {
	id, err := page.PathID[postrider.SecretID](v, "secret")
	if err != nil {
		return err
	}
	err = v.API.RevokeSecret(v.Context, e.ID, id)
	if faults := v.Faulty(err); faults != nil {
		return v.Done(v.Path("endpoints", e.ID, "secrets"), page.Flash{Text: page.AnyFault(faults), Warn: true})
	}
	if err != nil {
		return fmt.Errorf("revoke %s: %w", id, err)
	}
	return v.Done(v.Path("endpoints", e.ID, "secrets"), page.Flash{Text: v.T("secret.done.revoke", "id", id)})
}
