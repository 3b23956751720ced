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

// Statement is a statement of package sqlstore, as the database got it.
type Statement struct {
	sqlstore.Query

	Verb string // the verb that sent the statement
	List bool   // whether the statement was sent by Query of the database
}

// Statements calls the verbs of package sqlstore, each with every filter. It returns the
// statements that the database gets, each once. A verb may fail, because the rows need not exist.
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
	r.callNotices(t.Context())
	r.callRestored(t.Context())
	r.callWhatIfs(t.Context())
	r.callEncryption(t.Context())
	r.callDirectory(t.Context())
	r.callSecrets(t.Context())
	r.callCircuits(t.Context())
	r.callHealth(t.Context())
	r.callQuotas(t.Context())
	r.callReplays(t.Context())
	r.callArchive(t.Context())
	r.callExpunges(t.Context())
	r.callRollups(t.Context())
	r.callAttempts(t.Context())
	r.callFinder(t.Context())
	r.callSources(t.Context())
	r.callRetention(t.Context())
	return r.heard
}

// These are the arguments of the calls. No row has the id before a call creates one.
var (
	askedID       = [16]byte{15: 1}
	askedHash     = [32]byte{31: 1}
	askedMetadata = postrider.Metadata{"plan": "gold", "region": "eu"}
	askedSpan     = store.Span{From: time.Unix(1e9, 0), To: time.Unix(2e9, 0)}
)

// callVerb calls a verb once for each query.
func callVerb[Q, P any](ctx context.Context, verb func(context.Context, Q) (P, error), queries ...Q) {
	for _, q := range queries {
		_, _ = verb(ctx, q)
	}
}

// doVerb calls a verb that returns only an error.
func doVerb[C any](ctx context.Context, verb func(context.Context, C) error, changes ...C) {
	for _, change := range changes {
		_ = verb(ctx, change)
	}
}

func (r *recorder) callAudit(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "AppendAudit"
	doVerb(ctx, v.AppendAudit, postrider.AuditEntry{ID: id})
	r.verb = "AuditEntries"
	callVerb(ctx, v.AuditEntries,
		store.AuditQuery{Span: askedSpan}, store.AuditQuery{Account: id}, store.AuditQuery{Key: id}, store.AuditQuery{Session: id},
		store.AuditQuery{Action: "a"}, store.AuditQuery{ObjectID: "o"},
		store.AuditQuery{Account: id, Key: id, Session: id, Action: "a", ObjectID: "o"})
}

func (r *recorder) callInspections(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutInspection"
	doVerb(ctx, v.PutInspection, postrider.Inspection{ID: id, Endpoint: id, Attempt: 1})
	r.verb = "Inspections"
	callVerb(ctx, v.Inspections, store.InspectionQuery{Endpoint: id}, store.InspectionQuery{Endpoint: id, ID: id})
	r.verb = "ForgetInspections"
	callVerb(ctx, v.ForgetInspections, 1)
}

func (r *recorder) callSessions(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
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
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutDestination"
	_ = v.PutDestination(ctx, postrider.Destination{ID: id, Channel: postrider.ChannelEmail}, 1)
	_ = v.PutDestination(ctx, postrider.Destination{ID: id, Account: id, Channel: postrider.ChannelEmail}, 1)
	r.verb = "Destinations"
	callVerb(ctx, v.Destinations,
		store.DestinationQuery{}, store.DestinationQuery{ID: id}, store.DestinationQuery{Account: id}, store.DestinationQuery{Operator: true},
		store.DestinationQuery{ID: id, Account: id})
	r.verb = "ChangeDestination"
	callVerb(ctx, v.ChangeDestination, store.ChangeDestination{ID: id, Ask: postrider.AskTest}) // now the destination needs a message
	r.verb = "ClaimDestinations"
	callVerb(ctx, v.ClaimDestinations, store.ClaimDestinations{Channel: postrider.ChannelEmail, Max: 10, Token: 1, Lease: time.Second})
	r.verb = "SettleDestination"
	doVerb(ctx, v.SettleDestination, store.SettleDestination{ID: id, Token: 1})
	r.verb = "DeleteDestination"
	doVerb(ctx, v.DeleteDestination, id)
}

func (r *recorder) callAccess(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutAccount"
	doVerb(ctx, v.PutAccount, postrider.Account{ID: id}, postrider.Account{ID: id, Revision: 1})
	r.verb = "Accounts"
	callVerb(ctx, v.Accounts, store.AccountQuery{}, store.AccountQuery{ID: id}, store.AccountQuery{UID: "u"},
		store.AccountQuery{Retention: true}, store.AccountQuery{Metadata: askedMetadata}, store.AccountQuery{ID: id, Metadata: askedMetadata})
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
	v := sqlstore.New(r, nil)
	r.verb = "PutEventType"
	doVerb(ctx, v.PutEventType, postrider.EventType{Name: "a"}, postrider.EventType{Name: "a", Revision: 1})
	r.verb = "EventTypes"
	callVerb(ctx, v.EventTypes, store.EventTypeQuery{}, store.EventTypeQuery{Name: "a"}, store.EventTypeQuery{Indexed: true})
	r.verb = "DeleteEventType"
	doVerb(ctx, v.DeleteEventType, "a")
}

func (r *recorder) callPortal(ctx context.Context) {
	v := sqlstore.New(r, nil)
	r.verb = "PutPortal"
	doVerb(ctx, v.PutPortal, postrider.Portal{})
	r.verb = "PutLogo"
	doVerb(ctx, v.PutLogo, []byte("png"))
	r.verb = "Portal"
	_, _ = v.Portal(ctx)
	r.verb = "Logo"
	_, _ = v.Logo(ctx)
}

func (r *recorder) callNotices(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutNotices"
	callVerb(ctx, v.PutNotices, []postrider.Notice{{ID: id, Account: id, Kind: postrider.NoticeFailing, Object: "o"}})
	r.verb = "Notices"
	for _, oldestFirst := range []bool{false, true} {
		p := store.Paging{OldestFirst: oldestFirst}
		callVerb(ctx, v.Notices,
			store.NoticeQuery{Paging: p, Span: askedSpan}, store.NoticeQuery{Paging: p, Account: id}, store.NoticeQuery{Paging: p, Object: "o"},
			store.NoticeQuery{Paging: p, Kind: postrider.NoticeFailing},
			store.NoticeQuery{Paging: p, Account: id, Kind: postrider.NoticeFailing, Object: "o"})
	}
	r.verb = "NoticesPublished"
	_, _ = v.NoticesPublished(ctx)
	r.verb = "SetNoticesPublished"
	doVerb(ctx, v.SetNoticesPublished, id)
}

func (r *recorder) callRestored(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutRestored"
	doVerb(ctx, v.PutRestored, []store.RestoredRecord{{ID: id}})
	r.verb = "RestoredRecords"
	callVerb(ctx, v.RestoredRecords, store.RestoredQuery{}, store.RestoredQuery{Event: id}, store.RestoredQuery{Account: id},
		store.RestoredQuery{Endpoint: id}, store.RestoredQuery{Event: id, Account: id, Endpoint: id})
}

func (r *recorder) callEncryption(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "SwapKeyring"
	_, _ = v.SwapKeyring(ctx, nil, []byte("a"))
	_, _ = v.SwapKeyring(ctx, []byte("a"), []byte("b"))
	r.verb = "Keyring"
	_, _ = v.Keyring(ctx)
	r.verb = "EncryptedValues"
	_, _ = v.EncryptedValues(ctx, store.EncryptedID{}, 10)
	r.verb = "Reencrypt"
	callVerb(ctx, v.Reencrypt, []store.Reencryption{
		{ID: store.EncryptedID{Endpoint: id, Secret: id}}, {ID: store.EncryptedID{Endpoint: id}}, {ID: store.EncryptedID{Archive: id}},
	})
}

func (r *recorder) callDirectory(ctx context.Context) {
	v, id, yes := sqlstore.New(r, nil), askedID, true
	r.verb = "PutEndpoint"
	callVerb(ctx, v.PutEndpoint,
		store.PutEndpoint{Endpoint: postrider.Endpoint{ID: id, Account: id, Status: postrider.EndpointEnabled}, Most: 1},
		store.PutEndpoint{Endpoint: postrider.Endpoint{
			ID: id, Account: id, Status: postrider.EndpointEnabled, EventTypes: []postrider.Pattern{"*"}, Revision: 1,
		}, CloseCircuit: true},
		// with another revision
		store.PutEndpoint{Endpoint: postrider.Endpoint{ID: id, Account: id, Status: postrider.EndpointEnabled, Revision: 1}})
	r.verb = "Endpoints"
	callVerb(ctx, v.Endpoints,
		store.EndpointQuery{}, store.EndpointQuery{ID: id}, store.EndpointQuery{IDs: []postrider.EndpointID{id}},
		store.EndpointQuery{Account: id},
		store.EndpointQuery{ID: id, Account: id}, store.EndpointQuery{IDs: []postrider.EndpointID{id}, Account: id},
		store.EndpointQuery{Account: id, UID: "u"}, store.EndpointQuery{Status: postrider.EndpointPaused},
		store.EndpointQuery{Circuit: postrider.CircuitOpen}, store.EndpointQuery{Failing: &yes},
		store.EndpointQuery{Health: postrider.HealthWarned}, store.EndpointQuery{Metadata: askedMetadata},
		store.EndpointQuery{Account: id, Metadata: askedMetadata},
		store.EndpointQuery{
			Account: id, Status: postrider.EndpointPaused, Circuit: postrider.CircuitOpen, Failing: &yes,
			Health: postrider.HealthWarned,
		})
	r.verb = "Subscription"
	callVerb(ctx, v.Subscription, store.SubscriptionQuery{Endpoint: id, At: askedSpan.From})
	r.verb = "PastSubscriptions"
	callVerb(ctx, v.PastSubscriptions, store.PastSubscriptions{Endpoints: []postrider.EndpointID{id}, At: askedSpan.From})
	r.verb = "Changes"
	_, _ = v.Changes(ctx, 1, 10)
	r.verb = "Held"
	_, _ = v.Held(ctx)
}

// callSecrets must follow callDirectory, which creates the endpoint.
func (r *recorder) callSecrets(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	other := [16]byte{15: 2}
	r.verb = "RotateSecret"
	doVerb(ctx, v.RotateSecret, store.RotateSecret{Secret: postrider.Secret{ID: id, Endpoint: id}})
	doVerb(ctx, v.RotateSecret, store.RotateSecret{Secret: postrider.Secret{ID: other, Endpoint: id}, Overlap: time.Hour})
	r.verb = "Secrets"
	_, _ = v.Secrets(ctx, id)
	r.verb = "PublicKeys"
	callVerb(ctx, v.PublicKeys, store.PublicKeyQuery{}, store.PublicKeyQuery{Endpoint: id})
	r.verb = "RevokeSecret"
	doVerb(ctx, v.RevokeSecret, store.RevokeSecret{Endpoint: id, Secret: id})
}

func (r *recorder) callCircuits(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutCircuit"
	callVerb(ctx, v.PutCircuit, store.PutCircuit{Circuit: postrider.Circuit{Endpoint: id}},
		store.PutCircuit{Circuit: postrider.Circuit{Endpoint: id, Generation: 1}, Announce: true})
	r.verb = "Circuits"
	callVerb(ctx, v.Circuits, store.CircuitQuery{Limit: 10}, store.CircuitQuery{Limit: 10, Endpoint: id},
		store.CircuitQuery{Limit: 10, Failing: true},
		store.CircuitQuery{Limit: 10, Failing: true, Endpoint: id, Account: id})
}

func (r *recorder) callHealth(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutHealth"
	_ = v.PutHealth(ctx, postrider.EndpointHealth{
		Endpoint: id, Account: id, Number: 1, Status: postrider.HealthDisabled,
		Since: askedSpan.From,
	})
	r.verb = "HealthHistory"
	callVerb(ctx, v.HealthHistory, store.HealthQuery{Endpoint: id}, store.HealthQuery{Endpoint: id, Account: id})
	r.verb = "HealthInputs"
	_, _ = v.HealthInputs(ctx, id, 10)
}

func (r *recorder) callQuotas(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutQuotas"
	_ = v.PutQuotas(ctx, id, postrider.Quotas{})
	r.verb = "Quotas"
	callVerb(ctx, v.Quotas, store.QuotaQuery{}, store.QuotaQuery{Account: id})
	r.verb = "QuotaUse"
	callVerb(ctx, v.QuotaUse, id)
	r.verb = "MarkFull"
	callVerb(ctx, v.MarkFull, store.MarkFull{Full: []postrider.EndpointID{id}, Free: []postrider.EndpointID{id}})
}

func (r *recorder) callReplays(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutReplayJob"
	doVerb(ctx, v.PutReplayJob, postrider.ReplayJob{ID: id, Action: postrider.ActionReplay, PerSecond: 1, CreatedAt: askedSpan.From})
	r.verb = "ReplayJobs"
	callVerb(ctx, v.ReplayJobs, store.ReplayJobQuery{}, store.ReplayJobQuery{ID: id}, store.ReplayJobQuery{Account: id},
		store.ReplayJobQuery{ID: id, Account: id}, store.ReplayJobQuery{Account: id, Status: postrider.ReplayRunning},
		store.ReplayJobQuery{Account: id, Backfills: id})
	r.verb = "ClaimReplayJobs"
	callVerb(ctx, v.ClaimReplayJobs, store.ClaimReplayJobs{Max: 10, Token: 1, Lease: time.Second})
	r.verb = "Undelivered"
	callVerb(ctx, v.Undelivered, store.UndeliveredQuery{Account: id, Endpoint: id, Job: id, From: id, Before: [16]byte{0xff}, Limit: 100})
	r.verb = "ReplaysPending"
	callVerb(ctx, v.ReplaysPending, id)
	r.verb = "SetReplayJob"
	doVerb(ctx, v.SetReplayJob, store.SetReplayJob{ID: id, Status: postrider.ReplayPaused})
}

func (r *recorder) callArchive(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	announced := store.ArchivePart{Kind: store.OldEvents, Day: askedSpan.From, Number: 1, MadeAt: askedSpan.To}
	part := announced
	part.Rows, part.Left, part.Bytes, part.Last = 1, 1, 1, id
	r.verb = "LeaseArchive"
	_, _ = v.LeaseArchive(ctx, 1, time.Second)
	r.verb = "PutArchivePart"
	doVerb(ctx, v.PutArchivePart, announced)
	doVerb(ctx, v.PutArchivePart, part)
	r.verb = "ArchiveParts"
	callVerb(ctx, v.ArchiveParts, store.ArchiveParts{Limit: 10},
		store.ArchiveParts{Limit: 10, Kind: store.OldEvents, From: askedSpan.From, To: askedSpan.To, After: part})
	r.verb = "ReplaceArchivePart"
	doVerb(ctx, v.ReplaceArchivePart, store.ReplaceArchivePart{Part: part, With: part})
	doVerb(ctx, v.ReplaceArchivePart, store.ReplaceArchivePart{Part: part})
	r.verb = "RedoArchiveDay"
	_, _ = v.RedoArchiveDay(ctx, store.OldEvents, askedSpan.From)
	r.verb = "PutArchiveKey"
	_, _ = v.PutArchiveKey(ctx, id, []byte("k"))
	r.verb = "ArchiveKey"
	callVerb(ctx, v.ArchiveKey, id)
	r.verb = "DeleteArchiveKey"
	callVerb(ctx, v.DeleteArchiveKey, id)
}

func (r *recorder) callExpunges(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutExpunge"
	doVerb(ctx, v.PutExpunge, postrider.Expunge{ID: id, Account: id, Event: id, CreatedAt: askedSpan.From})
	r.verb = "Expunges"
	callVerb(ctx, v.Expunges, store.ExpungeQuery{}, store.ExpungeQuery{ID: id}, store.ExpungeQuery{Running: true},
		store.ExpungeQuery{ID: id, Running: true})
	r.verb = "ExpungeRows"
	for i, e := range []postrider.Expunge{{Event: id}, {Endpoint: id}, {}} {
		e.ID, e.Account, e.CreatedAt = postrider.ExpungeID{14: byte(i), 15: 2}, id, askedSpan.From
		doVerb(ctx, v.PutExpunge, e)
		callVerb(ctx, v.ExpungeRows, store.ExpungeRows{ID: e.ID, Limit: 10})
	}
	r.verb = "NoteOutbox"
	_ = v.NoteOutbox(ctx, id, postrider.ExpungeOutbox{})
	r.verb = "NoteExpunge"
	doVerb(ctx, v.NoteExpunge, postrider.Expunge{ID: id})
}

func (r *recorder) callRollups(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "FoldRollups"
	seen := store.Seen{DeltaKey: store.DeltaKey{Account: id, Endpoint: id, Type: "a"}, At: askedSpan.From}
	callVerb(ctx, v.FoldRollups, store.Fold{Deltas: 10, Seen: []store.Seen{seen}})
	r.verb = "RollUp"
	callVerb(ctx, v.RollUp, 10)
	r.verb = "ForgetRollups"
	callVerb(ctx, v.ForgetRollups, 10)
	r.verb = "Rollups"
	callVerb(ctx, v.Rollups, store.RollupQuery{Account: id, Step: store.Hours, From: askedSpan.From, To: askedSpan.From.Add(time.Hour)})
	r.verb = "Backlog"
	callVerb(ctx, v.Backlog, store.BacklogQuery{}, store.BacklogQuery{Account: id}, store.BacklogQuery{Account: id, Endpoint: id})
	r.verb = "EndpointStates"
	_, _ = v.EndpointStates(ctx, id)
	r.verb = "LastFailures"
	_, _ = v.LastFailures(ctx, id)
}

func (r *recorder) callAttempts(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "Attempts"
	callVerb(ctx, v.Attempts, store.AttemptQuery{Account: id, Delivery: id}, store.AttemptQuery{Account: id, Event: id},
		store.AttemptQuery{Account: id, Delivery: id, Event: id})
}

func (r *recorder) callFinder(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "Find"
	callVerb(ctx, v.Find, store.FindQuery{Secret: id, Text: "a", Limit: 10}, store.FindQuery{Account: id, Secret: id, Text: "a", Limit: 10})
	r.verb = "FindEvents"
	callVerb(ctx, v.FindEvents, store.TermQuery{Terms: []store.Term{1}, Span: askedSpan},
		store.TermQuery{Terms: []store.Term{1}, Paging: store.Paging{OldestFirst: true}})
	r.verb = "RemoveTerms"
	_ = r.Change(ctx, sqlstore.Bulk, func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := sqlstore.RemoveTerms(ctx, tx, []store.RowID{id})
		return err
	})
	r.verb = "DeadLetterGroups"
	callVerb(ctx, v.DeadLetterGroups, store.DeadLetterGroupQuery{}, store.DeadLetterGroupQuery{Account: id, Endpoint: id})
}

func (r *recorder) callSources(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutSource"
	doVerb(ctx, v.PutSource, postrider.Source{ID: id, Name: "a", CreatedAt: askedSpan.From})
	r.verb = "Sources"
	_, _ = v.Sources(ctx)
	r.verb = "NoteSource"
	_ = v.NoteSource(ctx, id, postrider.SourceState{})
	r.verb = "AdvanceSource"
	doVerb(ctx, v.AdvanceSource, store.AdvanceSource{ID: id, Next: 1, Rows: []postrider.OutboxID{id}, MovedUntil: askedSpan.From})
	r.verb = "OutboxRows"
	callVerb(ctx, v.OutboxRows, []postrider.OutboxID{id})
	r.verb = "ForgetRows"
	_, _ = v.ForgetRows(ctx, askedSpan.From, 10)
	r.verb = "PauseSource"
	_ = v.PauseSource(ctx, id, true)
	r.verb = "DeleteSource"
	doVerb(ctx, v.DeleteSource, id)
}

// callRetention must follow callAccess, which deletes the account, and callDirectory.
func (r *recorder) callRetention(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "DeleteOld"
	for _, kind := range []store.Kind{
		store.OldDeadLetters, store.OldReplayJobs, store.OldHealth, store.OldSubscriptions, store.OldNotices, store.OldAudit, store.OldSessions,
		store.OldWhatIfs,
	} {
		_, _ = sqlstore.DeleteOld(ctx, r, store.DeleteOld{Kind: kind, Before: askedSpan.From, Limit: 10})
	}
	r.verb = "ForgetRestored"
	_, _ = v.ForgetRestored(ctx, askedSpan.From, 10)
	r.verb = "ForgetKeys"
	_, _ = v.ForgetKeys(ctx, time.Hour, 10)
	r.verb = "OldRows"
	for _, kind := range []store.Kind{store.OldEvents, store.OldKeys, store.OldAttempts, store.OldBodies} {
		_, _, _ = v.OldRows(ctx, store.OldRows{Kind: kind, Account: id, Before: askedSpan.To, Limit: 10})
	}
	r.verb = "DeleteEndpoints" // the account is deleted
	_, _ = v.DeleteEndpoints(ctx, 10)
}

// recorder is a database that records the statements.
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

// Query records a list.
func (r *recorder) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	r.note(q, true)
	return r.Database.Query(ctx, q, read)
}

// Count records a count.
func (r *recorder) Count(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	r.note(q, false)
	return r.Database.Count(ctx, q, read)
}

// Exec records a statement.
func (r *recorder) Exec(ctx context.Context, fate sqlstore.Fate, q sqlstore.Query) (int64, error) {
	r.note(q, false)
	return r.Database.Exec(ctx, fate, q)
}

// Change records the statements of a transaction.
func (r *recorder) Change(ctx context.Context, fate sqlstore.Fate, do func(context.Context, sqlstore.Tx) error) error {
	return r.Database.Change(ctx, fate, func(ctx context.Context, tx sqlstore.Tx) error { return do(ctx, recordedTx{tx, r}) })
}

// recordedTx is a transaction of a recorder.
type recordedTx struct {
	sqlstore.Tx

	r *recorder
}

// Query records a statement.
func (t recordedTx) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	t.r.note(q, false)
	return t.Tx.Query(ctx, q, read)
}

// Exec records a statement.
func (t recordedTx) Exec(ctx context.Context, q sqlstore.Query) (int64, error) {
	t.r.note(q, false)
	return t.Tx.Exec(ctx, q)
}

// QueryAll records a statement.
func (t recordedTx) QueryAll(ctx context.Context, statement string, args []sqlstore.Args, read func(sqlstore.Rows) error) error {
	t.noteAll(statement, args)
	return t.Tx.QueryAll(ctx, statement, args, read)
}

// ExecAll records a statement.
func (t recordedTx) ExecAll(ctx context.Context, statement string, args []sqlstore.Args) (int64, error) {
	t.noteAll(statement, args)
	return t.Tx.ExecAll(ctx, statement, args)
}

func (t recordedTx) noteAll(statement string, args []sqlstore.Args) {
	if len(args) > 0 {
		t.r.note(sqlstore.Query{SQL: statement, Args: args[0]}, false)
	}
}
