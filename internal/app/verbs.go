package app

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// verbs is a store that tells observers how long each call took, and its error. A verb that
// is missing here is called on the store itself, and nobody hears of it; a house test names
// it. Clock and Close are no calls.
type verbs struct {
	store.Store
	called
}

// called is the hook that hears of the calls; nil: nobody does.
type called observe.Hook[observe.StoreCall]

// done tells observers of a call that ends. Its arguments are evaluated when the call begins;
// the error is read when it ends.
func (c called) done(verb string, begun time.Time, err *error) {
	if c != nil {
		c(observe.StoreCall{Verb: verb, Took: time.Since(begun), Err: *err})
	}
}

// Publish implements [store.Inbox].
func (v verbs) Publish(ctx context.Context, p store.Publish) (_ []store.Published, err error) {
	defer v.done("Publish", time.Now(), &err)
	return v.Store.Publish(ctx, p)
}

// ClaimFanOuts implements [store.Inbox].
func (v verbs) ClaimFanOuts(ctx context.Context, c store.ClaimFanOuts) (_ []store.FanOut, err error) {
	defer v.done("ClaimFanOuts", time.Now(), &err)
	return v.Store.ClaimFanOuts(ctx, c)
}

// FanOut implements [store.Inbox].
func (v verbs) FanOut(ctx context.Context, c store.FanOutChunk) (err error) {
	defer v.done("FanOut", time.Now(), &err)
	return v.Store.FanOut(ctx, c)
}

// Claim implements [store.Queue].
func (v verbs) Claim(ctx context.Context, c store.Claim) (_ store.Claims, err error) {
	defer v.done("Claim", time.Now(), &err)
	return v.Store.Claim(ctx, c)
}

// Settle implements [store.Queue].
func (v verbs) Settle(ctx context.Context, settlements []store.Settlement) (_ []store.Settled, err error) {
	defer v.done("Settle", time.Now(), &err)
	return v.Store.Settle(ctx, settlements)
}

// Continue implements [store.Queue].
func (v verbs) Continue(ctx context.Context, c postrider.Claimed, a postrider.Attempt) (err error) {
	defer v.done("Continue", time.Now(), &err)
	return v.Store.Continue(ctx, c, a)
}

// Release implements [store.Queue].
func (v verbs) Release(ctx context.Context, leases []store.Lease) (err error) {
	defer v.done("Release", time.Now(), &err)
	return v.Store.Release(ctx, leases)
}

// MakeDue implements [store.Queue].
func (v verbs) MakeDue(ctx context.Context, m store.MakeDue) (_ postrider.Delivery, err error) {
	defer v.done("MakeDue", time.Now(), &err)
	return v.Store.MakeDue(ctx, m)
}

// Due implements [store.Queue].
func (v verbs) Due(ctx context.Context, d store.Due) (_ []store.DueLane, err error) {
	defer v.done("Due", time.Now(), &err)
	return v.Store.Due(ctx, d)
}

// PutCircuit implements [store.Queue].
func (v verbs) PutCircuit(ctx context.Context, p store.PutCircuit) (_ postrider.Circuit, err error) {
	defer v.done("PutCircuit", time.Now(), &err)
	return v.Store.PutCircuit(ctx, p)
}

// Circuits implements [store.Queue].
func (v verbs) Circuits(ctx context.Context, q store.CircuitQuery) (_ []postrider.Circuit, err error) {
	defer v.done("Circuits", time.Now(), &err)
	return v.Store.Circuits(ctx, q)
}

// PutEndpoint implements [store.Directory].
func (v verbs) PutEndpoint(ctx context.Context, p store.PutEndpoint) (_ postrider.Endpoint, err error) {
	defer v.done("PutEndpoint", time.Now(), &err)
	return v.Store.PutEndpoint(ctx, p)
}

// Endpoints implements [store.Directory].
func (v verbs) Endpoints(ctx context.Context, q store.EndpointQuery) (_ store.Page[postrider.Endpoint], err error) {
	defer v.done("Endpoints", time.Now(), &err)
	return v.Store.Endpoints(ctx, q)
}

// Secrets implements [store.Directory].
func (v verbs) Secrets(ctx context.Context, endpoints ...postrider.EndpointID) (_ []postrider.Secret, err error) {
	defer v.done("Secrets", time.Now(), &err)
	return v.Store.Secrets(ctx, endpoints...)
}

// RotateSecret implements [store.Directory].
func (v verbs) RotateSecret(ctx context.Context, r store.RotateSecret) (err error) {
	defer v.done("RotateSecret", time.Now(), &err)
	return v.Store.RotateSecret(ctx, r)
}

// RevokeSecret implements [store.Directory].
func (v verbs) RevokeSecret(ctx context.Context, r store.RevokeSecret) (err error) {
	defer v.done("RevokeSecret", time.Now(), &err)
	return v.Store.RevokeSecret(ctx, r)
}

// PublicKeys implements [store.Directory].
func (v verbs) PublicKeys(ctx context.Context, q store.PublicKeyQuery) (_ store.Page[postrider.Secret], err error) {
	defer v.done("PublicKeys", time.Now(), &err)
	return v.Store.PublicKeys(ctx, q)
}

// Changes implements [store.Directory].
func (v verbs) Changes(ctx context.Context, since int64, limit int) (_ store.Changes, err error) {
	defer v.done("Changes", time.Now(), &err)
	return v.Store.Changes(ctx, since, limit)
}

// PutAccount implements [store.Access].
func (v verbs) PutAccount(ctx context.Context, a postrider.Account) (err error) {
	defer v.done("PutAccount", time.Now(), &err)
	return v.Store.PutAccount(ctx, a)
}

// DeleteAccount implements [store.Access].
func (v verbs) DeleteAccount(ctx context.Context, account postrider.AccountID) (err error) {
	defer v.done("DeleteAccount", time.Now(), &err)
	return v.Store.DeleteAccount(ctx, account)
}

// Accounts implements [store.Access].
func (v verbs) Accounts(ctx context.Context, q store.AccountQuery) (_ store.Page[postrider.Account], err error) {
	defer v.done("Accounts", time.Now(), &err)
	return v.Store.Accounts(ctx, q)
}

// PutKey implements [store.Access].
func (v verbs) PutKey(ctx context.Context, k postrider.APIKey) (err error) {
	defer v.done("PutKey", time.Now(), &err)
	return v.Store.PutKey(ctx, k)
}

// Keys implements [store.Access].
func (v verbs) Keys(ctx context.Context, q store.KeyQuery) (_ store.Page[postrider.APIKey], err error) {
	defer v.done("Keys", time.Now(), &err)
	return v.Store.Keys(ctx, q)
}

// RevokeKey implements [store.Access].
func (v verbs) RevokeKey(ctx context.Context, key postrider.KeyID) (err error) {
	defer v.done("RevokeKey", time.Now(), &err)
	return v.Store.RevokeKey(ctx, key)
}

// TouchKey implements [store.Access].
func (v verbs) TouchKey(ctx context.Context, key postrider.KeyID, at time.Time) (err error) {
	defer v.done("TouchKey", time.Now(), &err)
	return v.Store.TouchKey(ctx, key, at)
}

// PutSession implements [store.Sessions].
func (v verbs) PutSession(ctx context.Context, s postrider.Session) (err error) {
	defer v.done("PutSession", time.Now(), &err)
	return v.Store.PutSession(ctx, s)
}

// RedeemCode implements [store.Sessions].
func (v verbs) RedeemCode(ctx context.Context, r store.RedeemCode) (_ postrider.Session, err error) {
	defer v.done("RedeemCode", time.Now(), &err)
	return v.Store.RedeemCode(ctx, r)
}

// Sessions implements [store.Sessions].
func (v verbs) Sessions(ctx context.Context, q store.SessionQuery) (_ store.Page[postrider.Session], err error) {
	defer v.done("Sessions", time.Now(), &err)
	return v.Store.Sessions(ctx, q)
}

// RevokeSession implements [store.Sessions].
func (v verbs) RevokeSession(ctx context.Context, session postrider.SessionID) (err error) {
	defer v.done("RevokeSession", time.Now(), &err)
	return v.Store.RevokeSession(ctx, session)
}

// TouchSession implements [store.Sessions].
func (v verbs) TouchSession(ctx context.Context, session postrider.SessionID, at time.Time) (err error) {
	defer v.done("TouchSession", time.Now(), &err)
	return v.Store.TouchSession(ctx, session, at)
}

// AppendAudit implements [store.Audit].
func (v verbs) AppendAudit(ctx context.Context, e postrider.AuditEntry) (err error) {
	defer v.done("AppendAudit", time.Now(), &err)
	return v.Store.AppendAudit(ctx, e)
}

// AuditEntries implements [store.Audit].
func (v verbs) AuditEntries(ctx context.Context, q store.AuditQuery) (_ store.Page[postrider.AuditEntry], err error) {
	defer v.done("AuditEntries", time.Now(), &err)
	return v.Store.AuditEntries(ctx, q)
}

// PutPortal implements [store.PortalSettings].
func (v verbs) PutPortal(ctx context.Context, p postrider.Portal) (err error) {
	defer v.done("PutPortal", time.Now(), &err)
	return v.Store.PutPortal(ctx, p)
}

// Portal implements [store.PortalSettings].
func (v verbs) Portal(ctx context.Context) (_ postrider.Portal, err error) {
	defer v.done("Portal", time.Now(), &err)
	return v.Store.Portal(ctx)
}

// PutLogo implements [store.PortalSettings].
func (v verbs) PutLogo(ctx context.Context, png []byte) (err error) {
	defer v.done("PutLogo", time.Now(), &err)
	return v.Store.PutLogo(ctx, png)
}

// Logo implements [store.PortalSettings].
func (v verbs) Logo(ctx context.Context) (_ []byte, err error) {
	defer v.done("Logo", time.Now(), &err)
	return v.Store.Logo(ctx)
}

// PutInspection implements [store.Inspections].
func (v verbs) PutInspection(ctx context.Context, i postrider.Inspection) (err error) {
	defer v.done("PutInspection", time.Now(), &err)
	return v.Store.PutInspection(ctx, i)
}

// Inspections implements [store.Inspections].
func (v verbs) Inspections(ctx context.Context, q store.InspectionQuery) (_ store.Page[postrider.Inspection], err error) {
	defer v.done("Inspections", time.Now(), &err)
	return v.Store.Inspections(ctx, q)
}

// ForgetInspections implements [store.Inspections].
func (v verbs) ForgetInspections(ctx context.Context, limit int) (_ int, err error) {
	defer v.done("ForgetInspections", time.Now(), &err)
	return v.Store.ForgetInspections(ctx, limit)
}

// PutEventType implements [store.Catalogue].
func (v verbs) PutEventType(ctx context.Context, t postrider.EventType) (err error) {
	defer v.done("PutEventType", time.Now(), &err)
	return v.Store.PutEventType(ctx, t)
}

// EventTypes implements [store.Catalogue].
func (v verbs) EventTypes(ctx context.Context, q store.EventTypeQuery) (_ store.Page[postrider.EventType], err error) {
	defer v.done("EventTypes", time.Now(), &err)
	return v.Store.EventTypes(ctx, q)
}

// DeleteEventType implements [store.Catalogue].
func (v verbs) DeleteEventType(ctx context.Context, name string) (err error) {
	defer v.done("DeleteEventType", time.Now(), &err)
	return v.Store.DeleteEventType(ctx, name)
}

// Keyring implements [store.Encryption].
func (v verbs) Keyring(ctx context.Context) (_ []byte, err error) {
	defer v.done("Keyring", time.Now(), &err)
	return v.Store.Keyring(ctx)
}

// SwapKeyring implements [store.Encryption].
func (v verbs) SwapKeyring(ctx context.Context, old, next []byte) (_ []byte, err error) {
	defer v.done("SwapKeyring", time.Now(), &err)
	return v.Store.SwapKeyring(ctx, old, next)
}

// EncryptedValues implements [store.Encryption].
func (v verbs) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) (_ []store.EncryptedValue, err error) {
	defer v.done("EncryptedValues", time.Now(), &err)
	return v.Store.EncryptedValues(ctx, after, limit)
}

// Reencrypt implements [store.Encryption].
func (v verbs) Reencrypt(ctx context.Context, list []store.Reencryption) (_ int, err error) {
	defer v.done("Reencrypt", time.Now(), &err)
	return v.Store.Reencrypt(ctx, list)
}

// Events implements [store.Ledger].
func (v verbs) Events(ctx context.Context, q store.EventQuery) (_ store.Page[postrider.Event], err error) {
	defer v.done("Events", time.Now(), &err)
	return v.Store.Events(ctx, q)
}

// Deliveries implements [store.Ledger].
func (v verbs) Deliveries(ctx context.Context, q store.DeliveryQuery) (_ store.Page[postrider.Delivery], err error) {
	defer v.done("Deliveries", time.Now(), &err)
	return v.Store.Deliveries(ctx, q)
}

// Attempts implements [store.Ledger].
func (v verbs) Attempts(ctx context.Context, q store.AttemptQuery) (_ store.Page[postrider.Attempt], err error) {
	defer v.done("Attempts", time.Now(), &err)
	return v.Store.Attempts(ctx, q)
}

// DeadLetters implements [store.Ledger].
func (v verbs) DeadLetters(ctx context.Context, q store.DeadLetterQuery) (_ store.Page[postrider.DeadLetter], err error) {
	defer v.done("DeadLetters", time.Now(), &err)
	return v.Store.DeadLetters(ctx, q)
}

// Replay implements [store.Ledger].
func (v verbs) Replay(ctx context.Context, r store.Replay) (_ postrider.Delivery, err error) {
	defer v.done("Replay", time.Now(), &err)
	return v.Store.Replay(ctx, r)
}

// Cancel implements [store.Ledger].
func (v verbs) Cancel(ctx context.Context, c store.Cancel) (_ postrider.Delivery, err error) {
	defer v.done("Cancel", time.Now(), &err)
	return v.Store.Cancel(ctx, c)
}

// Discard implements [store.Ledger].
func (v verbs) Discard(ctx context.Context, d store.Discard) (_ postrider.DeadLetter, err error) {
	defer v.done("Discard", time.Now(), &err)
	return v.Store.Discard(ctx, d)
}

// OrderedKeys implements [store.Ledger].
func (v verbs) OrderedKeys(ctx context.Context, q store.OrderedKeyQuery) (_ store.Page[store.OrderedKey], err error) {
	defer v.done("OrderedKeys", time.Now(), &err)
	return v.Store.OrderedKeys(ctx, q)
}

// HealthHistory implements [store.Ledger].
func (v verbs) HealthHistory(ctx context.Context, q store.HealthQuery) (_ store.Page[postrider.EndpointHealth], err error) {
	defer v.done("HealthHistory", time.Now(), &err)
	return v.Store.HealthHistory(ctx, q)
}

// Find implements [store.Finder].
func (v verbs) Find(ctx context.Context, q store.FindQuery) (_ []store.Found, err error) {
	defer v.done("Find", time.Now(), &err)
	return v.Store.Find(ctx, q)
}

// DeadLetterGroups implements [store.Finder].
func (v verbs) DeadLetterGroups(ctx context.Context, q store.DeadLetterGroupQuery) (_ store.Page[store.DeadLetterGroup], err error) {
	defer v.done("DeadLetterGroups", time.Now(), &err)
	return v.Store.DeadLetterGroups(ctx, q)
}

// PutReplayJob implements [store.Replays].
func (v verbs) PutReplayJob(ctx context.Context, job postrider.ReplayJob) (err error) {
	defer v.done("PutReplayJob", time.Now(), &err)
	return v.Store.PutReplayJob(ctx, job)
}

// ReplayJobs implements [store.Replays].
func (v verbs) ReplayJobs(ctx context.Context, q store.ReplayJobQuery) (_ store.Page[postrider.ReplayJob], err error) {
	defer v.done("ReplayJobs", time.Now(), &err)
	return v.Store.ReplayJobs(ctx, q)
}

// SetReplayJob implements [store.Replays].
func (v verbs) SetReplayJob(ctx context.Context, r store.SetReplayJob) (err error) {
	defer v.done("SetReplayJob", time.Now(), &err)
	return v.Store.SetReplayJob(ctx, r)
}

// ClaimReplayJobs implements [store.Replays].
func (v verbs) ClaimReplayJobs(ctx context.Context, c store.ClaimReplayJobs) (_ []postrider.ReplayJob, err error) {
	defer v.done("ClaimReplayJobs", time.Now(), &err)
	return v.Store.ClaimReplayJobs(ctx, c)
}

// ReplaysPending implements [store.Replays].
func (v verbs) ReplaysPending(ctx context.Context, id postrider.ReplayID) (_ map[postrider.EndpointID]int, err error) {
	defer v.done("ReplaysPending", time.Now(), &err)
	return v.Store.ReplaysPending(ctx, id)
}

// ReplayChunk implements [store.Replays].
func (v verbs) ReplayChunk(ctx context.Context, c store.ReplayChunk) (err error) {
	defer v.done("ReplayChunk", time.Now(), &err)
	return v.Store.ReplayChunk(ctx, c)
}

// FoldRollups implements [store.Rollups].
func (v verbs) FoldRollups(ctx context.Context, f store.Fold) (_ int, err error) {
	defer v.done("FoldRollups", time.Now(), &err)
	return v.Store.FoldRollups(ctx, f)
}

// RollUp implements [store.Rollups].
func (v verbs) RollUp(ctx context.Context, limit int) (_ int, err error) {
	defer v.done("RollUp", time.Now(), &err)
	return v.Store.RollUp(ctx, limit)
}

// ForgetRollups implements [store.Rollups].
func (v verbs) ForgetRollups(ctx context.Context, limit int) (_ int, err error) {
	defer v.done("ForgetRollups", time.Now(), &err)
	return v.Store.ForgetRollups(ctx, limit)
}

// Rollups implements [store.Rollups].
func (v verbs) Rollups(ctx context.Context, q store.RollupQuery) (_ []store.Rollup, err error) {
	defer v.done("Rollups", time.Now(), &err)
	return v.Store.Rollups(ctx, q)
}

// Backlog implements [store.Rollups].
func (v verbs) Backlog(ctx context.Context, q store.BacklogQuery) (_ store.Backlog, err error) {
	defer v.done("Backlog", time.Now(), &err)
	return v.Store.Backlog(ctx, q)
}

// EndpointStates implements [store.Rollups].
func (v verbs) EndpointStates(ctx context.Context, ids ...postrider.EndpointID) (_ []store.EndpointState, err error) {
	defer v.done("EndpointStates", time.Now(), &err)
	return v.Store.EndpointStates(ctx, ids...)
}

// LastFailures implements [store.Rollups].
func (v verbs) LastFailures(ctx context.Context, ids ...postrider.EndpointID) (_ []postrider.Attempt, err error) {
	defer v.done("LastFailures", time.Now(), &err)
	return v.Store.LastFailures(ctx, ids...)
}

// Expire implements [store.Upkeep].
func (v verbs) Expire(ctx context.Context, limit int) (expired, lost int, err error) {
	defer v.done("Expire", time.Now(), &err)
	return v.Store.Expire(ctx, limit)
}

// DeleteEndpoints implements [store.Upkeep].
func (v verbs) DeleteEndpoints(ctx context.Context, limit int) (_ int, err error) {
	defer v.done("DeleteEndpoints", time.Now(), &err)
	return v.Store.DeleteEndpoints(ctx, limit)
}

// CancelDeleted implements [store.Upkeep].
func (v verbs) CancelDeleted(ctx context.Context, limit int) (_, _ int, err error) {
	defer v.done("CancelDeleted", time.Now(), &err)
	return v.Store.CancelDeleted(ctx, limit)
}

// ForgetKeys implements [store.Upkeep].
func (v verbs) ForgetKeys(ctx context.Context, age time.Duration, limit int) (_ int, err error) {
	defer v.done("ForgetKeys", time.Now(), &err)
	return v.Store.ForgetKeys(ctx, age, limit)
}

// DeleteOld implements [store.Retention].
func (v verbs) DeleteOld(ctx context.Context, d store.DeleteOld) (_ int, err error) {
	defer v.done("DeleteOld", time.Now(), &err)
	return v.Store.DeleteOld(ctx, d)
}

// OldRows implements [store.Retention].
func (v verbs) OldRows(ctx context.Context, q store.OldRows) (_ []store.OldRow, _ store.RowID, err error) {
	defer v.done("OldRows", time.Now(), &err)
	return v.Store.OldRows(ctx, q)
}

// DeleteRows implements [store.Retention].
func (v verbs) DeleteRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (_ int, err error) {
	defer v.done("DeleteRows", time.Now(), &err)
	return v.Store.DeleteRows(ctx, kind, rows)
}

// ForgetOrderingKeys implements [store.Retention].
func (v verbs) ForgetOrderingKeys(ctx context.Context, after store.OrderingKey, limit int) (_ store.OrderingKey, err error) {
	defer v.done("ForgetOrderingKeys", time.Now(), &err)
	return v.Store.ForgetOrderingKeys(ctx, after, limit)
}

// Shrink implements [store.Retention].
func (v verbs) Shrink(ctx context.Context, limit int) (_ int, err error) {
	defer v.done("Shrink", time.Now(), &err)
	return v.Store.Shrink(ctx, limit)
}

// MakePartitions implements [store.Upkeep].
func (v verbs) MakePartitions(ctx context.Context) (err error) {
	defer v.done("MakePartitions", time.Now(), &err)
	return v.Store.MakePartitions(ctx)
}

// CheckTables implements [store.Upkeep].
func (v verbs) CheckTables(ctx context.Context) (err error) {
	defer v.done("CheckTables", time.Now(), &err)
	return v.Store.CheckTables(ctx)
}

// ProbeWrite implements [store.Upkeep].
func (v verbs) ProbeWrite(ctx context.Context, space int) (err error) {
	defer v.done("ProbeWrite", time.Now(), &err)
	return v.Store.ProbeWrite(ctx, space)
}

// HealthInputs implements [store.Upkeep].
func (v verbs) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) (_ []postrider.HealthInput, err error) {
	defer v.done("HealthInputs", time.Now(), &err)
	return v.Store.HealthInputs(ctx, after, limit)
}

// PutHealth implements [store.Upkeep].
func (v verbs) PutHealth(ctx context.Context, h postrider.EndpointHealth, notices ...postrider.Notice) (err error) {
	defer v.done("PutHealth", time.Now(), &err)
	return v.Store.PutHealth(ctx, h, notices...)
}

// Now implements [store.Upkeep].
func (v verbs) Now(ctx context.Context) (_ time.Time, err error) {
	defer v.done("Now", time.Now(), &err)
	return v.Store.Now(ctx)
}

// Held implements [store.Holding].
func (v verbs) Held(ctx context.Context) (_ postrider.Hold, err error) {
	defer v.done("Held", time.Now(), &err)
	return v.Store.Held(ctx)
}

// PutHold implements [store.Holding].
func (v verbs) PutHold(ctx context.Context, reason string) (_ postrider.Hold, err error) {
	defer v.done("PutHold", time.Now(), &err)
	return v.Store.PutHold(ctx, reason)
}

// Resume implements [store.Holding].
func (v verbs) Resume(ctx context.Context) (_ store.HeldWork, err error) {
	defer v.done("Resume", time.Now(), &err)
	return v.Store.Resume(ctx)
}

// HeldWork implements [store.Holding].
func (v verbs) HeldWork(ctx context.Context) (_ store.HeldWork, err error) {
	defer v.done("HeldWork", time.Now(), &err)
	return v.Store.HeldWork(ctx)
}

// PutExpunge implements [store.Expunges].
func (v verbs) PutExpunge(ctx context.Context, e postrider.Expunge) (err error) {
	defer v.done("PutExpunge", time.Now(), &err)
	return v.Store.PutExpunge(ctx, e)
}

// Expunges implements [store.Expunges].
func (v verbs) Expunges(ctx context.Context, q store.ExpungeQuery) (_ store.Page[postrider.Expunge], err error) {
	defer v.done("Expunges", time.Now(), &err)
	return v.Store.Expunges(ctx, q)
}

// NoteExpunge implements [store.Expunges].
func (v verbs) NoteExpunge(ctx context.Context, e postrider.Expunge) (err error) {
	defer v.done("NoteExpunge", time.Now(), &err)
	return v.Store.NoteExpunge(ctx, e)
}

// Scrub implements [store.Expunges].
func (v verbs) Scrub(ctx context.Context) (err error) {
	defer v.done("Scrub", time.Now(), &err)
	return v.Store.Scrub(ctx)
}

// ReplaceArchivePart implements [store.Expunges].
func (v verbs) ReplaceArchivePart(ctx context.Context, r store.ReplaceArchivePart) (err error) {
	defer v.done("ReplaceArchivePart", time.Now(), &err)
	return v.Store.ReplaceArchivePart(ctx, r)
}

// ExpungeRows implements [store.Expunges].
func (v verbs) ExpungeRows(ctx context.Context, r store.ExpungeRows) (_ postrider.Expunge, err error) {
	defer v.done("ExpungeRows", time.Now(), &err)
	return v.Store.ExpungeRows(ctx, r)
}
