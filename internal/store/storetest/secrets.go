package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func (w *world) revoke(e postrider.EndpointID, secret postrider.SecretID) error {
	return w.RevokeSecret(w.Context(), store.RevokeSecret{Endpoint: e, Secret: secret})
}

// refusesRevocation fails the test unless the revocation is refused and changes nothing.
func (w *world) refusesRevocation(e postrider.EndpointID, secret postrider.SecretID, want error) {
	w.Helper()
	version, secrets := w.version(), w.secrets(e)
	w.refuses(w.revoke(e, secret), want)
	w.same("the version", w.version(), version)
	w.same("the secrets", w.secrets(e), secrets)
}

func revokeSecretExpires(w *world) {
	e := w.draft(w.account())
	a, b, c := w.secret(e.ID), w.secret(e.ID), w.secret(e.ID)
	b.ExpiresAt = w.now().Add(long)
	w.put(e, a, b, c)
	w.ok(w.revoke(e.ID, c.ID))
	w.same("after the newest is revoked", w.secrets(e.ID), []postrider.Secret{b, a})
	w.ok(w.revoke(e.ID, b.ID))
	w.same("after one that expires is revoked", w.secrets(e.ID), []postrider.Secret{a})
	w.same("what is routed", w.changes(0, 10).Endpoints[0].Secrets, []postrider.Secret{a})
}

func revokeSecretUnknown(w *world) {
	e, other := w.draft(w.account()), w.draft(w.account())
	foreign := w.secret(other.ID)
	e = w.put(e, w.secret(e.ID), w.secret(e.ID))
	w.put(other, foreign, w.secret(other.ID))
	w.refusesRevocation(e.ID, newID[postrider.SecretID](w), postrider.ErrNotFound)
	w.refusesRevocation(e.ID, foreign.ID, postrider.ErrNotFound)
	w.refusesRevocation(newID[postrider.EndpointID](w), foreign.ID, postrider.ErrNotFound)
	w.become(e, postrider.EndpointDeleted)
	w.refusesRevocation(e.ID, w.secrets(e.ID)[0].ID, postrider.ErrNotFound)
}

func revokeSecretExpired(w *world) {
	e := w.draft(w.account())
	a, b, c := w.secret(e.ID), w.secret(e.ID), w.secret(e.ID)
	a.ExpiresAt = w.now().Add(-time.Second)
	w.put(e, a, b, c)
	w.refusesRevocation(e.ID, a.ID, postrider.ErrNotFound)
	w.ok(w.revoke(e.ID, b.ID))
	w.refusesRevocation(e.ID, b.ID, postrider.ErrNotFound)
}

func revokeSecretLast(w *world) {
	e := w.draft(w.account())
	a, b := w.secret(e.ID), w.secret(e.ID)
	a.ExpiresAt = w.now().Add(-time.Second)
	w.put(e, a, b)
	w.refusesRevocation(e.ID, b.ID, postrider.ErrConflict)
}

func revokeSecretLasting(w *world) {
	e := w.draft(w.account())
	a, b := w.secret(e.ID), w.secret(e.ID)
	w.put(e, a)
	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: b, Overlap: long}))
	w.refusesRevocation(e.ID, b.ID, postrider.ErrConflict)
	w.ok(w.revoke(e.ID, a.ID))
	w.refusesRevocation(e.ID, b.ID, postrider.ErrConflict)

	c := w.secret(e.ID)
	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: c, Overlap: 0}))
	w.refusesRevocation(e.ID, c.ID, postrider.ErrConflict)
	w.eventually("the old secret expires", func() bool { return len(w.secrets(e.ID)) == 1 })

	old := w.draft(w.account()) // a stored endpoint of an older version
	only := w.secret(old.ID)
	only.ExpiresAt = w.now().Add(long)
	other := w.secret(old.ID)
	other.ExpiresAt = w.now().Add(long)
	w.put(old, only, other)
	w.refusesRevocation(old.ID, only.ID, postrider.ErrConflict)
}

// lasting returns the number of the endpoint's secrets that do not expire.
func (w *world) lasting(e postrider.EndpointID) (n int) {
	w.Helper()
	for _, secret := range w.secrets(e) {
		if secret.ExpiresAt.IsZero() {
			n++
		}
	}
	return n
}

func revokeSecretWhileRotating(w *world) {
	e := w.draft(w.account())
	w.put(e, w.secret(e.ID))
	for range 5 {
		last := w.secrets(e.ID)[0]
		var callers sync.WaitGroup
		for _, overlap := range []time.Duration{0, long} {
			next := w.secret(e.ID)
			callers.Go(func() {
				if err := w.RotateSecret(w.Context(), store.RotateSecret{Secret: next, Overlap: overlap}); err != nil {
					w.Errorf("rotate: %v", err)
				}
			})
			callers.Go(func() { _ = w.revoke(e.ID, next.ID) }) // refused, unless the secret expires already
		}
		callers.Go(func() { _ = w.revoke(e.ID, last.ID) })
		callers.Wait()
		w.same("how many secrets last", w.lasting(e.ID), 1)
	}
}

func rotateSecretRepeated(w *world) {
	e := w.draft(w.account())
	a, b := w.secret(e.ID), w.secret(e.ID)
	w.put(e, a)
	for range 2 {
		w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: b, Overlap: long}))
		w.same("the newest secret", w.secrets(e.ID)[0], b)
	}
	w.same("how many secrets there are", len(w.secrets(e.ID)), 2)
}

func secretsOfSeveral(w *world) {
	a, b := w.draft(w.account()), w.draft(w.account())
	ofA, ofB := []postrider.Secret{w.secret(a.ID), w.secret(a.ID)}, []postrider.Secret{w.secret(b.ID)}
	w.put(a, ofA...)
	w.put(b, ofB...)
	got, err := w.Secrets(w.Context(), a.ID, newID[postrider.EndpointID](w), b.ID)
	w.ok(err)
	w.same("the secrets", got, []postrider.Secret{ofA[1], ofA[0], ofB[0]})
	none, err := w.Secrets(w.Context())
	w.ok(err)
	w.same("those of no endpoint", none, []postrider.Secret{})
}

func putEndpointClosesCircuit(w *world) {
	e, never := w.endpoint(), w.endpoint()
	c := w.putCircuit(w.circuit(e))
	disabled := w.become(e, postrider.EndpointDisabled)
	enabled := disabled
	enabled.Status = postrider.EndpointEnabled

	stale := enabled
	stale.Revision--
	_, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: stale, CloseCircuit: true})
	w.refuses(err, postrider.ErrConflict)
	w.same("the circuit after a change that was refused", w.circuits(store.CircuitQuery{Endpoint: e.ID, Limit: 1}), []postrider.Circuit{c})

	version := w.version()
	want := postrider.Circuit{
		Endpoint: e.ID, Status: postrider.CircuitClosed, Reason: c.Reason, Generation: c.Generation + 1,
		RateFullAt: c.RateFullAt, LastAttemptAt: c.LastAttemptAt, LastOutcome: c.LastOutcome,
	}
	for range 2 { // repeated, it no longer changes the circuit
		enabled, err = w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: enabled, CloseCircuit: true})
		w.ok(err)
		w.same("the circuit", w.circuits(store.CircuitQuery{Endpoint: e.ID, Limit: 1}), []postrider.Circuit{want})
		version++
		w.same("the version", w.version(), version)
	}
	w.same("what nodes hear", w.changes(version-1, 10).Endpoints, []store.EndpointSnapshot{{Endpoint: enabled, Circuit: want}})
	_, err = w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: never, CloseCircuit: true})
	w.ok(err)
	w.same("a circuit that never changed", w.circuits(store.CircuitQuery{Endpoint: never.ID, Limit: 1}), []postrider.Circuit{})
}

func revokeSecretInParallel(w *world) {
	e := w.draft(w.account())
	secrets := []postrider.Secret{w.secret(e.ID), w.secret(e.ID), w.secret(e.ID), w.secret(e.ID)}
	w.put(e, secrets...)
	var revoked atomic.Int32
	var callers sync.WaitGroup
	for _, secret := range secrets {
		callers.Go(func() {
			if w.revoke(e.ID, secret.ID) == nil {
				revoked.Add(1)
			}
		})
	}
	callers.Wait()
	if n := len(w.secrets(e.ID)); revoked.Load() != 3 || n != 1 {
		w.Errorf("%d of 4 secrets were revoked and %d are left, want 3 and 1", revoked.Load(), n)
	}
}

// privateKey returns a secret with a public key.
func (w *world) privateKey(e postrider.EndpointID) postrider.Secret {
	secret := w.secret(e)
	secret.Public = "whpk_" + secret.ID.String()
	return secret
}

func secretID(s postrider.Secret) postrider.SecretID { return s.ID }

func publicKeysPages(w *world) {
	account := w.account()
	var want []postrider.SecretID
	for range 5 {
		e := w.draft(account)
		key := w.privateKey(e.ID)
		want = append(want, key.ID)
		w.put(e, key, w.secret(e.ID))
	}
	slices.Reverse(want)
	w.same("the keys", pages(w, secretID, func(p store.Paging) (store.Page[postrider.Secret], error) {
		return w.PublicKeys(w.Context(), store.PublicKeyQuery{Paging: p})
	}), want)
}

func (w *world) publicKeys(e postrider.EndpointID) []postrider.Secret {
	w.Helper()
	page, err := w.PublicKeys(w.Context(), store.PublicKeyQuery{Endpoint: e})
	w.ok(err)
	return page.Items
}

func publicKeysFilter(w *world) {
	a, b := w.draft(w.account()), w.draft(w.account())
	keys := []postrider.Secret{w.privateKey(a.ID), w.privateKey(b.ID), w.privateKey(a.ID)}
	w.put(a, keys[0], keys[2])
	w.put(b, keys[1])
	list := by(secretID, func(q store.PublicKeyQuery) (store.Page[postrider.Secret], error) {
		return w.PublicKeys(w.Context(), q)
	})
	selects(w, store.PublicKeyQuery{}, list, []postrider.SecretID{keys[2].ID, keys[1].ID, keys[0].ID})
	selects(w, store.PublicKeyQuery{Endpoint: a.ID}, list, []postrider.SecretID{keys[2].ID, keys[0].ID})
	selects(w, store.PublicKeyQuery{Endpoint: newID[postrider.EndpointID](w)}, list, nil)
	q := store.PublicKeyQuery{Endpoint: a.ID, Paging: store.Paging{Limit: 1}}
	page, err := list(q)
	w.ok(err)
	w.same("the first page of an endpoint", page, []postrider.SecretID{keys[2].ID})
	q.Cursor = store.EncodeCursor(string(keys[2].ID[:]))
	selects(w, q, list, []postrider.SecretID{keys[0].ID})
}

func publicKeysOthers(w *world) {
	e, gone := w.draft(w.account()), w.draft(w.account())
	kept, expired := w.privateKey(e.ID), w.privateKey(e.ID)
	kept.ExpiresAt, expired.ExpiresAt = w.now().Add(long), w.now().Add(-time.Second)
	w.put(e, kept, expired, w.secret(e.ID))
	w.become(w.put(gone, w.privateKey(gone.ID)), postrider.EndpointDeleted)
	w.same("the keys", w.publicKeys(postrider.EndpointID{}), []postrider.Secret{kept}, cmpopts.IgnoreFields(postrider.Secret{}, "Encrypted"))
	w.same("the keys of the deleted endpoint", w.publicKeys(gone.ID), []postrider.Secret{})
}

func publicKeysWithoutText(w *world) {
	e := w.draft(w.account())
	key := w.privateKey(e.ID)
	w.put(e, key)
	w.same("the secrets", w.secrets(e.ID), []postrider.Secret{key})
	key.Encrypted = nil
	w.same("the keys", w.publicKeys(postrider.EndpointID{}), []postrider.Secret{key})
}

func publicKeysCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.PublicKeys(w.Context(), store.PublicKeyQuery{Paging: p})
		return err
	})
}
