package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests of the role [store.Replays], and of the filters that find matches.
var replays = []verb{
	{"PutReplayJob and ReplayJobs", []sentence{
		{"a new job is running and due at once, as it was put", putReplayJob},
		{"jobs are listed newest first, by account and by status", replayJobsListed},
		{"only a job found by id has the exact numbers of what became of its deliveries", replayJobsMade},
	}},
	{"SetReplayJob", []sentence{
		{"a paused job is not claimed until it is resumed", setReplayJobPaused},
		{"a cancelled job is never claimed again, and what it made goes on", setReplayJobCancelled},
		{"it takes the job away from the node that has it", setReplayJobFences},
		{"repeated, it changes nothing; a job that has ended is ErrConflict", setReplayJobEnded},
		{"what does not exist or is another account's is ErrNotFound", setReplayJobNotFound},
	}},
	{"ClaimReplayJobs", []sentence{
		{"it leases up to Max jobs, those due for longest, and a leased one not again while its lease lasts", claimReplayJobsLeased},
		{"a job is due again when its lease has ended or was given back", claimReplayJobsAgain},
	}},
	{"ReplaysPending", []sentence{
		{"it counts the pending deliveries of the job at each endpoint", replaysPending},
	}},
	{"ReplayChunk", []sentence{
		{"each match gets a new delivery in the bulk lane, linked, and its dead letter is resolved", replayChunkMakes},
		{"a chunk with another token or from another position is ErrFenced and stores nothing", replayChunkFenced},
		{"of parallel chunks exactly one is stored", replayChunkInParallel},
		{"the last chunk ends the job, stores its notices, and says why it failed", replayChunkEnds},
		{"a match that cannot be replayed is counted by its reason and does not fail the others", replayChunkSkips},
		{"a discard resolves each dead letter by the job's name and note", replayChunkDiscards},
	}},
	{"ReplayChunk of ordered deliveries", []sentence{
		{"new deliveries of a key are attempted in sequence", replayChunkInSequence},
		{"a head that is due stays the head, and the lowest sequence follows", replayChunkBelowHead},
		{"a blocked one that is cancelled lets nothing go on", replayChunkBlockedCancelled},
		{"the replay of what pauses a key ends the pause, after lower sequences", replayChunkResumes},
		{"a paused key stays paused without it", replayChunkStaysPaused},
		{"a discard of what pauses a key lets the key go on", replayChunkDiscardResumes},
		{"one that dies pauses its key", replayChunkPauses},
	}},
	{"FindReplayMatches", []sentence{
		{"all statuses come in one sequence, oldest first, however long the pages are", matchesMerged},
		{"what ends after the job was created is no match", matchesEnded},
		{"the set ends with the job's id, and never has the job's own deliveries", matchesFixed},
		{"types, reasons and times select", matchesFiltered},
		{"a delivery that was replayed since is no match, its last replay is", matchesLast},
		{"a dead letter that was resolved after the job was made is a match, one before is not", matchesResolved},
	}},
}

// newJob returns a job for the deliveries of an endpoint that is not stored yet. Its CreatedAt is
// later than any time that the store has recorded.
func (w *world) newJob(e postrider.Endpoint, statuses ...postrider.Status) postrider.ReplayJob {
	return postrider.ReplayJob{
		ID: newID[postrider.ReplayID](w), CreatedAt: w.stamp(), Action: postrider.ActionReplay, PerSecond: 10, By: "support", Note: "mended",
		Filter: postrider.ReplayFilter{Account: e.Account, Endpoint: e.ID, Statuses: statuses},
	}
}

// runningJob stores the job, and claims it.
func (w *world) runningJob(job postrider.ReplayJob) (postrider.ReplayJob, postrider.Token) {
	w.Helper()
	w.ok(w.PutReplayJob(w.Context(), job))
	return w.claimJob(long)
}

func (w *world) claimJob(lease time.Duration) (postrider.ReplayJob, postrider.Token) {
	w.Helper()
	token := w.token()
	jobs, err := w.ClaimReplayJobs(w.Context(), store.ClaimReplayJobs{Max: 1, Token: token, Lease: lease})
	w.ok(err)
	if len(jobs) != 1 {
		w.Fatalf("claimed %d replay jobs, want 1", len(jobs))
	}
	return jobs[0], token
}

func (w *world) readJob(id postrider.ReplayID) postrider.ReplayJob {
	w.Helper()
	page, err := w.ReplayJobs(w.Context(), store.ReplayJobQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("replay job %s is listed %d times", id, len(page.Items))
	}
	return page.Items[0]
}

// chunkOf returns the chunk of a claimed job with the next matches.
func (w *world) chunkOf(job postrider.ReplayJob, token postrider.Token, matches ...postrider.DeliveryID) store.ReplayChunk {
	w.Helper()
	c := store.ReplayChunk{Job: job.ID, Token: token, From: job.ReplayPosition, To: job.ReplayPosition, Lease: long}
	for _, id := range matches {
		d := w.delivery(id)
		c.To.Cursor = id
		c.Items = append(c.Items, store.ReplayItem{
			Match: id, Event: d.Event, Endpoint: d.Endpoint, ID: newID[postrider.DeliveryID](w), Expiry: long,
		})
	}
	return c
}

// replayed stores the chunk, and returns the ids of its new deliveries.
func (w *world) replayed(c store.ReplayChunk) (ids []postrider.DeliveryID) {
	w.Helper()
	err := w.ReplayChunk(w.Context(), c)
	w.ok(err)
	for _, item := range c.Items {
		ids = append(ids, item.ID)
	}
	return ids
}

func putReplayJob(w *world) {
	e := w.endpoint()
	want := w.newJob(e, postrider.Dead, postrider.Skipped)
	want.Filter.Event, want.Filter.Reason = newID[postrider.EventID](w), postrider.ReasonExhausted
	want.Filter.EventTypes = []postrider.Pattern{"order.*"}
	want.Filter.From, want.Filter.To = e.CreatedAt, e.CreatedAt.Add(time.Hour)
	want.Expected = postrider.ReplayCount{Matches: 7, Exact: true}
	w.ok(w.PutReplayJob(w.Context(), want))
	w.ok(w.PutReplayJob(w.Context(), want))
	want.Status = postrider.ReplayRunning
	got := w.readJob(want.ID)
	w.same("the job", got, want)
	claimed, _ := w.claimJob(long)
	w.same("the claimed job", claimed, got)
}

func replayJobsListed(w *world) {
	e, other := w.endpoint(), w.endpoint()
	first, second, foreign := w.newJob(e, postrider.Dead), w.newJob(e, postrider.Dead), w.newJob(other, postrider.Dead)
	for _, job := range []postrider.ReplayJob{first, second, foreign} {
		w.ok(w.PutReplayJob(w.Context(), job))
	}
	w.ok(w.SetReplayJob(w.Context(), store.SetReplayJob{ID: first.ID, Status: postrider.ReplayPaused}))
	ids := func(q store.ReplayJobQuery) (ids []postrider.ReplayID) {
		page, err := w.ReplayJobs(w.Context(), q)
		w.ok(err)
		for _, job := range page.Items {
			ids = append(ids, job.ID)
		}
		return ids
	}
	w.same("all", ids(store.ReplayJobQuery{}), []postrider.ReplayID{foreign.ID, second.ID, first.ID})
	w.same("of the account", ids(store.ReplayJobQuery{Account: e.Account}), []postrider.ReplayID{second.ID, first.ID})
	w.same("paused", ids(store.ReplayJobQuery{Status: postrider.ReplayPaused}), []postrider.ReplayID{first.ID})
	w.same("another account's", ids(store.ReplayJobQuery{ID: foreign.ID, Account: e.Account}), []postrider.ReplayID(nil))
	page, err := w.ReplayJobs(w.Context(), store.ReplayJobQuery{Paging: store.Paging{Limit: 2}})
	w.ok(err)
	w.same("the second page", ids(store.ReplayJobQuery{Paging: store.Paging{Cursor: page.Next}}), []postrider.ReplayID{first.ID})
}

func replayJobsMade(w *world) {
	e := w.endpoint()
	job, token := w.runningJob(w.newJob(e, postrider.Dead))
	made := w.replayed(w.chunkOf(job, token, w.deadLetters(e, 6)...))
	c := w.claim(e, postrider.LaneBulk, 5)
	w.settle(delivered(c[0]), delivered(c[1]), dead(c[2]), retry(c[3], long))
	w.cancel(made[5])
	got := w.readJob(job.ID)
	w.same("Made", got.Made, postrider.ReplayTally{Pending: 2, Delivered: 2, Dead: 1, Cancelled: 1})
	w.same("Handled", got.Handled, 6)
	for status, n := range map[postrider.Status]int{
		postrider.Pending: 2, postrider.Delivered: 2, postrider.Dead: 1, postrider.Cancelled: 1,
		"": 6,
	} {
		page, err := w.Deliveries(w.Context(), store.DeliveryQuery{ReplayJob: job.ID, Status: status})
		w.ok(err)
		if len(page.Items) != n {
			w.Errorf("the job has %d deliveries with the status %q, want %d", len(page.Items), status, n)
		}
		for _, d := range page.Items {
			w.same("the job of its delivery", d.ReplayJob, job.ID)
		}
	}
	page, err := w.ReplayJobs(w.Context(), store.ReplayJobQuery{})
	w.ok(err)
	w.same("Made in a list", page.Items[0].Made, postrider.ReplayTally{})
}

func (w *world) setJob(id postrider.ReplayID, status postrider.ReplayStatus) {
	w.Helper()
	w.ok(w.SetReplayJob(w.Context(), store.SetReplayJob{ID: id, Status: status}))
}

// noJob fails the test if a replay job can be claimed.
func (w *world) noJob() {
	w.Helper()
	jobs, err := w.ClaimReplayJobs(w.Context(), store.ClaimReplayJobs{Max: 10, Token: w.token(), Lease: long})
	w.ok(err)
	if len(jobs) != 0 {
		w.Errorf("claimed %d replay jobs, want none", len(jobs))
	}
}

func setReplayJobPaused(w *world) {
	job := w.newJob(w.endpoint(), postrider.Dead)
	w.ok(w.PutReplayJob(w.Context(), job))
	w.setJob(job.ID, postrider.ReplayPaused)
	w.noJob()
	w.setJob(job.ID, postrider.ReplayRunning)
	w.claimJob(long)
}

func setReplayJobCancelled(w *world) {
	e := w.endpoint()
	job, token := w.runningJob(w.newJob(e, postrider.Dead))
	made := w.replayed(w.chunkOf(job, token, w.deadLetters(e, 1)...))
	w.setJob(job.ID, postrider.ReplayCancelled)
	w.noJob()
	got := w.readJob(job.ID)
	w.near("when it ended", got.EndedAt.Sub(w.now()), 0)
	w.same("the delivery that it made", w.claimOne(e, postrider.LaneBulk).ID, made[0])
}

func setReplayJobFences(w *world) {
	e := w.endpoint()
	job, token := w.runningJob(w.newJob(e, postrider.Dead))
	c := w.chunkOf(job, token, w.deadLetters(e, 1)...)
	w.setJob(job.ID, postrider.ReplayPaused)
	err := w.ReplayChunk(w.Context(), c)
	w.refuses(err, postrider.ErrFenced)
	w.setJob(job.ID, postrider.ReplayRunning)
	err = w.ReplayChunk(w.Context(), c)
	w.refuses(err, postrider.ErrFenced)
	w.same("what the fenced chunk made", w.readJob(job.ID).Handled, 0)
}

func setReplayJobEnded(w *world) {
	job := w.newJob(w.endpoint(), postrider.Dead)
	w.ok(w.PutReplayJob(w.Context(), job))
	w.setJob(job.ID, postrider.ReplayCancelled)
	ended := w.readJob(job.ID)
	w.setJob(job.ID, postrider.ReplayCancelled)
	w.refuses(w.SetReplayJob(w.Context(), store.SetReplayJob{ID: job.ID, Status: postrider.ReplayRunning}), postrider.ErrConflict)
	w.same("the job", w.readJob(job.ID), ended)
}

func setReplayJobNotFound(w *world) {
	job := w.newJob(w.endpoint(), postrider.Dead)
	w.refuses(w.SetReplayJob(w.Context(), store.SetReplayJob{ID: job.ID, Status: postrider.ReplayPaused}), postrider.ErrNotFound)
	w.ok(w.PutReplayJob(w.Context(), job))
	w.refuses(w.SetReplayJob(w.Context(), store.SetReplayJob{
		ID: job.ID, Account: w.account(), Status: postrider.ReplayPaused,
	}), postrider.ErrNotFound)
}

func claimReplayJobsLeased(w *world) {
	e := w.endpoint()
	var put, claimed []postrider.ReplayID
	for range 3 {
		job := w.newJob(e, postrider.Dead)
		w.ok(w.PutReplayJob(w.Context(), job))
		put = append(put, job.ID)
	}
	back := w.chunkOf(w.claimJob(long))
	back.Lease = 0
	w.replayed(back)
	for range 3 {
		job, _ := w.claimJob(long)
		claimed = append(claimed, job.ID)
	}
	w.same("the claims after the first job was given back", claimed, []postrider.ReplayID{put[1], put[2], put[0]})
	w.noJob()
}

func claimReplayJobsAgain(w *world) {
	e := w.endpoint()
	matches := w.deadLetters(e, 2)
	w.ok(w.PutReplayJob(w.Context(), w.newJob(e, postrider.Dead)))
	job, token := w.claimJob(brief)
	first := w.chunkOf(job, token, matches[0])
	first.Lease = brief
	w.replayed(first)
	w.eventually("the lease ends", func() bool {
		token = w.token()
		jobs, err := w.ClaimReplayJobs(w.Context(), store.ClaimReplayJobs{Max: 1, Token: token, Lease: long})
		w.ok(err)
		if len(jobs) == 1 {
			job = jobs[0]
		}
		return len(jobs) == 1
	})
	w.same("the cursor", job.Cursor, matches[0])
	back := w.chunkOf(job, token)
	back.Lease = 0
	w.replayed(back)
	w.claimJob(long)
}

func replaysPending(w *world) {
	a, b := w.endpoint(), w.endpoint()
	job := w.newJob(a, postrider.Dead)
	job.Filter = postrider.ReplayFilter{Statuses: job.Filter.Statuses}
	matches := append(w.deadLetters(a, 3), w.deadLetters(b, 2)...)
	job, token := w.runningJob(job)
	c := w.chunkOf(job, token, matches...)
	c.To.Held = map[postrider.EndpointID]postrider.DeliveryID{b.ID: matches[3], a.ID: matches[0]}
	w.replayed(c)
	w.settle(delivered(w.claim(a, postrider.LaneBulk, 1)[0]))
	pending, err := w.ReplaysPending(w.Context(), job.ID)
	w.ok(err)
	w.same("pending", pending, map[postrider.EndpointID]int{a.ID: 2, b.ID: 2})
	w.same("the position", w.readJob(job.ID).ReplayPosition, c.To)
	pending, err = w.ReplaysPending(w.Context(), newID[postrider.ReplayID](w))
	w.ok(err)
	w.same("pending of another job", pending, map[postrider.EndpointID]int{})
}

func replayChunkMakes(w *world) {
	e := w.endpoint()
	matches := w.deadLetters(e, 2)
	job, token := w.runningJob(w.newJob(e, postrider.Dead))
	c := w.chunkOf(job, token, matches...)
	made := w.replayed(c)
	claimed := w.claim(e, postrider.LaneBulk, 10)
	w.same("the claimed deliveries", deliveryIDs(claimed, claimedID), made)
	for i, item := range claimed {
		if item.ReplayedFrom != matches[i] || item.ReplayJob != job.ID || item.Event.Data == nil {
			w.Errorf("claimed %+v, want a replay of %s by %s", item, matches[i], job.ID)
		}
		w.near("the expiry", item.ExpiresAt.Sub(w.now()), long)
		if l := w.letter(matches[i]); l.Resolution != postrider.Replayed || l.Replay != made[i] || l.ResolvedBy != "support" {
			w.Errorf("the dead letter is %+v, want replayed by the job's name", l)
		}
	}
	w.same("the cursor", w.readJob(job.ID).Cursor, matches[1])
	w.settle(dead(claimed[0]))
	w.same("the job of a replay that died", w.delivery(made[0]).ReplayJob, job.ID)
}

func replayChunkFenced(w *world) {
	e := w.endpoint()
	matches := w.deadLetters(e, 2)
	job, token := w.runningJob(w.newJob(e, postrider.Dead))
	right := w.chunkOf(job, token, matches[0])
	wrongToken, wrongCursor, wrongHeld := right, right, right
	wrongToken.Token, wrongCursor.From.Cursor = w.token(), matches[0]
	wrongHeld.From.Held = map[postrider.EndpointID]postrider.DeliveryID{e.ID: matches[0]}
	for _, c := range []store.ReplayChunk{wrongToken, wrongCursor, wrongHeld} {
		err := w.ReplayChunk(w.Context(), c)
		w.refuses(err, postrider.ErrFenced)
	}
	w.same("what they made", w.claim(e, postrider.LaneBulk, 10), []postrider.Claimed(nil))
	w.replayed(right)
	err := w.ReplayChunk(w.Context(), right)
	w.refuses(err, postrider.ErrFenced)
	w.same("what a repeat made", len(w.claim(e, postrider.LaneBulk, 10)), 1)
}

func replayChunkInParallel(w *world) {
	e := w.endpoint()
	matches := w.deadLetters(e, 20)
	job, token := w.runningJob(w.newJob(e, postrider.Dead))
	var stored atomic.Int32
	var workers sync.WaitGroup
	for range 8 {
		c := w.chunkOf(job, token, matches...)
		workers.Go(func() {
			switch err := w.ReplayChunk(w.Context(), c); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, postrider.ErrFenced):
				w.Errorf("ReplayChunk = %v, want nil or ErrFenced", err)
			}
		})
	}
	workers.Wait()
	if n := len(w.claim(e, postrider.LaneBulk, 100)); n != 20 || stored.Load() != 1 {
		w.Errorf("%d chunks were stored and %d deliveries made, want 1 and 20", stored.Load(), n)
	}
}

func replayChunkEnds(w *world) {
	e := w.endpoint()
	job, token := w.runningJob(w.newJob(e, postrider.Dead))
	last := w.chunkOf(job, token, w.deadLetters(e, 1)...)
	last.End, last.Notices = postrider.ReplayDone, []postrider.Notice{w.newNotice()}
	w.replayed(last)
	got := w.readJob(job.ID)
	w.same("Status", got.Status, postrider.ReplayDone)
	w.near("EndedAt", got.EndedAt.Sub(w.now()), 0)
	w.noJob()
	late := w.chunkOf(got, token)
	late.Notices = []postrider.Notice{w.newNotice()}
	w.refuses(w.ReplayChunk(w.Context(), late), postrider.ErrFenced)
	w.same("the notices", w.notices(store.NoticeQuery{}), last.Notices)

	job, token = w.runningJob(w.newJob(e, postrider.Dead))
	failed := w.chunkOf(job, token)
	failed.End, failed.Error = postrider.ReplayFailed, "an error"
	w.replayed(failed)
	if got := w.readJob(job.ID); got.Status != postrider.ReplayFailed || got.Error != "an error" {
		w.Errorf("the job is %+v, want failed with its error", got)
	}
}

func replayChunkSkips(w *world) {
	e, deleted := w.endpoint(), w.endpoint()
	matches := w.deadLetters(e, 4)
	matches = append(matches, w.deadLetters(deleted, 1)...)
	gone := newID[postrider.DeliveryID](w)
	job := w.newJob(e, postrider.Dead)
	job.Filter = postrider.ReplayFilter{Statuses: job.Filter.Statuses}
	job, token := w.runningJob(job)
	c := w.chunkOf(job, token, matches...)
	c.Items = append(c.Items, store.ReplayItem{
		Match: gone, Event: newID[postrider.EventID](w), Endpoint: e.ID, ID: newID[postrider.DeliveryID](w), Expiry: long,
	})
	w.replay(matches[1])
	_, err := w.Discard(w.Context(), store.Discard{Delivery: matches[2], By: "someone"})
	w.ok(err)
	ended := w.replay(matches[3])
	w.cancel(ended.ID)
	w.become(deleted, postrider.EndpointDeleted)
	w.replayed(c)
	got := w.readJob(job.ID)
	w.same("Skipped", got.Skipped, postrider.ReplaySkips{BytesGone: 1, ReplayPending: 1, EndpointDeleted: 1, Resolved: 2})
	w.same("Handled", got.Handled, 1)
	w.same("the one delivery", w.delivery(c.Items[0].ID).Status, postrider.Pending)
	w.same("who discarded", w.letter(matches[2]).ResolvedBy, "someone")
}

func replayChunkDiscards(w *world) {
	e := w.endpoint()
	matches := w.deadLetters(e, 3)
	job := w.newJob(e, postrider.Dead)
	job.Action = postrider.ActionDiscard
	job, token := w.runningJob(job)
	c := w.chunkOf(job, token, matches...)
	w.replay(matches[2])
	w.replayed(c)
	for _, id := range matches[:2] {
		if l := w.letter(id); l.Resolution != postrider.Discarded || l.ResolvedBy != "support" || l.Note != "mended" {
			w.Errorf("the dead letter is %+v, want discarded", l)
		}
	}
	got := w.readJob(job.ID)
	w.same("Handled and Skipped", []int{got.Handled, got.Skipped.ReplayPending}, []int{2, 1})
	w.same("Made", got.Made, postrider.ReplayTally{})
}

// orderedChunk returns a chunk of a new job with ordered matches.
func (w *world) orderedChunk(e postrider.Endpoint, matches ...postrider.DeliveryID) store.ReplayChunk {
	w.Helper()
	job, token := w.runningJob(w.newJob(e, postrider.Dead, postrider.Cancelled))
	c := w.chunkOf(job, token, matches...)
	for i := range c.Items {
		c.Items[i].Ordered = postrider.PauseOnDead
	}
	return c
}

// cancelledLine publishes n ordered deliveries of one key, and cancels them.
func (w *world) cancelledLine(n int) (e postrider.Endpoint, ids []postrider.DeliveryID) {
	w.Helper()
	e = w.endpoint()
	ids = w.publishOrdered(e, "o", postrider.PauseOnDead, n)
	for _, id := range slices.Backward(ids) {
		w.cancel(id)
	}
	return e, ids
}

func replayChunkInSequence(w *world) {
	e, ids := w.cancelledLine(3)
	made := w.replayed(w.orderedChunk(e, ids...))
	later := w.publishOrdered(e, "o", postrider.PauseOnDead, 1)
	if got := w.delivery(made[1]).Waiting; got.Reason != postrider.WaitOrdering && got.Reason != postrider.WaitNoSecret {
		w.Errorf("the second waits for %+v, want the first of its key", got)
	}
	w.deliverInOrder(e, made[0], made[1], made[2], later[0])
}

func replayChunkBelowHead(w *world) {
	e, ids := w.cancelledLine(2)
	live := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)
	c := w.claimExactly(e, live[0])[0]
	made := w.replayed(w.orderedChunk(e, ids...))
	w.claimExactly(e)
	w.settle(retry(c, 0))
	again := w.claimExactly(e, live[0])[0]
	w.same("Settle of the head", w.settle(delivered(again)), []store.Settled{{Next: postrider.LaneBulk}})
	w.deliverInOrder(e, made[0], made[1], live[1])
}

func replayChunkBlockedCancelled(w *world) {
	e, ids := w.cancelledLine(2)
	live := w.publishOrdered(e, "o", postrider.PauseOnDead, 1)
	c := w.claimExactly(e, live[0])[0]
	made := w.replayed(w.orderedChunk(e, ids...))
	w.cancel(made[0])
	w.claimExactly(e)
	w.settle(dead(c)) // the head, so it pauses the key
	w.claimExactly(e)
	w.pausedBy(e, live[0])
	w.deliverInOrder(e, w.replay(live[0]).ID, made[1])
}

func replayChunkResumes(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.PauseOnDead, 3)
	w.settle(delivered(w.claimExactly(e, ids[0])[0]))
	w.settle(dead(w.claimExactly(e, ids[1])[0]))
	made := w.replayed(w.orderedChunk(e, ids[0], ids[1]))
	w.pausedBy(e, postrider.DeliveryID{})
	w.deliverInOrder(e, made[0], made[1], ids[2])
}

func replayChunkStaysPaused(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)
	w.settle(delivered(w.claimExactly(e, ids[0])[0]))
	w.settle(dead(w.claimExactly(e, ids[1])[0]))
	made := w.replayed(w.orderedChunk(e, ids[0]))
	w.claimExactly(e)
	w.pausedBy(e, ids[1])
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ids[1], By: "support"})
	w.ok(err)
	w.deliverInOrder(e, made[0])
}

func replayChunkDiscardResumes(w *world) {
	e, ids := w.paused(2)
	job := w.newJob(e, postrider.Dead)
	job.Action = postrider.ActionDiscard
	job, token := w.runningJob(job)
	w.replayed(w.chunkOf(job, token, ids[0]))
	w.deliverInOrder(e, ids[1])
}

func replayChunkPauses(w *world) {
	e, ids := w.cancelledLine(2)
	made := w.replayed(w.orderedChunk(e, ids...))
	w.settle(dead(w.claimExactly(e, made[0])[0]))
	w.claimExactly(e)
	w.pausedBy(e, made[0])
}
