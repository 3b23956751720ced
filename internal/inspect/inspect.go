// Package inspect delivers events to inspector endpoints: it keeps each request for people to look
// at, instead of sending it.
//
// An [Inspector] is a [dispatch.Sender] for endpoints of the kind inspector. So their deliveries
// are matched, queued, retried and recorded like all others. An attempt has these steps:
//
//  1. The request is built and signed by the code that signs every request.
//  2. Its signatures are verified as a receiver would, with package signature and each
//     secret of the endpoint.
//  3. The request and the verdicts are stored. The newest hundred of an endpoint are
//     kept, for a day.
//  4. The attempt is accepted.
//
// It promises:
//
//   - Nothing leaves the process, and nothing from outside gets into an inspector: it
//     has neither a URL nor a listener.
//   - Credentials are masked before anything is stored. Signatures are not, because people
//     compare them with their own.
//   - If a request cannot be signed or stored, its attempt fails, and is retried by its
//     schedule.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

// Signer builds and signs requests. Package webhook implements it.
type Signer interface {
	// Sign returns the request of an attempt as its receiver would get it, with real signatures but
	// masked credentials.
	Sign(ctx context.Context, c *postrider.Claimed, to *store.EndpointSnapshot) (postrider.Request, error)
}

// Vault decrypts secrets.
type Vault interface {
	// DecryptSecret returns the text of the secret.
	DecryptSecret(ctx context.Context, s postrider.Secret) (string, error)
}

// Deps has the parts that an [Inspector] depends on. None may be nil.
type Deps struct {
	Store  store.Inspections
	Signer Signer
	Vault  Vault
	IDs    *store.IDs
	Now    func() time.Time // the store's time of day
	Log    *slog.Logger
}

// Inspector makes the attempts of inspector endpoints. It may be used from any
// goroutine.
type Inspector struct{ Deps }

// New returns an inspector.
func New(deps Deps) *Inspector { return &Inspector{deps} }

// Send makes the attempt that c is leased for, and returns its record. It returns soon
// after the deadline, or after ctx has ended, whichever comes first.
func (i *Inspector) Send(ctx context.Context, deadline time.Time, c *postrider.Claimed, to *store.EndpointSnapshot) postrider.Attempt {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	started := time.Now()
	a := postrider.Attempt{
		Delivery: c.ID, Event: c.Event.ID, Endpoint: c.Endpoint, Number: c.Attempt,
		StartedAt: i.Now().UTC().Truncate(time.Microsecond),
		Outcome:   postrider.OutcomeAccepted, StatusCode: http.StatusOK,
	}
	if err := i.keep(ctx, c, to); err != nil {
		a.Outcome, a.StatusCode, a.Error = postrider.OutcomeUnreachable, 0, string(postrider.FailureInternal)
		if failure, ok := errors.AsType[*postrider.FailureError](err); ok {
			a.Error = string(failure.Failure)
			if failure.Failure.IsServers() {
				a.Outcome = postrider.OutcomePostponed
			}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			a.Outcome, a.Error = postrider.OutcomeTimedOut, string(postrider.FailureTimeout)
		}
		i.Log.ErrorContext(ctx, "request not inspected", "delivery", *c, "error", err)
	}
	a.Duration = time.Since(started)
	return a
}

// keep signs, verifies and stores the request of an attempt.
func (i *Inspector) keep(ctx context.Context, c *postrider.Claimed, to *store.EndpointSnapshot) error {
	request, err := i.Signer.Sign(ctx, c, to)
	if err != nil {
		return err
	}
	kept := postrider.Inspection{
		ID: store.NewID[postrider.InspectionID](i.IDs), Endpoint: c.Endpoint, Delivery: c.ID, Event: c.Event.ID,
		EventType: c.Event.Type, Attempt: c.Attempt, Header: request.Header,
		Body: request.Body[:min(len(request.Body), postrider.MaxInspectionBody)], BodyBytes: len(request.Body),
	}
	if kept.Verdicts, err = i.verify(ctx, request, to); err != nil {
		return err
	}
	return i.Store.PutInspection(ctx, kept)
}

// verify verifies the request by each scheme of the endpoint and with each of its secrets, the
// newest first. Like a receiver, it reads only the header and the body. r.Signed has one element
// for each scheme, in the order of the schemes.
func (i *Inspector) verify(ctx context.Context, r postrider.Request, to *store.EndpointSnapshot) ([]postrider.Verdict, error) {
	header := http.Header{}
	for _, f := range r.Header {
		header.Add(f.Name, f.Value)
	}
	now := i.Now()
	verdicts := make([]postrider.Verdict, 0, len(r.Signed))
	for n, s := range to.Endpoint.Policy.Signatures {
		v := signature.Verifier{Format: signature.Format{Scheme: signature.Scheme(s.Scheme), Header: s.Header, Prefix: s.Prefix}}
		verdict := postrider.Verdict{Scheme: s.Scheme, Header: r.Signed[n].Header, Error: "no secret"}
		for _, secret := range to.Secrets {
			if !secret.ActiveAt(now) {
				continue
			}
			key, err := i.key(ctx, secret)
			if err != nil {
				return nil, err
			}
			v.Keys = []signature.Key{key}
			if err := v.Verify(header, r.Body, now); err != nil {
				verdict.Error = strings.TrimPrefix(err.Error(), "signature: ")
				continue
			}
			verdict.Secret, verdict.Error = secret.ID, ""
			break
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts, nil
}

// key returns the key with which a receiver verifies: the shared secret, or the public key of a
// private key.
func (i *Inspector) key(ctx context.Context, s postrider.Secret) (signature.Key, error) {
	text, err := i.Vault.DecryptSecret(ctx, s)
	if err != nil {
		return signature.Key{}, fmt.Errorf("decrypt secret %s: %w", s.ID, err)
	}
	secret, err := signature.ParseSecret(text)
	if err != nil {
		secret, err = signature.TextSecret(text)
	}
	if err != nil {
		return signature.Key{}, fmt.Errorf("read secret %s: %w", s.ID, err)
	}
	if public := secret.Public(); !public.IsZero() {
		secret = public
	}
	return signature.Key{ID: s.ID.String(), Secret: secret}, nil
}

// forgetEvery is the time between two rounds that delete old requests. Lists leave out old requests
// that are not deleted yet.
const forgetEvery = 10 * time.Minute

// Run deletes requests that are older than InspectionKeptFor, until ctx ends. It may run on
// several nodes at once.
func (i *Inspector) Run(ctx context.Context) error {
	const limit = 1000
	for {
		n, err := i.Store.ForgetInspections(ctx, limit)
		if err != nil && ctx.Err() == nil {
			i.Log.WarnContext(ctx, "old requests of inspectors not deleted", "error", err)
		}
		if n == limit && err == nil {
			continue
		}
		if !batch.Sleep(ctx, forgetEvery) {
			return nil
		}
	}
}
