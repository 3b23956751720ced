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

var access = []verb{
	{"PutAccount", []sentence{
		{"it creates the account", putAccountCreates},
		{"it changes the uid, name, metadata and retention of the one with this id", putAccountChanges},
		{"a uid that another account has is ErrConflict", putAccountConflict},
		{"of parallel accounts with one uid exactly one is created", putAccountInParallel},
		{"another revision than the stored one is ErrConflict", putAccountRevision},
		{"of parallel changes of one revision exactly one succeeds", putAccountChangedInParallel},
	}},
	{"DeleteAccount", []sentence{
		{"the account is deleted, and found by ID alone", deleteAccountFound},
		{"its uid is free, and it stays deleted", deleteAccountStays},
		{"its API keys are revoked, and no others", deleteAccountKeys},
		{"its sessions are revoked, and no others", deleteAccountSessions},
		{"one that does not exist, or is deleted, is ErrNotFound", deleteAccountNotFound},
	}},
	{"Accounts", []sentence{
		{"they are listed newest first, page by page", accountsPages},
		{"each filter selects", accountsFilters},
		{"metadata selects those that have all of it, page by page", accountsByMetadata},
		{"a cursor that no page gave is an InvalidError", accountsCursor},
	}},
	{"PutKey", []sentence{
		{"the key comes back as it was", putKey},
	}},
	{"Keys", []sentence{
		{"they are listed newest first, page by page, revoked and expired ones too", keysPages},
		{"each filter selects", keysFilters},
		{"a cursor that no page gave is an InvalidError", keysCursor},
	}},
	{"RevokeKey", []sentence{
		{"it ends the key and keeps the time of revocation", revokeKey},
		{"it ends the sessions that the key issued, and no others", revokeKeySessions},
		{"a key that does not exist is ErrNotFound", revokeKeyNotFound},
	}},
	{"TouchKey", []sentence{
		{"it notes the time, which never moves back", touchKey},
		{"a key that does not exist is ErrNotFound", touchKeyNotFound},
	}},
	{"PutEventType", []sentence{
		{"it creates the event type or changes its description and example", putEventType},
		{"new paths have the time of the change, and the others keep theirs", putPaths},
		{"a change of the paths raises the version, and Changes has the paths of all types", changePaths},
		{"another revision than the stored one is ErrConflict", putEventTypeRevision},
		{"one to change that does not exist is ErrNotFound", putEventTypeNotFound},
	}},
	{"EventTypes", []sentence{
		{"they are listed by name, page by page", eventTypesPages},
		{"the filter selects", eventTypesFilter},
		{"a cursor that no page gave is an InvalidError", eventTypesCursor},
	}},
	{"DeleteEventType", []sentence{
		{"it takes the event type out of the catalogue", deleteEventType},
		{"an event type that does not exist is ErrNotFound", deleteEventTypeNotFound},
	}},
}

func (w *world) newAccount(uid string) postrider.Account {
	id := newID[postrider.AccountID](w)
	return postrider.Account{ID: id, UID: uid, Name: "Acme \"é\" Inc.", CreatedAt: id.Time()}
}

// putAccount stores the account, and sets its new revision.
func (w *world) putAccount(a *postrider.Account) {
	w.Helper()
	w.ok(w.PutAccount(w.Context(), *a))
	a.Revision++
}

func (w *world) accounts(q store.AccountQuery) []postrider.Account {
	w.Helper()
	page, err := w.Accounts(w.Context(), q)
	w.ok(err)
	return page.Items
}

func putAccountCreates(w *world) {
	a := w.newAccount("acme")
	w.putAccount(&a)
	w.same("the accounts", w.accounts(store.AccountQuery{}), []postrider.Account{a})
}

func putAccountChanges(w *world) {
	a := w.newAccount("acme")
	w.putAccount(&a)
	a.UID, a.Name = "", "Another name"
	a.Retention = postrider.AccountRetention{Events: 1, Attempts: 2, Bodies: 3, IdempotencyKeys: 4}
	a.Metadata = postrider.Metadata{"plan": "gold \"é\"", "note": ""}
	w.putAccount(&a)
	w.same("the accounts", w.accounts(store.AccountQuery{}), []postrider.Account{a})
	a.Metadata = nil
	w.putAccount(&a)
	w.same("the accounts", w.accounts(store.AccountQuery{}), []postrider.Account{a})
}

func putAccountConflict(w *world) {
	a, b := w.newAccount("acme"), w.newAccount("")
	w.putAccount(&a)
	w.putAccount(&b)
	w.ok(w.PutAccount(w.Context(), w.newAccount("")))
	w.refuses(w.PutAccount(w.Context(), w.newAccount("acme")), postrider.ErrConflict)
	changed := b
	changed.UID, changed.Name = "acme", "Changed"
	w.refuses(w.PutAccount(w.Context(), changed), postrider.ErrConflict)
	w.same("the other account", w.accounts(store.AccountQuery{ID: b.ID}), []postrider.Account{b})
}

func putAccountInParallel(w *world) {
	var created atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if w.PutAccount(w.Context(), w.newAccount("acme")) == nil {
				created.Add(1)
			}
		})
	}
	callers.Wait()
	if n := len(w.accounts(store.AccountQuery{})); created.Load() != 1 || n != 1 {
		w.Errorf("%d calls succeeded and %d accounts exist, want 1 and 1", created.Load(), n)
	}
}

func putAccountRevision(w *world) {
	a := w.newAccount("acme")
	w.putAccount(&a)
	for _, revision := range []int64{0, 2, 7} {
		stale := a
		stale.Name, stale.Revision = "Stale", revision
		w.refuses(w.PutAccount(w.Context(), stale), postrider.ErrConflict)
	}
	unknown := w.newAccount("")
	unknown.Revision = 1
	w.refuses(w.PutAccount(w.Context(), unknown), postrider.ErrNotFound)
	w.same("the accounts", w.accounts(store.AccountQuery{}), []postrider.Account{a})
}

func putAccountChangedInParallel(w *world) {
	a := w.newAccount("acme")
	w.putAccount(&a)
	var changed atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if w.PutAccount(w.Context(), a) == nil {
				changed.Add(1)
			}
		})
	}
	callers.Wait()
	if got := w.accounts(store.AccountQuery{ID: a.ID}); changed.Load() != 1 || got[0].Revision != 2 {
		w.Errorf("%d calls succeeded and the revision is %d, want 1 and 2", changed.Load(), got[0].Revision)
	}
}

func deleteAccountFound(w *world) {
	a, other := w.newAccount("acme"), w.newAccount("other")
	w.putAccount(&a)
	w.putAccount(&other)
	w.ok(w.DeleteAccount(w.Context(), a.ID))
	w.same("the accounts", w.accounts(store.AccountQuery{}), []postrider.Account{other})
	w.same("those of its uid", w.accounts(store.AccountQuery{UID: "acme"}), []postrider.Account{})
	got := w.accounts(store.AccountQuery{ID: a.ID})
	w.same("the account by ID", got, []postrider.Account{a}, cmpopts.IgnoreFields(postrider.Account{}, "DeletedAt"))
	w.near("when it was deleted", got[0].DeletedAt.Sub(w.now()), 0)
}

func deleteAccountStays(w *world) {
	a, again := w.newAccount("acme"), w.newAccount("acme")
	w.putAccount(&a)
	w.ok(w.DeleteAccount(w.Context(), a.ID))
	w.refuses(w.PutAccount(w.Context(), a), postrider.ErrNotFound)
	w.putAccount(&again)
	w.same("the account of the uid", w.accounts(store.AccountQuery{UID: "acme"}), []postrider.Account{again})
	w.refuses(w.PutAccount(w.Context(), a), postrider.ErrNotFound)
	if got := w.accounts(store.AccountQuery{ID: a.ID}); len(got) != 1 || got[0].DeletedAt.IsZero() {
		w.Errorf("the deleted account is %+v", got)
	}
}

func deleteAccountKeys(w *world) {
	account := w.account()
	revoked := func() (ids []postrider.KeyID) {
		page, err := w.Keys(w.Context(), store.KeyQuery{})
		w.ok(err)
		for _, k := range page.Items {
			if !k.RevokedAt.IsZero() {
				ids = append(ids, k.ID)
			}
		}
		return ids
	}
	var bound []postrider.KeyID
	for i, of := range []postrider.AccountID{account, w.account(), {}, account} {
		k := postrider.APIKey{ID: newID[postrider.KeyID](w), Name: "k", Hash: [32]byte{byte(i + 1)}, Scopes: postrider.Scopes[:1], Account: of}
		w.ok(w.PutKey(w.Context(), k))
		if of == account {
			bound = append(bound, k.ID)
		}
	}
	w.same("the revoked keys before", revoked(), []postrider.KeyID{})
	w.ok(w.DeleteAccount(w.Context(), account))
	w.same("the revoked keys", revoked(), reversed(bound))
}

func deleteAccountNotFound(w *world) {
	account := w.account()
	w.refuses(w.DeleteAccount(w.Context(), newID[postrider.AccountID](w)), postrider.ErrNotFound)
	w.ok(w.DeleteAccount(w.Context(), account))
	w.refuses(w.DeleteAccount(w.Context(), account), postrider.ErrNotFound)
}

func accountID(a postrider.Account) postrider.AccountID { return a.ID }

func accountsPages(w *world) {
	var want []postrider.AccountID
	for range 5 {
		want = append(want, w.account())
	}
	slices.Reverse(want)
	w.same("the accounts", pages(w, accountID, func(p store.Paging) (store.Page[postrider.Account], error) {
		return w.Accounts(w.Context(), store.AccountQuery{Paging: p})
	}), want)
}

func accountsFilters(w *world) {
	a, b := w.newAccount("a"), w.newAccount("b")
	w.putAccount(&a)
	w.putAccount(&b)
	list := by(accountID, func(q store.AccountQuery) (store.Page[postrider.Account], error) { return w.Accounts(w.Context(), q) })
	selects(w, store.AccountQuery{}, list, []postrider.AccountID{b.ID, a.ID})
	selects(w, store.AccountQuery{ID: a.ID}, list, []postrider.AccountID{a.ID})
	selects(w, store.AccountQuery{UID: "b"}, list, []postrider.AccountID{b.ID})
	selects(w, store.AccountQuery{ID: a.ID, UID: "b"}, list, nil)
	selects(w, store.AccountQuery{UID: "c"}, list, nil)
	selects(w, store.AccountQuery{Retention: true}, list, nil)
	a.Retention, b.Retention = postrider.AccountRetention{Events: 1}, postrider.AccountRetention{IdempotencyKeys: 2}
	w.putAccount(&a)
	w.putAccount(&b)
	w.ok(w.PutAccount(w.Context(), w.newAccount("c")))
	w.ok(w.DeleteAccount(w.Context(), a.ID))
	selects(w, store.AccountQuery{Retention: true}, list, []postrider.AccountID{b.ID, a.ID})
}

func accountsCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.Accounts(w.Context(), store.AccountQuery{Paging: p})
		return err
	})
}

func (w *world) newKey() postrider.APIKey {
	id := newID[postrider.KeyID](w)
	k := postrider.APIKey{ID: id, Name: "ci", Scopes: []postrider.Scope{postrider.ScopeAdmin}, CreatedAt: id.Time()}
	copy(k.Hash[:], id[:])
	return k
}

func (w *world) key(id postrider.KeyID) postrider.APIKey {
	w.Helper()
	page, err := w.Keys(w.Context(), store.KeyQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("key %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

func putKey(w *world) {
	plain, full := w.newKey(), w.newKey()
	full.Account = w.account()
	full.Scopes = []postrider.Scope{postrider.ScopeEventsWrite, postrider.ScopeWebhooksRead}
	full.ExpiresAt = w.now().Add(long)
	for _, k := range []postrider.APIKey{plain, full} {
		w.ok(w.PutKey(w.Context(), k))
		w.same("the key", w.key(k.ID), k)
	}
}

func keyID(k postrider.APIKey) postrider.KeyID { return k.ID }

func keysPages(w *world) {
	var want []postrider.KeyID
	for i := range 5 {
		k := w.newKey()
		if i == 1 {
			k.ExpiresAt = w.now().Add(-time.Hour)
		}
		w.ok(w.PutKey(w.Context(), k))
		want = append(want, k.ID)
	}
	w.ok(w.RevokeKey(w.Context(), want[2]))
	slices.Reverse(want)
	w.same("the keys", pages(w, keyID, func(p store.Paging) (store.Page[postrider.APIKey], error) {
		return w.Keys(w.Context(), store.KeyQuery{Paging: p})
	}), want)
}

func keysFilters(w *world) {
	a, b := w.newKey(), w.newKey()
	a.Account, b.Account = newID[postrider.AccountID](w), postrider.AccountID{}
	w.ok(w.PutKey(w.Context(), a))
	w.ok(w.PutKey(w.Context(), b))
	list := by(keyID, func(q store.KeyQuery) (store.Page[postrider.APIKey], error) { return w.Keys(w.Context(), q) })
	selects(w, store.KeyQuery{}, list, []postrider.KeyID{b.ID, a.ID})
	selects(w, store.KeyQuery{ID: a.ID}, list, []postrider.KeyID{a.ID})
	selects(w, store.KeyQuery{Hash: b.Hash}, list, []postrider.KeyID{b.ID})
	selects(w, store.KeyQuery{ID: a.ID, Hash: b.Hash}, list, nil)
	selects(w, store.KeyQuery{Account: a.Account}, list, []postrider.KeyID{a.ID})
	selects(w, store.KeyQuery{Account: a.Account, Hash: b.Hash}, list, nil)
	selects(w, store.KeyQuery{Account: newID[postrider.AccountID](w)}, list, nil)
	selects(w, store.KeyQuery{Hash: [32]byte{1}}, list, nil)
}

func keysCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.Keys(w.Context(), store.KeyQuery{Paging: p})
		return err
	})
}

func revokeKey(w *world) {
	k := w.newKey()
	w.ok(w.PutKey(w.Context(), k))
	w.ok(w.RevokeKey(w.Context(), k.ID))
	revoked := w.key(k.ID)
	w.near("when it was revoked", revoked.RevokedAt.Sub(w.now()), 0)
	w.passed(time.Millisecond)
	w.ok(w.RevokeKey(w.Context(), k.ID))
	w.same("the key after a second revocation", w.key(k.ID), revoked)
}

func revokeKeyNotFound(w *world) {
	w.refuses(w.RevokeKey(w.Context(), newID[postrider.KeyID](w)), postrider.ErrNotFound)
}

func touchKey(w *world) {
	k := w.newKey()
	w.ok(w.PutKey(w.Context(), k))
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ at, want time.Time }{
		{noon, noon},
		{noon.Add(time.Hour), noon.Add(time.Hour)},
		{noon.Add(time.Minute), noon.Add(time.Hour)},
	} {
		w.ok(w.TouchKey(w.Context(), k.ID, tt.at))
		w.same("when it was last used", w.key(k.ID).LastUsedAt, tt.want)
	}
}

func touchKeyNotFound(w *world) {
	w.refuses(w.TouchKey(w.Context(), newID[postrider.KeyID](w), time.Now()), postrider.ErrNotFound)
}

func (w *world) eventType(name, description string) {
	w.Helper()
	w.ok(w.PutEventType(w.Context(), postrider.EventType{Name: name, Description: description, CreatedAt: w.now()}))
}

func putEventType(w *world) {
	w.eventType("invoice.paid", "")
	w.eventType("order.created", "An order.")
	example := []byte("{ \"name\" : \"Zo\u00eb\\u0000\" }") // the store must keep these bytes
	changed := postrider.EventType{Name: "order.created", Description: "An order was created.", Example: example, Revision: 1}
	w.ok(w.PutEventType(w.Context(), changed))
	changed.Revision = 2
	page, err := w.EventTypes(w.Context(), store.EventTypeQuery{})
	w.ok(err)
	w.same("the catalogue", page.Items, []postrider.EventType{
		{Name: "invoice.paid", Revision: 1}, changed,
	}, cmpopts.IgnoreFields(postrider.EventType{}, "CreatedAt"))
	w.near("when it was created", page.Items[0].CreatedAt.Sub(w.now()), 0)
}

func putEventTypeRevision(w *world) {
	w.eventType("invoice.paid", "An invoice.")
	for _, revision := range []int64{0, 2} {
		w.refuses(w.PutEventType(w.Context(), postrider.EventType{Name: "invoice.paid", Revision: revision}), postrider.ErrConflict)
	}
	page, err := w.EventTypes(w.Context(), store.EventTypeQuery{})
	w.ok(err)
	w.same("the description", page.Items[0].Description, "An invoice.")
}

func putEventTypeNotFound(w *world) {
	w.refuses(w.PutEventType(w.Context(), postrider.EventType{Name: "invoice.paid", Revision: 1}), postrider.ErrNotFound)
	w.eventType("invoice.paid", "")
	w.ok(w.DeleteEventType(w.Context(), "invoice.paid"))
	w.refuses(w.PutEventType(w.Context(), postrider.EventType{Name: "invoice.paid", Revision: 1}), postrider.ErrNotFound)
	w.eventType("invoice.paid", "again")
}

func typeName(t postrider.EventType) string { return t.Name }

func eventTypesPages(w *world) {
	want := []string{"B", "a", "a.b", "a_b", "b"} // sorted by bytes, whatever the collation of the database
	for _, name := range []string{"a_b", "B", "a", "b", "a.b"} {
		w.eventType(name, "")
	}
	w.same("the catalogue", pages(w, typeName, func(p store.Paging) (store.Page[postrider.EventType], error) {
		return w.EventTypes(w.Context(), store.EventTypeQuery{Paging: p})
	}), want)
}

func eventTypesFilter(w *world) {
	w.eventType("a", "")
	w.eventType("b", "")
	list := by(typeName, func(q store.EventTypeQuery) (store.Page[postrider.EventType], error) {
		return w.EventTypes(w.Context(), q)
	})
	selects(w, store.EventTypeQuery{Name: "b"}, list, []string{"b"})
	selects(w, store.EventTypeQuery{Name: "c"}, list, nil)
}

func eventTypesCursor(w *world) {
	_, err := w.EventTypes(w.Context(), store.EventTypeQuery{Paging: store.Paging{Cursor: "!"}})
	w.refuses(err, postrider.ErrInvalid)
}

func deleteEventType(w *world) {
	w.eventType("a", "")
	w.eventType("b", "")
	w.ok(w.DeleteEventType(w.Context(), "a"))
	page, err := w.EventTypes(w.Context(), store.EventTypeQuery{})
	w.ok(err)
	if len(page.Items) != 1 || page.Items[0].Name != "b" {
		w.Errorf("the catalogue is %+v, want b", page.Items)
	}
}

func deleteEventTypeNotFound(w *world) {
	w.eventType("a", "")
	w.ok(w.DeleteEventType(w.Context(), "a"))
	w.refuses(w.DeleteEventType(w.Context(), "a"), postrider.ErrNotFound)
}
