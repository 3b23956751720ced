package storetest

import (
	"bytes"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var directory = []verb{
	{"PutEndpoint", []sentence{
		{"an account that has Most endpoints gets no new one, and its endpoints can be changed", putMost},
		{"of parallel calls with Most exactly those up to it succeed", putMostInParallel},
		{"an endpoint of revision 0 is created and comes back as stored", putEndpointCreates},
		{"an endpoint of the same revision is changed", putEndpointChanges},
		{"another revision is ErrConflict", putEndpointConflict},
		{"of parallel changes of one revision exactly one counts", putEndpointInParallel},
		{"a uid that another endpoint of the account has is ErrConflict", putEndpointUID},
		{"the uid of a deleted endpoint is free", putEndpointUIDOfDeleted},
		{"a deleted endpoint stays so", putEndpointDeleted},
		{"an endpoint that does not exist or is another account's is ErrNotFound", putEndpointNotFound},
		{"secrets are added to those that the endpoint has", putEndpointSecrets},
		{"with CloseCircuit it closes the circuit in the same transaction", putEndpointClosesCircuit},
		{"a policy of every form comes back", putEndpointPolicy},
		{"credentials and the time of verification come back, and go", putEndpointCredentials},
		{"the kind is http where none is given, and never changes", putEndpointKind},
		{"StatusSince is the time of the change that gave the endpoint its status", putEndpointStatusSince},
		{"with a PolicyError it leaves the stored policy, without one it replaces it", putEndpointUnreadable},
		{"with ConditionFailed the endpoint has a PolicyError and its policy", putEndpointConditionFailed},
	}},
	{"Endpoints", []sentence{
		{"they are listed newest first, page by page", endpointsPages},
		{"each filter selects", endpointsFilters},
		{"metadata selects those that have all of it, page by page", endpointsByMetadata},
		{"deleted ones are not listed but found by ID and by IDs", endpointsDeleted},
		{"one whose policy cannot be read has a PolicyError and others are not affected", endpointsUnreadable},
		{"a cursor that no page gave is an InvalidError", endpointsCursor},
	}},
	{"Secrets", []sentence{
		{"they come newest first", secretsNewestFirst},
		{"those that have expired do not", secretsExpired},
		{"an endpoint that does not exist has none", secretsNone},
		{"those of several endpoints come at once", secretsOfSeveral},
	}},
	{"RotateSecret", []sentence{
		{"the others expire after the overlap", rotateSecretOverlap},
		{"a secret that expires before the overlap keeps its time", rotateSecretKeepsEarlier},
		{"repeated with the same secret, it leaves that secret as it is", rotateSecretRepeated},
		{"an endpoint that does not exist is ErrNotFound", rotateSecretNotFound},
	}},
	{"RevokeSecret", []sentence{
		{"it lets the secret expire now", revokeSecretExpires},
		{"one that is unknown to the endpoint is ErrNotFound", revokeSecretUnknown},
		{"one that has expired is ErrNotFound", revokeSecretExpired},
		{"the last one that has not expired is ErrConflict", revokeSecretLast},
		{"one without which only secrets that are to expire would be left is ErrConflict", revokeSecretLasting},
		{"of a rotation and a revocation at once one lasting secret is left", revokeSecretWhileRotating},
		{"of parallel revocations of all secrets one is refused", revokeSecretInParallel},
	}},
	{"PublicKeys", []sentence{
		{"they are listed newest first, page by page", publicKeysPages},
		{"the filter selects", publicKeysFilter},
		{"secrets without a public key, expired ones and those of deleted endpoints are not listed", publicKeysOthers},
		{"they come without their encrypted texts", publicKeysWithoutText},
		{"a cursor that no page gave is an InvalidError", publicKeysCursor},
	}},
	{"Changes", []sentence{
		{"every PutEndpoint, RotateSecret and RevokeSecret raises the version by one", changesVersion},
		{"it returns what changed as it is now in the order of the last change", changesOrder},
		{"it returns at most limit and the version up to which that is all", changesPages},
		{"deleted endpoints are among them unless since is 0", changesDeleted},
		{"endpoints carry their credentials and the time of verification", changesCredentials},
		{"endpoints carry their secrets that have not expired, newest first", changesSecrets},
		{"endpoints carry their circuits", changesCircuits},
		{"endpoints carry the time of the last change of their subscription", changesSubscribedAt},
		{"no change is missed while others are made", changesInParallel},
	}},
}

func putEndpointKind(w *world) {
	plain, inspector := w.draft(w.account()), w.draft(w.account())
	plain.Kind, inspector.Kind, inspector.URL = "", postrider.KindInspector, ""
	plain, inspector = w.put(plain), w.put(inspector)
	w.same("the kind of an endpoint that was given none", plain.Kind, postrider.KindHTTP)
	inspector.Kind, inspector.Description = postrider.KindHTTP, "changed"
	w.same("the kind that a change returns", w.put(inspector).Kind, postrider.KindInspector)
	w.same("the kind that is stored", w.found(inspector.ID).Kind, postrider.KindInspector)
	w.same("the URL that is stored", w.found(inspector.ID).URL, "")
}

func putEndpointStatusSince(w *world) {
	e := w.put(w.draft(w.account()))
	w.near("since when a new endpoint is enabled", e.StatusSince.Sub(w.now()), 0)
	since := e.StatusSince
	e.Description, e.StatusSince = "changed", w.now().Add(long)
	e = w.put(e)
	w.same("since when an endpoint is enabled whose description changes", e.StatusSince, since)
	e.Status = postrider.EndpointPaused
	w.passed(0)
	e = w.put(e)
	if !e.StatusSince.After(since) {
		w.Errorf("the endpoint is paused since %v, and was enabled since %v", e.StatusSince, since)
	}
	w.same("since when it is stored to be paused", w.found(e.ID).StatusSince, e.StatusSince)
}

var ignoreUpdated = cmpopts.IgnoreFields(postrider.Endpoint{}, "UpdatedAt", "StatusSince")

// found returns the stored endpoint.
func (w *world) found(id postrider.EndpointID) postrider.Endpoint {
	w.Helper()
	page, err := w.Endpoints(w.Context(), store.EndpointQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("endpoint %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

func putEndpointCreates(w *world) {
	e := w.draft(w.account())
	e.UID, e.Description, e.StatusReason = "main", "the \"main\" one, é", "maintenance"
	e.Status = postrider.EndpointPaused
	e.EventTypes, e.Metadata = []postrider.Pattern{"order.*", "invoice.paid"}, postrider.Metadata{"plan": "gold \"é\"", "note": ""}
	got := w.put(e)
	e.Revision = 1
	w.same("PutEndpoint", got, e, ignoreUpdated)
	w.near("when it was changed", got.UpdatedAt.Sub(w.now()), 0)
	w.same("the stored endpoint", w.found(e.ID), got)
}

func putEndpointChanges(w *world) {
	e := w.endpoint()
	e.UID, e.URL, e.EventTypes = "new", "https://acme.example/other", []postrider.Pattern{"order.paid"}
	e.Status, e.StatusReason = postrider.EndpointDisabled, "a reason"
	e.Policy.Concurrency, e.Metadata = 3, postrider.Metadata{"region": "eu"}
	got := w.put(e)
	e.Revision = 2
	w.same("PutEndpoint", got, e, ignoreUpdated)
	w.same("the stored endpoint", w.found(e.ID), got)
	if got := w.put(got); got.Revision != 3 {
		w.Errorf("the revision is %d, want 3", got.Revision)
	}
}

func (w *world) tryPut(e postrider.Endpoint) error {
	_, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: e})
	return err
}

func putEndpointConflict(w *world) {
	e := w.endpoint()
	changed := w.put(e)
	version := w.version()
	e.URL = "https://acme.example/lost"
	for _, revision := range []int64{0, 1, 3} {
		e.Revision = revision
		w.refuses(w.tryPut(e), postrider.ErrConflict)
	}
	w.same("the stored endpoint", w.found(e.ID), changed)
	w.same("the version", w.version(), version)
}

func putEndpointInParallel(w *world) {
	e := w.endpoint()
	var counted atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if w.tryPut(e) == nil {
				counted.Add(1)
			}
		})
	}
	callers.Wait()
	if got := w.found(e.ID); counted.Load() != 1 || got.Revision != 2 {
		w.Errorf("%d changes counted and the revision is %d, want 1 and 2", counted.Load(), got.Revision)
	}
}

func putEndpointUID(w *world) {
	a, other := w.endpoint(), w.account()
	a.UID = "main"
	w.put(a)
	created := w.draft(a.Account)
	created.UID = "main"
	w.refuses(w.tryPut(created), postrider.ErrConflict)

	changed := w.put(w.draft(a.Account))
	changed.UID = "main"
	w.refuses(w.tryPut(changed), postrider.ErrConflict)
	if got := w.found(changed.ID); got.UID != "" || got.Revision != 1 {
		w.Errorf("the refused change left %+v", got)
	}

	elsewhere := w.draft(other)
	elsewhere.UID = "main"
	w.put(elsewhere)
	w.put(w.draft(a.Account)) // many endpoints may have no uid
}

func putEndpointUIDOfDeleted(w *world) {
	e := w.draft(w.account())
	e.UID = "main"
	w.become(w.put(e), postrider.EndpointDeleted)
	next := w.draft(e.Account)
	next.UID = "main"
	w.put(next)
}

func putEndpointDeleted(w *world) {
	e := w.become(w.endpoint(), postrider.EndpointDeleted)
	e.Status = postrider.EndpointEnabled
	w.refuses(w.tryPut(e), postrider.ErrNotFound)
	if got := w.found(e.ID).Status; got != postrider.EndpointDeleted {
		w.Errorf("the endpoint is %s, want deleted", got)
	}
}

func putEndpointNotFound(w *world) {
	unknown := w.draft(w.account())
	unknown.Revision = 1
	w.refuses(w.tryPut(unknown), postrider.ErrNotFound)
	foreign := w.endpoint()
	foreign.Account = unknown.Account
	w.refuses(w.tryPut(foreign), postrider.ErrNotFound)
}

// secret returns a secret of the endpoint that is not stored yet.
func (w *world) secret(e postrider.EndpointID) postrider.Secret {
	id := newID[postrider.SecretID](w)
	return postrider.Secret{ID: id, Endpoint: e, Encrypted: bytes.Repeat(id[:], 2), CreatedAt: id.Time()}
}

func (w *world) secrets(e postrider.EndpointID) []postrider.Secret {
	w.Helper()
	secrets, err := w.Secrets(w.Context(), e)
	w.ok(err)
	return secrets
}

func putEndpointSecrets(w *world) {
	e := w.draft(w.account())
	a, b, c := w.secret(e.ID), w.secret(e.ID), w.secret(e.ID)
	stored := w.put(e, a, b)
	w.same("the first secrets", w.secrets(e.ID), []postrider.Secret{b, a})
	w.put(stored, c)
	w.same("all secrets", w.secrets(e.ID), []postrider.Secret{c, b, a})
}

func putEndpointPolicy(w *world) {
	for _, retry := range []postrider.RetryPolicy{
		{Preset: "seven-step"},
		{Delays: []time.Duration{0, 1500 * time.Millisecond, time.Hour}, Jitter: "10%"},
		{Base: time.Second, Factor: 1.5, Cap: time.Hour, MaxAttempts: 9, Jitter: "full"},
	} {
		e := w.draft(w.account())
		e.Policy = postrider.Policy{
			Filter: "{ \"data\":\t{\"total\": [9007199254740993.0, {\"prefix\": \"<\\u0000é\"}]} }\n", Changed: []string{"$.b[0].é", "$"},
			Channels: []string{"shop 7", "é"}, Condition: "data.a == '<é>' &&\n\ttype != \"\\u0000\"",
			Retry: retry, Timeout: 3 * time.Second, ClientErrors: postrider.DeadLetterClientErrors, Concurrency: 7,
			Expiry: 5 * time.Minute, Payload: postrider.PayloadRaw,
			Signatures: []postrider.Signature{{Scheme: postrider.SchemePlain, Header: "X-Acme", Prefix: "v1="}, {Scheme: postrider.SchemeStandard}},
			Circuit:    postrider.CircuitPresets["windowed"], Order: postrider.OrderByKey, OnDead: postrider.PauseOnDead,
			Rate:    postrider.Rate{Attempts: 5, Per: time.Second},
			Headers: []postrider.Header{{Name: "X-Tenant", Value: "acme"}, {Name: "X-Token", Secret: true}},
			Auth: postrider.Auth{
				Kind: postrider.AuthOAuth2, TokenURL: "https://acme.example/token", ClientID: "us", Scopes: []string{"a", "b"}, Audience: "acme",
			},
			TLS:          postrider.TLS{Certificate: "a certificate", Authorities: "another"},
			MaxRedirects: 3, Compression: postrider.CompressionGzip,
		}
		SetFlags(&e.Policy)
		w.put(e)
		w.same("the stored policy", w.found(e.ID).Policy, e.Policy)
	}
}

// SetFlags sets all bool options of the policy to true.
func SetFlags(p *postrider.Policy) {
	for _, field := range reflect.ValueOf(p).Elem().Fields() {
		if field.Kind() == reflect.Bool {
			field.SetBool(true)
		}
	}
}

func putEndpointCredentials(w *world) {
	e := w.draft(w.account())
	e.Credentials, e.VerifiedAt = []byte("\x00\xffencrypted"), w.now().Add(-time.Hour)
	got := w.put(e)
	e.Revision = 1
	w.same("PutEndpoint", got, e, ignoreUpdated)
	w.same("the stored endpoint", w.found(e.ID), got)

	got.Credentials, got.VerifiedAt = nil, time.Time{}
	got = w.put(got)
	if stored := w.found(e.ID); got.Credentials != nil || stored.Credentials != nil || !stored.VerifiedAt.IsZero() {
		w.Errorf("stored credentials %q, verified at %v; want none", stored.Credentials, stored.VerifiedAt)
	}
}

func endpointID(e postrider.Endpoint) postrider.EndpointID { return e.ID }

func endpointsPages(w *world) {
	account := w.account()
	var want []postrider.EndpointID
	for range 5 {
		want = append(want, w.put(w.draft(account)).ID)
	}
	slices.Reverse(want)
	w.same("the endpoints", pages(w, endpointID, func(p store.Paging) (store.Page[postrider.Endpoint], error) {
		return w.Endpoints(w.Context(), store.EndpointQuery{Account: account, Paging: p})
	}), want)
}

func endpointsFilters(w *world) {
	a, b := w.account(), w.account()
	named := w.draft(a)
	named.UID = "main"
	named = w.put(named)
	paused := w.become(w.put(w.draft(a)), postrider.EndpointPaused)
	foreign := w.draft(b)
	foreign.UID = "main"
	foreign = w.put(foreign)
	closed := w.circuit(named)
	closed.Status, closed.FailingSince = postrider.CircuitClosed, time.Time{}
	w.putCircuit(closed)
	w.putCircuit(w.circuit(paused))
	waits := w.circuit(foreign)
	waits.ProbeAt, waits.FailingSince = w.now(), time.Time{} // so it is shown as half open
	w.putCircuit(waits)
	w.putHealth(w.health(named, 1))
	w.putHealth(w.health(foreign, 1))
	good := w.health(foreign, 2)
	good.Status = postrider.Healthy
	w.putHealth(good)
	list := by(endpointID, func(q store.EndpointQuery) (store.Page[postrider.Endpoint], error) {
		return w.Endpoints(w.Context(), q)
	})
	for _, tt := range []struct {
		query store.EndpointQuery
		want  []postrider.EndpointID
	}{
		{store.EndpointQuery{}, []postrider.EndpointID{foreign.ID, paused.ID, named.ID}},
		{store.EndpointQuery{Account: a}, []postrider.EndpointID{paused.ID, named.ID}},
		{store.EndpointQuery{Account: a, ID: named.ID}, []postrider.EndpointID{named.ID}},
		{store.EndpointQuery{Account: b, ID: named.ID}, nil},
		{
			store.EndpointQuery{IDs: []postrider.EndpointID{named.ID, foreign.ID, newID[postrider.EndpointID](w)}},
			[]postrider.EndpointID{foreign.ID, named.ID},
		},
		{store.EndpointQuery{Account: a, IDs: []postrider.EndpointID{named.ID, foreign.ID}}, []postrider.EndpointID{named.ID}},
		{store.EndpointQuery{Account: b, UID: "main"}, []postrider.EndpointID{foreign.ID}},
		{store.EndpointQuery{Account: a, UID: "other"}, nil},
		{store.EndpointQuery{Account: a, Status: postrider.EndpointPaused}, []postrider.EndpointID{paused.ID}},
		{store.EndpointQuery{Status: postrider.EndpointEnabled}, []postrider.EndpointID{foreign.ID, named.ID}},
		{store.EndpointQuery{Circuit: postrider.CircuitClosed}, []postrider.EndpointID{named.ID}},
		{store.EndpointQuery{Circuit: postrider.CircuitOpen}, []postrider.EndpointID{paused.ID}},
		{store.EndpointQuery{Circuit: postrider.CircuitHalfOpen}, []postrider.EndpointID{foreign.ID}},
		{store.EndpointQuery{Failing: new(true)}, []postrider.EndpointID{paused.ID}},
		{store.EndpointQuery{Failing: new(false)}, []postrider.EndpointID{foreign.ID, named.ID}},
		{store.EndpointQuery{Account: b, Failing: new(true)}, nil},
		{store.EndpointQuery{Health: postrider.Healthy, Failing: new(false)}, []postrider.EndpointID{foreign.ID}},
		{store.EndpointQuery{Health: postrider.Healthy}, []postrider.EndpointID{foreign.ID, paused.ID}},
		{store.EndpointQuery{Account: a, Health: postrider.HealthWarned}, []postrider.EndpointID{named.ID}},
		{store.EndpointQuery{Health: postrider.HealthDisabled}, nil},
		{store.EndpointQuery{ID: newID[postrider.EndpointID](w)}, nil},
	} {
		selects(w, tt.query, list, tt.want)
	}
}

func endpointsDeleted(w *world) {
	e := w.draft(w.account())
	e.UID = "main"
	e = w.become(w.put(e), postrider.EndpointDeleted)
	for _, q := range []store.EndpointQuery{{}, {Account: e.Account}, {Account: e.Account, UID: "main"}} {
		page, err := w.Endpoints(w.Context(), q)
		w.ok(err)
		if len(page.Items) != 0 {
			w.Errorf("%+v lists a deleted endpoint", q)
		}
	}
	w.same("the endpoint by ID", w.found(e.ID), e)
	page, err := w.Endpoints(w.Context(), store.EndpointQuery{IDs: []postrider.EndpointID{e.ID}})
	w.ok(err)
	w.same("the endpoint by IDs", page.Items, []postrider.Endpoint{e})
}

func endpointsCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.Endpoints(w.Context(), store.EndpointQuery{Paging: p})
		return err
	})
}

func secretsNewestFirst(w *world) {
	e := w.draft(w.account())
	a, b := w.secret(e.ID), w.secret(e.ID)
	b.ExpiresAt = w.now().Add(long)
	w.put(e, a, b)
	w.same("the secrets", w.secrets(e.ID), []postrider.Secret{b, a})
}

func secretsExpired(w *world) {
	e := w.draft(w.account())
	a, b := w.secret(e.ID), w.secret(e.ID)
	b.ExpiresAt = w.now().Add(-time.Second)
	w.put(e, a, b)
	w.same("the secrets", w.secrets(e.ID), []postrider.Secret{a})
}

func secretsNone(w *world) {
	w.same("the secrets", w.secrets(newID[postrider.EndpointID](w)), []postrider.Secret{})
}

func rotateSecretOverlap(w *world) {
	e := w.draft(w.account())
	a, b, c := w.secret(e.ID), w.secret(e.ID), w.secret(e.ID)
	w.put(e, a)
	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: b, Overlap: long}))
	got := w.secrets(e.ID)
	w.same("the secrets", got, []postrider.Secret{b, a}, cmpopts.IgnoreFields(postrider.Secret{}, "ExpiresAt"))
	if !got[0].ExpiresAt.IsZero() {
		w.Errorf("the new secret expires")
	}
	w.near("the expiry of the old one", got[1].ExpiresAt.Sub(w.now()), long)

	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: c}))
	w.eventually("the others expire", func() bool { return len(w.secrets(e.ID)) == 1 })
	w.same("the last secret", w.secrets(e.ID), []postrider.Secret{c})
}

func rotateSecretKeepsEarlier(w *world) {
	e := w.draft(w.account())
	a := w.secret(e.ID)
	a.ExpiresAt = w.now().Add(long)
	w.put(e, a)
	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: w.secret(e.ID), Overlap: 3 * long}))
	w.same("the old secret", w.secrets(e.ID)[1], a)
}

func rotateSecretNotFound(w *world) {
	version := w.version()
	err := w.RotateSecret(w.Context(), store.RotateSecret{Secret: w.secret(newID[postrider.EndpointID](w)), Overlap: long})
	w.refuses(err, postrider.ErrNotFound)
	w.same("the version", w.version(), version)
}

func changesVersion(w *world) {
	account := w.account()
	version := w.version()
	raised := func(what string) {
		w.Helper()
		next := w.version()
		w.same("the version after "+what, next, version+1)
		version = next
	}
	e := w.put(w.draft(account))
	raised("a creation")
	e = w.put(e)
	raised("a change")
	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: w.secret(e.ID), Overlap: long}))
	raised("a rotation")
	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: w.secret(e.ID), Overlap: long}))
	raised("another")
	w.ok(w.RevokeSecret(w.Context(), store.RevokeSecret{Endpoint: e.ID, Secret: w.secrets(e.ID)[1].ID}))
	raised("a revocation")
	w.become(e, postrider.EndpointDeleted)
	raised("a deletion")
	w.account()
	w.same("the version after what is no change", w.version(), version)
}

func (w *world) changes(since int64, limit int) store.Changes {
	w.Helper()
	c, err := w.Changes(w.Context(), since, limit)
	w.ok(err)
	return c
}

func routedIDs(routed []store.EndpointSnapshot) (ids []postrider.EndpointID) {
	for _, r := range routed {
		ids = append(ids, r.Endpoint.ID)
	}
	return ids
}

func changesOrder(w *world) {
	account := w.account()
	a, b, c := w.put(w.draft(account)), w.put(w.draft(account)), w.put(w.draft(account))
	a.URL = "https://acme.example/changed"
	a = w.put(a)
	got := w.changes(0, 10)
	w.same("all changes", routedIDs(got.Endpoints), []postrider.EndpointID{b.ID, c.ID, a.ID})
	w.same("the endpoint that was changed", got.Endpoints[2].Endpoint, a)

	w.ok(w.RotateSecret(w.Context(), store.RotateSecret{Secret: w.secret(b.ID), Overlap: long}))
	later := w.changes(got.Version, 10)
	w.same("later changes", routedIDs(later.Endpoints), []postrider.EndpointID{b.ID})
	w.same("no changes", w.changes(later.Version, 10), store.Changes{Version: later.Version})
}

func changesPages(w *world) {
	account := w.account()
	var want []postrider.EndpointID
	for range 5 {
		want = append(want, w.put(w.draft(account)).ID)
	}
	var got []postrider.EndpointID
	var version int64
	for {
		c := w.changes(version, 2)
		if len(c.Endpoints) > 2 || c.Version < version {
			w.Fatalf("%d changes after version %d up to %d, want at most 2", len(c.Endpoints), version, c.Version)
		}
		if len(c.Endpoints) == 0 {
			break
		}
		got, version = append(got, routedIDs(c.Endpoints)...), c.Version
	}
	w.same("the changes", got, want)
	w.same("the version", w.changes(0, 10).Version, version)
}

func changesDeleted(w *world) {
	kept := w.endpoint()
	since := w.version()
	gone := w.become(w.endpoint(), postrider.EndpointDeleted)
	w.same("from the start", routedIDs(w.changes(0, 10).Endpoints), []postrider.EndpointID{kept.ID})
	got := w.changes(since, 10)
	w.same("later", routedIDs(got.Endpoints), []postrider.EndpointID{gone.ID})
	w.same("the status", got.Endpoints[0].Endpoint.Status, postrider.EndpointDeleted)
	w.same("the version from the start", w.changes(0, 10).Version, got.Version)
}

func changesSecrets(w *world) {
	e := w.draft(w.account())
	old, a, b := w.secret(e.ID), w.secret(e.ID), w.secret(e.ID)
	old.ExpiresAt = w.now().Add(-time.Second)
	e = w.put(e, old, a)
	w.put(w.draft(e.Account))
	w.put(e, b)
	got := w.changes(0, 10)
	w.same("the secrets", got.Endpoints[1].Secrets, []postrider.Secret{b, a})
	w.same("the secrets of one without", got.Endpoints[0].Secrets, []postrider.Secret{})
}

func changesCredentials(w *world) {
	e := w.draft(w.account())
	e.Credentials, e.VerifiedAt = []byte("\x00encrypted"), e.ID.Time()
	e = w.put(e)
	w.same("the endpoint", w.changes(0, 10).Endpoints, []store.EndpointSnapshot{{Endpoint: e}})
}

func changesCircuits(w *world) {
	a, b := w.endpoint(), w.endpoint()
	c := w.putCircuit(w.circuit(a))
	w.same("from the start", w.changes(0, 10).Endpoints, []store.EndpointSnapshot{{Endpoint: a, Circuit: c}, {Endpoint: b}})
	version := w.version()
	a = w.put(a)
	w.same("later", w.changes(version, 10).Endpoints, []store.EndpointSnapshot{{Endpoint: a, Circuit: c}})
}

func changesInParallel(w *world) {
	account := w.account()
	start := w.version()
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 10 {
				if err := w.tryPut(w.draft(account)); err != nil {
					w.Errorf("PutEndpoint: %v", err)
				}
			}
		})
	}
	seen := map[postrider.EndpointID]bool{}
	version := start
	w.eventually("all forty are seen", func() bool {
		c := w.changes(version, 3)
		version = c.Version
		for _, id := range routedIDs(c.Endpoints) {
			seen[id] = true
		}
		return version == start+40
	})
	writers.Wait()
	if len(seen) != 40 {
		w.Errorf("%d endpoints were seen on the way to the last version, want 40", len(seen))
	}
}
