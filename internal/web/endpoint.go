package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// endpointPage is the data of the pages of one endpoint.
type endpointPage struct {
	Endpoint   apitypes.Endpoint
	Tab        string // overview, options or secrets
	Circuit    apitypes.Circuit
	Sending    sending
	Forms      circuitForms // of the circuit
	Notices    []notice
	Deliveries []apitypes.Delivery       // the newest
	Health     []apitypes.EndpointHealth // the newest changes
	Keys       []apitypes.OrderedKey     // with the order by_key; else none
	Ordered    bool
	Traffic    *traffic // nil: the page has no charts
	Skipped    int64    // deliveries of the last hour
}

// endpointID returns the id of the endpoint in the path of the request.
func (v *visit) endpointID() (postrider.EndpointID, error) {
	return pathID(v, "endpoint", postrider.ParseID[postrider.EndpointID])
}

// endpoint returns the endpoint in the path of the request.
func (v *visit) endpoint() (apitypes.Endpoint, error) {
	id, err := v.endpointID()
	if err != nil {
		return apitypes.Endpoint{}, err
	}
	return v.api.Endpoint(v.ctx, id)
}

// deletedError is the error of a page that a deleted endpoint does not have.
type deletedError struct{ endpoint apitypes.Endpoint }

// Error names the endpoint.
func (e *deletedError) Error() string { return "endpoint " + e.endpoint.ID.String() + " is deleted" }

// liveEndpoint is endpoint for pages that a deleted endpoint does not have: its error is
// a deletedError then. A page that is shown names its account.
func (v *visit) liveEndpoint() (apitypes.Endpoint, error) {
	e, err := v.endpoint()
	if err == nil && e.Status == postrider.EndpointDeleted {
		err = &deletedError{e}
	}
	if err == nil && v.r.Method == http.MethodGet {
		v.nameAccount(e.Account)
	}
	return e, err
}

// showEndpoint shows how one endpoint is, and what it got last. A deleted endpoint
// has its facts and its history alone.
func showEndpoint(v *visit) error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	v.nameAccount(e.Account)
	p := endpointPage{Endpoint: e, Tab: "overview", Ordered: e.Order.Value() == postrider.OrderByKey}
	deliveries, err := v.api.EndpointDeliveries(v.ctx, e.ID, client.EndpointDeliveryFilter{Paging: client.Paging{Limit: 10}})
	if err != nil {
		return err
	}
	p.Deliveries = deliveries.Data
	if e.Status != postrider.EndpointDeleted {
		if err := p.fill(v); err != nil {
			return err
		}
	}
	return v.show(page{Name: "endpoints-one", Title: where(v, e), Data: p, Commands: []string{
		"endpoints get " + e.ID.String(), "stats --endpoint " + e.ID.String(), "endpoints circuit " + e.ID.String(), "deliveries list --endpoint " + e.ID.String(),
	}})
}

// fill adds what an endpoint has that is not deleted.
func (p *endpointPage) fill(v *visit) (err error) {
	if p.Circuit, err = v.api.Circuit(v.ctx, p.Endpoint.ID); err != nil {
		return err
	}
	p.Traffic, err = v.traffic("?endpoint="+p.Endpoint.ID.String(), func(ctx context.Context, q client.StatsQuery) (apitypes.Stats, error) {
		return v.api.EndpointStats(ctx, p.Endpoint.ID, q)
	})
	if err != nil {
		return err
	}
	if p.Skipped, err = v.skippedLately(p); err != nil {
		return err
	}
	health, err := v.api.EndpointHealth(v.ctx, p.Endpoint.ID, client.Paging{Limit: 10})
	if err != nil {
		return err
	}
	p.Health = health.Data
	p.Sending = v.sending(p)
	p.Forms = v.circuitForms(p)
	p.Notices = v.notices(p)
	if p.Ordered {
		keys, err := v.api.OrderingKeys(v.ctx, p.Endpoint.ID, client.Paging{Limit: 20})
		if err != nil {
			return err
		}
		p.Keys = keys.Data
	}
	return nil
}

// skippedLately returns how many deliveries of the last hour were skipped. It asks only if the
// longer range of the charts has some.
func (v *visit) skippedLately(p *endpointPage) (int64, error) {
	all := p.Traffic.Stats.Total.Deliveries.Skipped
	if all == 0 || p.Traffic.Range == trafficRanges[0].name {
		return all, nil
	}
	stats, err := v.api.EndpointStats(v.ctx, p.Endpoint.ID, client.StatsQuery{Step: "minute"})
	return stats.Total.Deliveries.Skipped, err
}

// statusForms are the forms that change the status of an endpoint, with the one that
// takes each back.
var statusForms = map[string]struct {
	undo   string
	change func(*visit, postrider.EndpointID) (apitypes.Endpoint, error)
}{
	"pause": {"resume", func(v *visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.api.PauseEndpoint(v.ctx, id, v.form("reason"))
	}},
	"resume": {"pause", func(v *visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.api.ResumeEndpoint(v.ctx, id)
	}},
	"disable": {"enable", func(v *visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.api.DisableEndpoint(v.ctx, id, v.form("reason"))
	}},
	"enable": {"disable", func(v *visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.api.EnableEndpoint(v.ctx, id)
	}},
}

// changeStatus returns the handler of one of statusForms.
func changeStatus(verb string) func(*visit) error {
	form := statusForms[verb]
	return func(v *visit) error {
		id, err := v.endpointID()
		if err != nil {
			return err
		}
		if _, err := form.change(v, id); err != nil {
			return err
		}
		return v.done(v.path("endpoints", id), flash{Text: v.t("endpoint.done." + verb), Undo: v.path("endpoints", id, form.undo)})
	}
}

// setCircuit sets the circuit of an endpoint by hand. Open and closed take each other
// back; a probe cannot be taken back. The API opens a closed circuit to probe it, which a
// person who saw it open does not want: it may have closed since.
func setCircuit(v *visit) error {
	id, err := v.endpointID()
	if err != nil {
		return err
	}
	to, next := postrider.CircuitStatus(v.form("value")), v.path("endpoints", id)
	if v.form("back") != "" {
		next = v.back()
	}
	if to == postrider.CircuitHalfOpen {
		c, err := v.api.Circuit(v.ctx, id)
		if err != nil {
			return err
		}
		if c.Status != postrider.CircuitOpen {
			return v.done(next, flash{Text: v.t("circuit.undone." + string(c.Status)), Warn: true})
		}
	}
	if _, err := v.api.SetCircuit(v.ctx, id, to); err != nil {
		return err
	}
	f := flash{Text: v.t("circuit.done." + string(to)), Undo: v.path("endpoints", id, "circuit")}
	switch to {
	case postrider.CircuitOpen:
		f.Value = string(postrider.CircuitClosed)
	case postrider.CircuitClosed:
		f.Value = string(postrider.CircuitOpen)
	default:
		f.Undo = ""
	}
	return v.done(next, f)
}

// testEndpoint sends a test event to an endpoint.
func testEndpoint(v *visit) error {
	id, err := v.endpointID()
	if err != nil {
		return err
	}
	receipt, err := v.api.TestEndpoint(v.ctx, id, apitypes.EndpointTest{Type: v.form("type")})
	if faults, refused := v.faulty(err); refused {
		return v.done(v.path("endpoints", id), flash{Text: anyFault(faults), Warn: true})
	}
	if err != nil {
		return err
	}
	return v.done(v.path("endpoints", id), flash{
		Text: v.t("endpoint.done.test"), Link: v.path("events", receipt.ID), LinkText: v.t("endpoint.done.test_link"),
	})
}

// verifyEndpoint asks the receiver whether it wants events.
func verifyEndpoint(v *visit) error {
	id, err := v.endpointID()
	if err != nil {
		return err
	}
	_, err = v.api.VerifyEndpoint(v.ctx, id, "")
	if faults, refused := v.faulty(err); refused {
		return v.done(v.path("endpoints", id), flash{Text: anyFault(faults), Warn: true})
	}
	if err != nil {
		return err
	}
	return v.done(v.path("endpoints", id), flash{Text: v.t("endpoint.done.verify")})
}

// confirmDelete asks whether the endpoint shall be deleted, and says what that does.
func confirmDelete(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	return v.show(page{Name: "endpoints-delete", Data: e, Commands: []string{"endpoints delete " + e.ID.String()}})
}

// deleteEndpoint deletes an endpoint.
func deleteEndpoint(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	if err := v.api.DeleteEndpoint(v.ctx, e.ID); err != nil {
		return err
	}
	return v.done(v.path("endpoints"), flash{Text: v.t("endpoint.done.delete", "url", where(v, e))})
}

// secretsPage is the data of the page of an endpoint's secrets.
type secretsPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	Secrets  []apitypes.SecretState
	Shown    apitypes.Secret // the one that the person asked for; zero: none
	Faults   map[string]string
	Overlap  string        // as the person typed it
	KeyType  string        // that the person chose
	Confirm  bool          // the person is asked whether to rotate
	Lasts    time.Duration // with Confirm: the overlap
	Until    time.Time     // with Confirm: its end; zero: it is 0
}

// OverlapEnds returns when the last of the secrets that a rotation has replaced stops
// signing; zero: only one secret signs.
func (p secretsPage) OverlapEnds() (end time.Time) {
	for _, s := range p.Secrets {
		if at := instant(s.ExpiresAt); at.After(end) {
			end = at
		}
	}
	return end
}

// showSecrets lists the secrets of an endpoint without their texts. To see one is a form,
// since the audit notes who saw it.
func showSecrets(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	return v.showSecrets(secretsPage{Endpoint: e})
}

func (v *visit) showSecrets(p secretsPage) (err error) {
	if p.Secrets, err = v.api.SecretStates(v.ctx, p.Endpoint.ID); err != nil {
		return err
	}
	p.Tab = "secrets"
	if p.Overlap == "" {
		p.Overlap = "24h"
	}
	status := http.StatusOK
	if p.Faults != nil {
		status = http.StatusUnprocessableEntity
	}
	id := p.Endpoint.ID.String()
	return v.show(page{Name: "endpoints-secrets", Title: where(v, p.Endpoint), Status: status, Data: p, Commands: []string{
		"endpoints secrets " + id + " --states", "endpoints reveal-secret " + id + " SECRET", "endpoints rotate " + id + " --overlap 24h",
	}})
}

// revealSecret shows one secret of an endpoint, in the list. The page without it has the
// same URL.
func revealSecret(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	id, err := postrider.ParseID[postrider.SecretID](v.form("secret"))
	if err != nil {
		return fmt.Errorf("secret: %w", postrider.ErrNotFound)
	}
	shown, err := v.api.RevealSecret(v.ctx, e.ID, id)
	if err != nil {
		return err
	}
	return v.showSecrets(secretsPage{Endpoint: e, Shown: shown})
}

// rotateSecret gives an endpoint a new secret. What is wrong with the overlap is said before
// the person is asked whether to rotate.
func rotateSecret(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	p := secretsPage{Endpoint: e, Overlap: v.form("overlap_ms"), KeyType: v.form("key_type")}
	overlap, err := parseDuration(p.Overlap)
	switch {
	case err != nil:
		p.Faults = map[string]string{"overlap_ms": v.t("form.no_duration")}
	case overlap > postrider.MaxOverlap:
		p.Faults = map[string]string{"overlap_ms": v.reason(apitypes.Fault{
			Field: "overlap_ms", Code: postrider.FaultOutOfRange, Min: new(int64), Max: new(postrider.MaxOverlap.Milliseconds()),
		})}
	case v.form("confirmed") == "" && v.can(postrider.ScopeEndpointsWrite):
		p.Confirm, p.Lasts = true, overlap
		if overlap > 0 {
			p.Until = v.now.Add(overlap)
		}
	}
	if p.Faults != nil || p.Confirm {
		return v.showSecrets(p)
	}
	made, err := v.api.RotateSecret(v.ctx, e.ID, apitypes.SecretRotation{OverlapMS: new(overlap.Milliseconds()), KeyType: p.KeyType, Secret: v.form("secret")})
	if faults, refused := v.faulty(err); refused {
		p.Faults = faults
		return v.showSecrets(p)
	}
	if err != nil {
		return err
	}
	text := "secret.done.rotate"
	if overlap == 0 {
		text = "secret.done.rotate_at_once"
	}
	return v.done(v.path("endpoints", e.ID, "secrets"), flash{Text: v.t(text, "id", made.ID, "overlap", overlap)})
}

// revokeSecret ends a secret at once.
func revokeSecret(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	id, err := pathID(v, "secret", postrider.ParseID[postrider.SecretID])
	if err != nil {
		return err
	}
	err = v.api.RevokeSecret(v.ctx, e.ID, id)
	if faults, refused := v.faulty(err); refused {
		return v.done(v.path("endpoints", e.ID, "secrets"), flash{Text: anyFault(faults), Warn: true})
	}
	if err != nil {
		return fmt.Errorf("revoke %s: %w", id, err)
	}
	return v.done(v.path("endpoints", e.ID, "secrets"), flash{Text: v.t("secret.done.revoke", "id", id)})
}
