package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// trouble is what a call of the store meets; the zero value is none.
type trouble struct {
	takes time.Duration // before the call
	err   error         // in place of the call
	hangs bool          // the call ends only when its context ends
}

// way is a server's way to the store that all servers share.
type way struct {
	*memory.Store
	calls store.Calls // of the verbs below

	mu    sync.Mutex
	meet  func(verb string) trouble // nil: no call meets trouble
	skew  time.Duration             // how far the store's clock is ahead of the machine's
	steps int64                     // of the store's clock
}

func (w *way) set(meet func(verb string) trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meet = meet
}

// call makes a call fail or hang as the trouble says, and returns its error.
func (w *way) call(ctx context.Context, verb string) error {
	w.mu.Lock()
	meet := w.meet
	w.mu.Unlock()
	if meet == nil {
		return nil
	}
	t := meet(verb)
	if t.hangs {
		<-ctx.Done()
		return fmt.Errorf("%s: %w", verb, ctx.Err())
	}
	if t.takes > 0 {
		batch.Sleep(ctx, t.takes)
	}
	return t.err
}

// The verbs that may meet trouble: those of the services that always run.

func (w *way) Publish(ctx context.Context, p store.Publish) (r []store.Published, err error) {
	defer w.calls.Begin("Publish").End(&err, "Publish")
	if err = w.call(ctx, "Publish"); err == nil {
		r, err = w.Store.Publish(ctx, p)
	}
	return r, err
}

func (w *way) ClaimFanOuts(ctx context.Context, c store.ClaimFanOuts) (r []store.FanOut, err error) {
	defer w.calls.Begin("ClaimFanOuts").End(&err, "ClaimFanOuts")
	if err = w.call(ctx, "ClaimFanOuts"); err == nil {
		r, err = w.Store.ClaimFanOuts(ctx, c)
	}
	return r, err
}

func (w *way) FanOut(ctx context.Context, c store.FanOutChunk) (err error) {
	defer w.calls.Begin("FanOut").End(&err, "FanOut")
	if err = w.call(ctx, "FanOut"); err == nil {
		err = w.Store.FanOut(ctx, c)
	}
	return err
}

func (w *way) Claim(ctx context.Context, c store.Claim) (r store.Claims, err error) {
	defer w.calls.Begin("Claim").End(&err, "Claim")
	if err = w.call(ctx, "Claim"); err == nil {
		r, err = w.Store.Claim(ctx, c)
	}
	return r, err
}

func (w *way) Settle(ctx context.Context, settlements []store.Settlement) (r []store.Settled, err error) {
	defer w.calls.Begin("Settle").End(&err, "Settle")
	if err = w.call(ctx, "Settle"); err == nil {
		r, err = w.Store.Settle(ctx, settlements)
	}
	return r, err
}

func (w *way) Continue(ctx context.Context, c postrider.Claimed, a postrider.Attempt) (err error) {
	defer w.calls.Begin("Continue").End(&err, "Continue")
	if err = w.call(ctx, "Continue"); err == nil {
		err = w.Store.Continue(ctx, c, a)
	}
	return err
}

func (w *way) Release(ctx context.Context, leases []store.Lease) (err error) {
	defer w.calls.Begin("Release").End(&err, "Release")
	if err = w.call(ctx, "Release"); err == nil {
		err = w.Store.Release(ctx, leases)
	}
	return err
}

func (w *way) Due(ctx context.Context, d store.Due) (r []store.DueLane, err error) {
	defer w.calls.Begin("Due").End(&err, "Due")
	if err = w.call(ctx, "Due"); err == nil {
		r, err = w.Store.Due(ctx, d)
	}
	return r, err
}

func (w *way) PutCircuit(ctx context.Context, p store.PutCircuit) (r postrider.Circuit, err error) {
	defer w.calls.Begin("PutCircuit").End(&err, "PutCircuit")
	if err = w.call(ctx, "PutCircuit"); err == nil {
		r, err = w.Store.PutCircuit(ctx, p)
	}
	return r, err
}

func (w *way) Circuits(ctx context.Context, q store.CircuitQuery) (r []postrider.Circuit, err error) {
	defer w.calls.Begin("Circuits").End(&err, "Circuits")
	if err = w.call(ctx, "Circuits"); err == nil {
		r, err = w.Store.Circuits(ctx, q)
	}
	return r, err
}

func (w *way) Changes(ctx context.Context, since int64, limit int) (r store.Changes, err error) {
	defer w.calls.Begin("Changes").End(&err, "Changes")
	if err = w.call(ctx, "Changes"); err == nil {
		r, err = w.Store.Changes(ctx, since, limit)
	}
	return r, err
}

func (w *way) Endpoints(ctx context.Context, q store.EndpointQuery) (r store.Page[postrider.Endpoint], err error) {
	defer w.calls.Begin("Endpoints").End(&err, "Endpoints")
	if err = w.call(ctx, "Endpoints"); err == nil {
		r, err = w.Store.Endpoints(ctx, q)
	}
	return r, err
}

func (w *way) Accounts(ctx context.Context, q store.AccountQuery) (r store.Page[postrider.Account], err error) {
	defer w.calls.Begin("Accounts").End(&err, "Accounts")
	if err = w.call(ctx, "Accounts"); err == nil {
		r, err = w.Store.Accounts(ctx, q)
	}
	return r, err
}

func (w *way) Keys(ctx context.Context, q store.KeyQuery) (r store.Page[postrider.APIKey], err error) {
	defer w.calls.Begin("Keys").End(&err, "Keys")
	if err = w.call(ctx, "Keys"); err == nil {
		r, err = w.Store.Keys(ctx, q)
	}
	return r, err
}

func (w *way) TouchKey(ctx context.Context, key postrider.KeyID, at time.Time) (err error) {
	defer w.calls.Begin("TouchKey").End(&err, "TouchKey")
	if err = w.call(ctx, "TouchKey"); err == nil {
		err = w.Store.TouchKey(ctx, key, at)
	}
	return err
}

func (w *way) AppendAudit(ctx context.Context, e postrider.AuditEntry) (err error) {
	defer w.calls.Begin("AppendAudit").End(&err, "AppendAudit")
	if err = w.call(ctx, "AppendAudit"); err == nil {
		err = w.Store.AppendAudit(ctx, e)
	}
	return err
}

func (w *way) PutNotices(ctx context.Context, notices []postrider.Notice) (r []postrider.Notice, err error) {
	defer w.calls.Begin("PutNotices").End(&err, "PutNotices")
	if err = w.call(ctx, "PutNotices"); err == nil {
		r, err = w.Store.PutNotices(ctx, notices)
	}
	return r, err
}

func (w *way) Notices(ctx context.Context, q store.NoticeQuery) (r store.Page[postrider.Notice], err error) {
	defer w.calls.Begin("Notices").End(&err, "Notices")
	if err = w.call(ctx, "Notices"); err == nil {
		r, err = w.Store.Notices(ctx, q)
	}
	return r, err
}

func (w *way) NoticesPublished(ctx context.Context) (r postrider.NoticeID, err error) {
	defer w.calls.Begin("NoticesPublished").End(&err, "NoticesPublished")
	if err = w.call(ctx, "NoticesPublished"); err == nil {
		r, err = w.Store.NoticesPublished(ctx)
	}
	return r, err
}

func (w *way) SetNoticesPublished(ctx context.Context, last postrider.NoticeID) (err error) {
	defer w.calls.Begin("SetNoticesPublished").End(&err, "SetNoticesPublished")
	if err = w.call(ctx, "SetNoticesPublished"); err == nil {
		err = w.Store.SetNoticesPublished(ctx, last)
	}
	return err
}

func (w *way) ClaimDestinations(ctx context.Context, c store.ClaimDestinations) (r []postrider.Destination, err error) {
	defer w.calls.Begin("ClaimDestinations").End(&err, "ClaimDestinations")
	if err = w.call(ctx, "ClaimDestinations"); err == nil {
		r, err = w.Store.ClaimDestinations(ctx, c)
	}
	return r, err
}

func (w *way) SettleDestination(ctx context.Context, s store.SettleDestination) (err error) {
	defer w.calls.Begin("SettleDestination").End(&err, "SettleDestination")
	if err = w.call(ctx, "SettleDestination"); err == nil {
		err = w.Store.SettleDestination(ctx, s)
	}
	return err
}

func (w *way) Portal(ctx context.Context) (r postrider.Portal, err error) {
	defer w.calls.Begin("Portal").End(&err, "Portal")
	if err = w.call(ctx, "Portal"); err == nil {
		r, err = w.Store.Portal(ctx)
	}
	return r, err
}

func (w *way) FoldRollups(ctx context.Context, f store.Fold) (r int, err error) {
	defer w.calls.Begin("FoldRollups").End(&err, "FoldRollups")
	if err = w.call(ctx, "FoldRollups"); err == nil {
		r, err = w.Store.FoldRollups(ctx, f)
	}
	return r, err
}

func (w *way) RollUp(ctx context.Context, limit int) (r int, err error) {
	defer w.calls.Begin("RollUp").End(&err, "RollUp")
	if err = w.call(ctx, "RollUp"); err == nil {
		r, err = w.Store.RollUp(ctx, limit)
	}
	return r, err
}

func (w *way) ForgetRollups(ctx context.Context, limit int) (r int, err error) {
	defer w.calls.Begin("ForgetRollups").End(&err, "ForgetRollups")
	if err = w.call(ctx, "ForgetRollups"); err == nil {
		r, err = w.Store.ForgetRollups(ctx, limit)
	}
	return r, err
}

func (w *way) Rollups(ctx context.Context, q store.RollupQuery) (r []store.Rollup, err error) {
	defer w.calls.Begin("Rollups").End(&err, "Rollups")
	if err = w.call(ctx, "Rollups"); err == nil {
		r, err = w.Store.Rollups(ctx, q)
	}
	return r, err
}

func (w *way) Backlog(ctx context.Context, q store.BacklogQuery) (r store.Backlog, err error) {
	defer w.calls.Begin("Backlog").End(&err, "Backlog")
	if err = w.call(ctx, "Backlog"); err == nil {
		r, err = w.Store.Backlog(ctx, q)
	}
	return r, err
}

func (w *way) Expire(ctx context.Context, limit int) (expired, lost int, err error) {
	defer w.calls.Begin("Expire").End(&err, "Expire")
	if err = w.call(ctx, "Expire"); err == nil {
		expired, lost, err = w.Store.Expire(ctx, limit)
	}
	return expired, lost, err
}

func (w *way) DeleteEndpoints(ctx context.Context, limit int) (r int, err error) {
	defer w.calls.Begin("DeleteEndpoints").End(&err, "DeleteEndpoints")
	if err = w.call(ctx, "DeleteEndpoints"); err == nil {
		r, err = w.Store.DeleteEndpoints(ctx, limit)
	}
	return r, err
}

func (w *way) CancelDeleted(ctx context.Context, limit int) (r, r1 int, err error) {
	defer w.calls.Begin("CancelDeleted").End(&err, "CancelDeleted")
	if err = w.call(ctx, "CancelDeleted"); err == nil {
		r, r1, err = w.Store.CancelDeleted(ctx, limit)
	}
	return r, r1, err
}

func (w *way) ForgetKeys(ctx context.Context, age time.Duration, limit int) (r int, err error) {
	defer w.calls.Begin("ForgetKeys").End(&err, "ForgetKeys")
	if err = w.call(ctx, "ForgetKeys"); err == nil {
		r, err = w.Store.ForgetKeys(ctx, age, limit)
	}
	return r, err
}

func (w *way) DeleteOld(ctx context.Context, d store.DeleteOld) (r int, err error) {
	defer w.calls.Begin("DeleteOld").End(&err, "DeleteOld")
	if err = w.call(ctx, "DeleteOld"); err == nil {
		r, err = w.Store.DeleteOld(ctx, d)
	}
	return r, err
}

func (w *way) OldRows(ctx context.Context, q store.OldRows) (r []store.OldRow, r1 store.RowID, err error) {
	defer w.calls.Begin("OldRows").End(&err, "OldRows")
	if err = w.call(ctx, "OldRows"); err == nil {
		r, r1, err = w.Store.OldRows(ctx, q)
	}
	return r, r1, err
}

func (w *way) DeleteRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (r int, err error) {
	defer w.calls.Begin("DeleteRows").End(&err, "DeleteRows")
	if err = w.call(ctx, "DeleteRows"); err == nil {
		r, err = w.Store.DeleteRows(ctx, kind, rows)
	}
	return r, err
}

func (w *way) ForgetOrderingKeys(ctx context.Context, after store.OrderingKey, limit int) (r store.OrderingKey, err error) {
	defer w.calls.Begin("ForgetOrderingKeys").End(&err, "ForgetOrderingKeys")
	if err = w.call(ctx, "ForgetOrderingKeys"); err == nil {
		r, err = w.Store.ForgetOrderingKeys(ctx, after, limit)
	}
	return r, err
}

func (w *way) Shrink(ctx context.Context, limit int) (r int, err error) {
	defer w.calls.Begin("Shrink").End(&err, "Shrink")
	if err = w.call(ctx, "Shrink"); err == nil {
		r, err = w.Store.Shrink(ctx, limit)
	}
	return r, err
}

func (w *way) MakePartitions(ctx context.Context) (err error) {
	defer w.calls.Begin("MakePartitions").End(&err, "MakePartitions")
	if err = w.call(ctx, "MakePartitions"); err == nil {
		err = w.Store.MakePartitions(ctx)
	}
	return err
}

func (w *way) CheckTables(ctx context.Context) (err error) {
	defer w.calls.Begin("CheckTables").End(&err, "CheckTables")
	if err = w.call(ctx, "CheckTables"); err == nil {
		err = w.Store.CheckTables(ctx)
	}
	return err
}

func (w *way) ProbeWrite(ctx context.Context, space int) (err error) {
	defer w.calls.Begin("ProbeWrite").End(&err, "ProbeWrite")
	if err = w.call(ctx, "ProbeWrite"); err == nil {
		err = w.Store.ProbeWrite(ctx, space)
	}
	return err
}

func (w *way) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) (r []postrider.HealthInput, err error) {
	defer w.calls.Begin("HealthInputs").End(&err, "HealthInputs")
	if err = w.call(ctx, "HealthInputs"); err == nil {
		r, err = w.Store.HealthInputs(ctx, after, limit)
	}
	return r, err
}

func (w *way) PutHealth(ctx context.Context, h postrider.EndpointHealth, notices ...postrider.Notice) (err error) {
	defer w.calls.Begin("PutHealth").End(&err, "PutHealth")
	if err = w.call(ctx, "PutHealth"); err == nil {
		err = w.Store.PutHealth(ctx, h, notices...)
	}
	return err
}

// Now reads the store's clock, as a database does.
func (w *way) Now(ctx context.Context) (_ time.Time, err error) {
	defer w.calls.Begin("Now").End(&err, "Now")
	if err := w.call(ctx, "Now"); err != nil {
		return time.Time{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	clock, at := w.Clock(), time.Now()
	r := store.Reading{Asked: at, Answered: at, Wall: at.Add(w.skew), Ahead: clock.Ahead(), Version: w.steps}
	if step := clock.Follow(r); step != 0 {
		w.steps++
		r.Ahead, r.Version = r.Ahead-step, w.steps
		clock.Follow(r)
	}
	return clock.Now(), nil
}

func (w *way) Held(ctx context.Context) (r postrider.Hold, err error) {
	defer w.calls.Begin("Held").End(&err, "Held")
	if err = w.call(ctx, "Held"); err == nil {
		r, err = w.Store.Held(ctx)
	}
	return r, err
}

func (w *way) ClaimReplayJobs(ctx context.Context, c store.ClaimReplayJobs) (r []postrider.ReplayJob, err error) {
	defer w.calls.Begin("ClaimReplayJobs").End(&err, "ClaimReplayJobs")
	if err = w.call(ctx, "ClaimReplayJobs"); err == nil {
		r, err = w.Store.ClaimReplayJobs(ctx, c)
	}
	return r, err
}

func (w *way) Expunges(ctx context.Context, q store.ExpungeQuery) (r store.Page[postrider.Expunge], err error) {
	defer w.calls.Begin("Expunges").End(&err, "Expunges")
	if err = w.call(ctx, "Expunges"); err == nil {
		r, err = w.Store.Expunges(ctx, q)
	}
	return r, err
}

func (w *way) LeaseArchive(ctx context.Context, node uint64, d time.Duration) (r bool, err error) {
	defer w.calls.Begin("LeaseArchive").End(&err, "LeaseArchive")
	if err = w.call(ctx, "LeaseArchive"); err == nil {
		r, err = w.Store.LeaseArchive(ctx, node, d)
	}
	return r, err
}

func (w *way) ArchiveDay(ctx context.Context, kind store.Kind, before time.Time) (r store.ArchiveDay, err error) {
	defer w.calls.Begin("ArchiveDay").End(&err, "ArchiveDay")
	if err = w.call(ctx, "ArchiveDay"); err == nil {
		r, err = w.Store.ArchiveDay(ctx, kind, before)
	}
	return r, err
}

func (w *way) ForgetInspections(ctx context.Context, limit int) (r int, err error) {
	defer w.calls.Begin("ForgetInspections").End(&err, "ForgetInspections")
	if err = w.call(ctx, "ForgetInspections"); err == nil {
		r, err = w.Store.ForgetInspections(ctx, limit)
	}
	return r, err
}

func (w *way) ForgetRestored(ctx context.Context, before time.Time, limit int) (r int, err error) {
	defer w.calls.Begin("ForgetRestored").End(&err, "ForgetRestored")
	if err = w.call(ctx, "ForgetRestored"); err == nil {
		r, err = w.Store.ForgetRestored(ctx, before, limit)
	}
	return r, err
}

func (w *way) ForgetRows(ctx context.Context, before time.Time, n int) (r int, err error) {
	defer w.calls.Begin("ForgetRows").End(&err, "ForgetRows")
	if err = w.call(ctx, "ForgetRows"); err == nil {
		r, err = w.Store.ForgetRows(ctx, before, n)
	}
	return r, err
}

func (w *way) DeadLetters(ctx context.Context, q store.DeadLetterQuery) (r store.Page[postrider.DeadLetter], err error) {
	defer w.calls.Begin("DeadLetters").End(&err, "DeadLetters")
	if err = w.call(ctx, "DeadLetters"); err == nil {
		r, err = w.Store.DeadLetters(ctx, q)
	}
	return r, err
}

func (w *way) Heartbeat(ctx context.Context, h store.Heartbeat) (r store.Membership, err error) {
	defer w.calls.Begin("Heartbeat").End(&err, "Heartbeat")
	if err = w.call(ctx, "Heartbeat"); err == nil {
		r, err = w.Store.Heartbeat(ctx, h)
	}
	return r, err
}

func (w *way) Reclaim(ctx context.Context, incarnation uint32, limit int) (r int, err error) {
	defer w.calls.Begin("Reclaim").End(&err, "Reclaim")
	if err = w.call(ctx, "Reclaim"); err == nil {
		r, err = w.Store.Reclaim(ctx, incarnation, limit)
	}
	return r, err
}

func (w *way) Forget(ctx context.Context, incarnation uint32) (err error) {
	defer w.calls.Begin("Forget").End(&err, "Forget")
	if err = w.call(ctx, "Forget"); err == nil {
		err = w.Store.Forget(ctx, incarnation)
	}
	return err
}

func (w *way) Members(ctx context.Context, owns postrider.EndpointID) (r []store.Member, err error) {
	defer w.calls.Begin("Members").End(&err, "Members")
	if err = w.call(ctx, "Members"); err == nil {
		r, err = w.Store.Members(ctx, owns)
	}
	return r, err
}

func (w *way) Wake(ctx context.Context, message string) (err error) {
	defer w.calls.Begin("Wake").End(&err, "Wake")
	if err = w.call(ctx, "Wake"); err == nil {
		err = w.Store.Wake(ctx, message)
	}
	return err
}
