package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Statement is a statement of package sqlstore as a database got it.
type Statement struct {
	sqlstore.Query

	Verb string // that sent it
	List bool   // it was sent by Query, and not in a transaction
}

// Statements calls the verbs of package sqlstore, each with every filter, and returns the
// statements that the database gets, each once. A verb may fail: the rows need not exist.
func Statements(t *testing.T, db sqlstore.Database) []Statement {
	t.Helper()
	r := &recorder{Database: db}
	r.callAudit(t.Context())
	r.callInspections(t.Context())
	r.callSessions(t.Context())
	r.callDestinations(t.Context())
	r.callAccess(t.Context())
	r.callCatalogue(t.Context())
	r.callPortal(t.Context())
	return r.heard
}

// What the calls ask for. No row has the id before a call makes it.
var (
	askedID   = [16]byte{15: 1}
	askedHash = [32]byte{31: 1}
	askedSpan = store.Span{From: time.Unix(1e9, 0), To: time.Unix(2e9, 0)}
)

// callVerb calls a verb with each query.
func callVerb[Q, P any](ctx context.Context, verb func(context.Context, Q) (P, error), queries ...Q) {
	for _, q := range queries {
		_, _ = verb(ctx, q)
	}
}

// doVerb calls a verb that returns an error alone.
func doVerb[C any](ctx context.Context, verb func(context.Context, C) error, change C) {
	_ = verb(ctx, change)
}

func (r *recorder) callAudit(ctx context.Context) {
	v, id := sqlstore.New(r), askedID
	r.verb = "AppendAudit"
	doVerb(ctx, v.AppendAudit, postrider.AuditEntry{ID: id})
	r.verb = "AuditEntries"
	callVerb(ctx, v.AuditEntries,
		store.AuditQuery{Span: askedSpan}, store.AuditQuery{Account: id}, store.AuditQuery{Key: id}, store.AuditQuery{Session: id},
		store.AuditQuery{Action: "a"}, store.AuditQuery{ObjectID: "o"}, store.AuditQuery{Account: id, Key: id, Session: id, Action: "a", ObjectID: "o"})
}

func (r *recorder) callInspections(ctx context.Context) {
	v, id := sqlstore.New(r), askedID
	r.verb = "PutInspection"
	doVerb(ctx, v.PutInspection, postrider.Inspection{ID: id, Endpoint: id, Attempt: 1})
	r.verb = "Inspections"
	callVerb(ctx, v.Inspections, store.InspectionQuery{Endpoint: id}, store.InspectionQuery{Endpoint: id, ID: id})
	r.verb = "ForgetInspections"
	callVerb(ctx, v.ForgetInspections, 1)
}

func (r *recorder) callSessions(ctx context.Context) {
	v, id := sqlstore.New(r), askedID
	r.verb = "PutSession"
	doVerb(ctx, v.PutSession, postrider.Session{ID: id, Kind: postrider.SessionPortal, ExpiresAt: askedSpan.To})
	r.verb = "RedeemCode"
	callVerb(ctx, v.RedeemCode, store.RedeemCode{Code: askedHash})
	r.verb = "Sessions"
	callVerb(ctx, v.Sessions,
		store.SessionQuery{Span: askedSpan}, store.SessionQuery{ID: id}, store.SessionQuery{Hash: askedHash}, store.SessionQuery{Code: askedHash},
		store.SessionQuery{Account: id}, store.SessionQuery{Kind: postrider.SessionPortal, LiveAt: askedSpan.From},
		store.SessionQuery{ID: id, Hash: askedHash, Code: askedHash, Account: id, Kind: postrider.SessionPortal, LiveAt: askedSpan.From})
	r.verb = "RevokeSession"
	doVerb(ctx, v.RevokeSession, id)
	r.verb = "TouchSession"
	_ = v.TouchSession(ctx, id, askedSpan.From)
}

func (r *recorder) callDestinations(ctx context.Context) {
	v, id := sqlstore.New(r), askedID
	r.verb = "PutDestination"
	_ = v.PutDestination(ctx, postrider.Destination{ID: id, Channel: postrider.ChannelEmail}, 1)
	_ = v.PutDestination(ctx, postrider.Destination{ID: id, Account: id, Channel: postrider.ChannelEmail}, 1)
	r.verb = "Destinations"
	callVerb(ctx, v.Destinations,
		store.DestinationQuery{}, store.DestinationQuery{ID: id}, store.DestinationQuery{Account: id}, store.DestinationQuery{Operator: true},
		store.DestinationQuery{ID: id, Account: id})
	r.verb = "ChangeDestination"
	callVerb(ctx, v.ChangeDestination, store.ChangeDestination{ID: id, Ask: postrider.AskTest}) // it needs a message now
	r.verb = "ClaimDestinations"
	callVerb(ctx, v.ClaimDestinations, store.ClaimDestinations{Channel: postrider.ChannelEmail, Max: 10, Token: 1, Lease: time.Second})
	r.verb = "SettleDestination"
	doVerb(ctx, v.SettleDestination, store.SettleDestination{ID: id, Token: 1})
	r.verb = "DeleteDestination"
	doVerb(ctx, v.DeleteDestination, id)
}

func (r *recorder) callAccess(ctx context.Context) {
	v, id := sqlstore.New(r), askedID
	r.verb = "PutAccount"
	doVerb(ctx, v.PutAccount, postrider.Account{ID: id})
	r.verb = "Accounts"
	callVerb(ctx, v.Accounts, store.AccountQuery{}, store.AccountQuery{ID: id}, store.AccountQuery{UID: "u"}, store.AccountQuery{Retention: true})
	r.verb = "PutKey"
	doVerb(ctx, v.PutKey, postrider.APIKey{ID: id, Account: id})
	r.verb = "Keys"
	callVerb(ctx, v.Keys, store.KeyQuery{}, store.KeyQuery{ID: id}, store.KeyQuery{Hash: askedHash}, store.KeyQuery{Account: id},
		store.KeyQuery{ID: id, Hash: askedHash, Account: id})
	r.verb = "TouchKey"
	_ = v.TouchKey(ctx, id, askedSpan.From)
	r.verb = "RevokeKey"
	doVerb(ctx, v.RevokeKey, id)
	r.verb = "DeleteAccount"
	doVerb(ctx, v.DeleteAccount, id)
}

func (r *recorder) callCatalogue(ctx context.Context) {
	v := sqlstore.New(r)
	r.verb = "PutEventType"
	doVerb(ctx, v.PutEventType, postrider.EventType{Name: "a"})
	r.verb = "EventTypes"
	callVerb(ctx, v.EventTypes, store.EventTypeQuery{}, store.EventTypeQuery{Name: "a"})
	r.verb = "DeleteEventType"
	doVerb(ctx, v.DeleteEventType, "a")
}

func (r *recorder) callPortal(ctx context.Context) {
	v := sqlstore.New(r)
	r.verb = "PutPortal"
	doVerb(ctx, v.PutPortal, postrider.Portal{})
	r.verb = "PutLogo"
	doVerb(ctx, v.PutLogo, []byte("png"))
	r.verb = "Portal"
	_, _ = v.Portal(ctx)
	r.verb = "Logo"
	_, _ = v.Logo(ctx)
}

// recorder is a database that notes what it gets.
type recorder struct {
	sqlstore.Database

	verb  string
	heard []Statement
}

func (r *recorder) note(q sqlstore.Query, list bool) {
	if !slices.ContainsFunc(r.heard, func(s Statement) bool { return s.Verb == r.verb && s.SQL == q.SQL }) {
		r.heard = append(r.heard, Statement{q, r.verb, list})
	}
}

// Query notes a list.
func (r *recorder) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	r.note(q, true)
	return r.Database.Query(ctx, q, read)
}

// Exec notes a statement.
func (r *recorder) Exec(ctx context.Context, fate sqlstore.Fate, q sqlstore.Query) (int64, error) {
	r.note(q, false)
	return r.Database.Exec(ctx, fate, q)
}

// Change notes the statements of a transaction.
func (r *recorder) Change(ctx context.Context, fate sqlstore.Fate, do func(context.Context, sqlstore.Tx) error) error {
	return r.Database.Change(ctx, fate, func(ctx context.Context, tx sqlstore.Tx) error { return do(ctx, recordedTx{tx, r}) })
}

// recordedTx is a transaction of a recorder.
type recordedTx struct {
	sqlstore.Tx

	r *recorder
}

// Query notes a statement.
func (t recordedTx) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	t.r.note(q, false)
	return t.Tx.Query(ctx, q, read)
}

// Exec notes a statement.
func (t recordedTx) Exec(ctx context.Context, q sqlstore.Query) (int64, error) {
	t.r.note(q, false)
	return t.Tx.Exec(ctx, q)
}
