package storetest

import (
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var sessions = []verb{
	{"PutSession", []sentence{
		{"the session comes back as it was", putSession},
	}},
	{"RedeemCode", []sentence{
		{"it gives the session its token", redeemCode},
		{"of parallel calls with different tokens one succeeds", redeemCodeInParallel},
		{"a code that is unknown, used or expired, or whose session has ended, is ErrNotFound", redeemCodeNotFound},
		{"repeated with the same token, it returns the session again", redeemCodeAgain},
	}},
	{"Sessions", []sentence{
		{"they are listed newest first, page by page", sessionsPages},
		{"each filter selects", sessionsFilters},
		{"a cursor that no page gave is an InvalidError", sessionsCursor},
	}},
	{"RevokeSession", []sentence{
		{"it ends the session and keeps the time of revocation", revokeSession},
		{"a session that does not exist is ErrNotFound", revokeSessionNotFound},
	}},
	{"TouchSession", []sentence{
		{"it notes the time, which never moves back", touchSession},
		{"a session that does not exist is ErrNotFound", touchSessionNotFound},
	}},
	{"AppendAudit", []sentence{
		{"the entry comes back as it was", appendAudit},
		{"repeated with the same id, it stores nothing more", appendAuditAgain},
	}},
	{"AuditEntries", []sentence{
		{"they are listed newest first, page by page", auditPages},
		{"each filter selects", auditFilters},
		{"a cursor that no page gave is an InvalidError", auditCursor},
	}},
	{"PutPortal", []sentence{
		{"it replaces the settings, but not the logo", putPortal},
	}},
	{"Portal", []sentence{
		{"before the first PutPortal the settings are empty", portalIsEmpty},
	}},
	{"PutLogo", []sentence{
		{"it replaces the logo and its hash in the settings", putLogo},
		{"no bytes remove it", putLogoRemoves},
	}},
}

// newSession returns a session of an operator, with its own token.
func (w *world) newSession() postrider.Session {
	id := newID[postrider.SessionID](w)
	session := postrider.Session{
		ID: id, Kind: postrider.SessionOperator, Name: "Ann", Scopes: []postrider.Scope{postrider.ScopeWebhooksRead},
		CreatedAt: id.Time(), ExpiresAt: w.now().Add(long), Hash: sha256.Sum256(id[:]),
	}
	return session
}

// newLink returns a portal session with its own one-time code, which is not used yet.
func (w *world) newLink() postrider.Session {
	session := w.newSession()
	session.Kind, session.Code, session.Hash = postrider.SessionPortal, session.Hash, [32]byte{}
	session.CodeExpiresAt = w.now().Add(time.Minute)
	return session
}

func (w *world) session(id postrider.SessionID) postrider.Session {
	w.Helper()
	page, err := w.Sessions(w.Context(), store.SessionQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("session %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

func putSession(w *world) {
	plain, full := w.newSession(), w.newLink()
	full.Name, full.Subject, full.Locale, full.Embedded = "Ann é", "https://login.example ann", "de", true
	full.Key, full.Account = newID[postrider.KeyID](w), w.account()
	full.Options = []string{"rate", "retry"}
	none := w.newSession()
	none.Options = []string{}
	for _, session := range []postrider.Session{plain, full, none} {
		w.ok(w.PutSession(w.Context(), session))
		got := w.session(session.ID)
		w.same("the session", got, session)
		if (got.Options == nil) != (session.Options == nil) {
			w.Errorf("the options are %#v, want %#v: nil is all, and empty none", got.Options, session.Options)
		}
	}
}

// ids returns the keys of the items.
func ids[T, K any](items []T, key func(T) K) (all []K) {
	for _, item := range items {
		all = append(all, key(item))
	}
	return all
}

func sessionID(s postrider.Session) postrider.SessionID { return s.ID }

func redeemCode(w *world) {
	link, other := w.newLink(), w.newLink()
	w.ok(w.PutSession(w.Context(), link))
	w.ok(w.PutSession(w.Context(), other))
	token := [32]byte{9}
	got, err := w.RedeemCode(w.Context(), store.RedeemCode{Code: link.Code, Token: token})
	w.ok(err)
	link.Hash = token
	w.same("the session that it returns", got, link)
	w.same("the session", w.session(link.ID), link)
	w.same("another session", w.session(other.ID), other)
}

func redeemCodeInParallel(w *world) {
	link := w.newLink()
	w.ok(w.PutSession(w.Context(), link))
	var redeemed atomic.Int32
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			if _, err := w.RedeemCode(w.Context(), store.RedeemCode{Code: link.Code, Token: [32]byte{byte(i + 1)}}); err == nil {
				redeemed.Add(1)
			}
		})
	}
	callers.Wait()
	if redeemed.Load() != 1 {
		w.Errorf("the code was redeemed %d times, want once", redeemed.Load())
	}
}

func redeemCodeNotFound(w *world) {
	used, late, expired, revoked := w.newLink(), w.newLink(), w.newLink(), w.newLink()
	late.CodeExpiresAt = w.now().Add(-time.Second)
	expired.ExpiresAt = w.now().Add(-time.Second)
	for _, session := range []postrider.Session{used, late, expired, revoked, w.newSession()} {
		w.ok(w.PutSession(w.Context(), session))
	}
	_, err := w.RedeemCode(w.Context(), store.RedeemCode{Code: used.Code, Token: [32]byte{1}})
	w.ok(err)
	w.ok(w.RevokeSession(w.Context(), revoked.ID))
	for _, code := range [][32]byte{used.Code, late.Code, expired.Code, revoked.Code, {1}, {}} {
		_, err := w.RedeemCode(w.Context(), store.RedeemCode{Code: code, Token: [32]byte{2}})
		w.refuses(err, postrider.ErrNotFound)
	}
}

func redeemCodeAgain(w *world) {
	link := w.newLink()
	w.ok(w.PutSession(w.Context(), link))
	redeem := store.RedeemCode{Code: link.Code, Token: [32]byte{3}}
	first, err := w.RedeemCode(w.Context(), redeem)
	w.ok(err)
	again, err := w.RedeemCode(w.Context(), redeem)
	w.ok(err)
	w.same("the session", again, first)
}

func sessionsPages(w *world) {
	var want []postrider.SessionID
	for range 5 {
		session := w.newSession()
		w.ok(w.PutSession(w.Context(), session))
		want = append(want, session.ID)
	}
	slices.Reverse(want)
	w.same("the sessions", pages(w, sessionID, func(p store.Paging) (store.Page[postrider.Session], error) {
		return w.Sessions(w.Context(), store.SessionQuery{Paging: p})
	}), want)
}

func sessionsFilters(w *world) {
	a, b, c := w.newSession(), w.newLink(), w.newSession()
	b.Account = w.account()
	c.ExpiresAt = w.now().Add(-time.Minute)
	for _, session := range []postrider.Session{a, b, c} {
		w.ok(w.PutSession(w.Context(), session))
	}
	list := by(sessionID, func(q store.SessionQuery) (store.Page[postrider.Session], error) { return w.Sessions(w.Context(), q) })
	selects(w, store.SessionQuery{}, list, []postrider.SessionID{c.ID, b.ID, a.ID})
	selects(w, store.SessionQuery{ID: a.ID}, list, []postrider.SessionID{a.ID})
	selects(w, store.SessionQuery{Hash: a.Hash}, list, []postrider.SessionID{a.ID})
	selects(w, store.SessionQuery{Hash: a.Hash, ID: c.ID}, list, nil)
	selects(w, store.SessionQuery{Hash: [32]byte{1}}, list, nil)
	selects(w, store.SessionQuery{Code: b.Code}, list, []postrider.SessionID{b.ID})
	selects(w, store.SessionQuery{Code: b.Code, Hash: a.Hash}, list, nil)
	selects(w, store.SessionQuery{Kind: postrider.SessionPortal}, list, []postrider.SessionID{b.ID})
	selects(w, store.SessionQuery{Account: b.Account}, list, []postrider.SessionID{b.ID})
	selects(w, store.SessionQuery{LiveAt: w.now()}, list, []postrider.SessionID{b.ID, a.ID})
	selects(w, store.SessionQuery{Span: store.Span{From: b.ID.Time()}, Account: b.Account}, list, []postrider.SessionID{b.ID})
	selects(w, store.SessionQuery{Span: store.Span{From: c.ID.Time().Add(time.Millisecond)}}, list, nil)
	selects(w, store.SessionQuery{Span: store.Span{To: a.ID.Time()}}, list, nil)
	w.ok(w.RevokeSession(w.Context(), a.ID))
	selects(w, store.SessionQuery{LiveAt: w.now()}, list, []postrider.SessionID{b.ID})
}

func sessionsCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.Sessions(w.Context(), store.SessionQuery{Paging: p})
		return err
	})
}

func revokeSession(w *world) {
	session, other := w.newSession(), w.newSession()
	w.ok(w.PutSession(w.Context(), session))
	w.ok(w.PutSession(w.Context(), other))
	w.ok(w.RevokeSession(w.Context(), session.ID))
	revoked := w.session(session.ID)
	w.near("when it was revoked", revoked.RevokedAt.Sub(w.now()), 0)
	w.passed(time.Millisecond)
	w.ok(w.RevokeSession(w.Context(), session.ID))
	w.same("the session after a second revocation", w.session(session.ID), revoked)
	w.same("another session", w.session(other.ID), other)
}

func revokeSessionNotFound(w *world) {
	w.refuses(w.RevokeSession(w.Context(), newID[postrider.SessionID](w)), postrider.ErrNotFound)
}

func touchSession(w *world) {
	session := w.newSession()
	w.ok(w.PutSession(w.Context(), session))
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ at, want time.Time }{
		{noon, noon},
		{noon.Add(time.Hour), noon.Add(time.Hour)},
		{noon.Add(time.Minute), noon.Add(time.Hour)},
	} {
		w.ok(w.TouchSession(w.Context(), session.ID, tt.at))
		w.same("when it was last used", w.session(session.ID).LastSeenAt, tt.want)
	}
}

func touchSessionNotFound(w *world) {
	w.refuses(w.TouchSession(w.Context(), newID[postrider.SessionID](w), time.Now()), postrider.ErrNotFound)
}

// revokedSessions returns the revoked sessions, newest first.
func (w *world) revokedSessions() (revoked []postrider.SessionID) {
	w.Helper()
	page, err := w.Sessions(w.Context(), store.SessionQuery{})
	w.ok(err)
	for _, session := range page.Items {
		if !session.RevokedAt.IsZero() {
			revoked = append(revoked, session.ID)
		}
	}
	return revoked
}

func revokeKeySessions(w *world) {
	k := w.newKey()
	w.ok(w.PutKey(w.Context(), k))
	var issued []postrider.SessionID
	for _, by := range []postrider.KeyID{k.ID, newID[postrider.KeyID](w), {}, k.ID} {
		session := w.newSession()
		session.Key = by
		w.ok(w.PutSession(w.Context(), session))
		if by == k.ID {
			issued = append(issued, session.ID)
		}
	}
	w.ok(w.RevokeKey(w.Context(), k.ID))
	w.same("the revoked sessions", w.revokedSessions(), reversed(issued))
}

func deleteAccountSessions(w *world) {
	account := w.account()
	var bound []postrider.SessionID
	for _, of := range []postrider.AccountID{account, w.account(), {}, account} {
		session := w.newLink()
		session.Account = of
		w.ok(w.PutSession(w.Context(), session))
		if of == account {
			bound = append(bound, session.ID)
		}
	}
	w.ok(w.DeleteAccount(w.Context(), account))
	w.same("the revoked sessions", w.revokedSessions(), reversed(bound))
}

func (w *world) newEntry() postrider.AuditEntry {
	id := newID[postrider.AuditID](w)
	return postrider.AuditEntry{ID: id, At: id.Time(), Action: "pause-endpoint", Outcome: "ok", Request: "req_1"}
}

func (w *world) entries(q store.AuditQuery) []postrider.AuditEntry {
	w.Helper()
	page, err := w.AuditEntries(w.Context(), q)
	w.ok(err)
	return page.Items
}

func appendAudit(w *world) {
	plain, full := w.newEntry(), w.newEntry()
	full.Key, full.Session, full.Name, full.Account = newID[postrider.KeyID](w), newID[postrider.SessionID](w), "Ann é", w.account()
	full.Object, full.ObjectID, full.Details = "endpoint", "ep_1", map[string]string{"fields": "url, rate", "quoted": `"`}
	w.ok(w.AppendAudit(w.Context(), plain))
	w.ok(w.AppendAudit(w.Context(), full))
	w.same("the entries", w.entries(store.AuditQuery{}), []postrider.AuditEntry{full, plain})
}

func appendAuditAgain(w *world) {
	first := w.newEntry()
	again := first
	again.Action = "delete-endpoint"
	w.ok(w.AppendAudit(w.Context(), first))
	w.ok(w.AppendAudit(w.Context(), again))
	w.same("the entries", w.entries(store.AuditQuery{}), []postrider.AuditEntry{first})
}

func entryID(e postrider.AuditEntry) postrider.AuditID { return e.ID }

func auditPages(w *world) {
	var want []postrider.AuditID
	for range 5 {
		e := w.newEntry()
		w.ok(w.AppendAudit(w.Context(), e))
		want = append(want, e.ID)
	}
	slices.Reverse(want)
	w.same("the entries", pages(w, entryID, func(p store.Paging) (store.Page[postrider.AuditEntry], error) {
		return w.AuditEntries(w.Context(), store.AuditQuery{Paging: p})
	}), want)
}

func auditFilters(w *world) {
	a, b, c := w.newEntry(), w.newEntry(), w.newEntry()
	a.Account, a.Key, a.Action = newID[postrider.AccountID](w), newID[postrider.KeyID](w), "rotate-secret"
	b.Account, b.Session, b.ObjectID = a.Account, newID[postrider.SessionID](w), "ep_1"
	c.Key, c.ObjectID = a.Key, "ep_1"
	for _, e := range []postrider.AuditEntry{a, b, c} {
		w.ok(w.AppendAudit(w.Context(), e))
	}
	list := by(entryID, func(q store.AuditQuery) (store.Page[postrider.AuditEntry], error) {
		return w.AuditEntries(w.Context(), q)
	})
	soon := w.now().Add(time.Hour)
	for _, tt := range []struct {
		query store.AuditQuery
		want  []postrider.AuditID
	}{
		{store.AuditQuery{}, []postrider.AuditID{c.ID, b.ID, a.ID}},
		{store.AuditQuery{Account: a.Account}, []postrider.AuditID{b.ID, a.ID}},
		{store.AuditQuery{Account: a.Account, Action: a.Action}, []postrider.AuditID{a.ID}},
		{store.AuditQuery{Key: a.Key}, []postrider.AuditID{c.ID, a.ID}},
		{store.AuditQuery{Key: a.Key, Account: a.Account}, []postrider.AuditID{a.ID}},
		{store.AuditQuery{Session: b.Session}, []postrider.AuditID{b.ID}},
		{store.AuditQuery{Session: b.Session, Key: a.Key}, nil},
		{store.AuditQuery{Action: "rotate-secret"}, []postrider.AuditID{a.ID}},
		{store.AuditQuery{ObjectID: "ep_1"}, []postrider.AuditID{c.ID, b.ID}},
		{store.AuditQuery{ObjectID: "ep_1", Account: a.Account}, []postrider.AuditID{b.ID}},
		{store.AuditQuery{ObjectID: "ep_"}, nil},
		{store.AuditQuery{Span: store.Span{From: soon}}, nil},
		{store.AuditQuery{Action: "rotate-secret", Span: store.Span{To: soon}}, []postrider.AuditID{a.ID}},
	} {
		selects(w, tt.query, list, tt.want)
	}
}

func auditCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.AuditEntries(w.Context(), store.AuditQuery{Paging: p})
		return err
	})
}

func (w *world) portal() postrider.Portal {
	w.Helper()
	p, err := w.Portal(w.Context())
	w.ok(err)
	return p
}

var unstamped = cmpopts.IgnoreFields(postrider.Portal{}, "UpdatedAt")

func putPortal(w *world) {
	w.ok(w.PutLogo(w.Context(), []byte("logo")))
	for _, p := range []postrider.Portal{
		{Name: "Acme é", Colour: "#0a5f8e", FrameOrigins: []string{"https://a.example", "https://b.example"}, Options: []string{"rate"}},
		{Options: []string{}},
		{Name: "Acme"},
	} {
		w.ok(w.PutPortal(w.Context(), p))
		got := w.portal()
		w.near("when it was changed", got.UpdatedAt.Sub(w.now()), 0)
		p.Logo = sha256.Sum256([]byte("logo"))
		w.same("the settings", got, p, unstamped)
		if (got.Options == nil) != (p.Options == nil) {
			w.Errorf("the options are %#v, want %#v: nil is the standard ones, and empty none", got.Options, p.Options)
		}
	}
}

func portalIsEmpty(w *world) {
	w.same("the settings", w.portal(), postrider.Portal{})
	_, err := w.Logo(w.Context())
	w.refuses(err, postrider.ErrNotFound)
}

func putLogo(w *world) {
	w.ok(w.PutPortal(w.Context(), postrider.Portal{Name: "Acme"}))
	for _, png := range []string{"first", "second\x00"} {
		w.ok(w.PutLogo(w.Context(), []byte(png)))
		got, err := w.Logo(w.Context())
		w.ok(err)
		w.same("the logo", got, []byte(png))
		w.same("the settings", w.portal(), postrider.Portal{Name: "Acme", Logo: sha256.Sum256([]byte(png))}, unstamped)
	}
}

func putLogoRemoves(w *world) {
	w.ok(w.PutLogo(w.Context(), []byte("logo")))
	w.ok(w.PutLogo(w.Context(), nil))
	_, err := w.Logo(w.Context())
	w.refuses(err, postrider.ErrNotFound)
	w.same("the settings", w.portal(), postrider.Portal{}, unstamped)
}
