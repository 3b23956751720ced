package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

var whatIfs = []verb{
	{"PutWhatIf", []sentence{
		{"the job runs, and its document comes back as it was", putWhatIf},
		{"it replaces the last job of the account if that has ended, and otherwise the error is ErrConflict", putWhatIfAgain},
	}},
	{"WhatIf", []sentence{
		{"an account without a job is ErrNotFound", func(w *world) {
			_, err := w.WhatIf(w.Context(), w.account())
			w.refuses(err, postrider.ErrNotFound)
		}},
	}},
	{"ClaimWhatIf", []sentence{
		{"it leases the job that has been due for longest, and none is ErrNotFound", claimWhatIf},
		{"a job is due again when its lease has ended, and its old worker is fenced", claimWhatIfAgain},
	}},
	{"NoteWhatIf", []sentence{
		{"the job has the new document and is due after the wait; repeated, it changes nothing", noteWhatIf},
		{"a job that has ended is not due", noteWhatIfEnded},
		{"with another token, or without a job, the error is ErrFenced", noteWhatIfFenced},
	}},
	{"DeleteWhatIf", []sentence{
		{"the job is gone, and without one the error is ErrNotFound", deleteWhatIf},
	}},
	{"DeleteOld of what-ifs", []sentence{
		{"jobs go whose last step ended before then, whether they run or have ended", forgetWhatIfs},
	}},
	{"ExpungeRows of what-ifs", []sentence{
		{"the job goes with its endpoint, with its account and with an event of the account, and others stay", expungeWhatIfs},
	}},
}

// compares stores a job of the endpoint.
func (w *world) compares(e postrider.Endpoint) store.WhatIf {
	w.Helper()
	job := store.WhatIf{Account: e.Account, Endpoint: e.ID, Document: fmt.Appendf(nil, `{"text": "<ü\u0000>", "of": %q}`, e.ID)}
	w.ok(w.PutWhatIf(w.Context(), job))
	job.Running = true
	return job
}

// compared returns the job of an account, without the time of its last step.
func (w *world) compared(account postrider.AccountID) store.WhatIf {
	w.Helper()
	job, err := w.WhatIf(w.Context(), account)
	w.ok(err)
	job.ChangedAt = time.Time{}
	return job
}

// claimCompared claims a job.
func (w *world) claimCompared(lease time.Duration) (store.WhatIf, postrider.Token) {
	w.Helper()
	token := w.token()
	job, err := w.ClaimWhatIf(w.Context(), token, lease)
	w.ok(err)
	job.ChangedAt = time.Time{}
	return job, token
}

// isCompared reports whether the account has a job.
func (w *world) isCompared(account postrider.AccountID) bool {
	w.Helper()
	_, err := w.WhatIf(w.Context(), account)
	if err != nil {
		w.refuses(err, postrider.ErrNotFound)
	}
	return err == nil
}

func putWhatIf(w *world) {
	before := w.stamp()
	job := w.compares(w.endpoint())
	got, err := w.WhatIf(w.Context(), job.Account)
	w.ok(err)
	w.same("it was stored now", got.ChangedAt.Before(before) || got.ChangedAt.After(w.stamp()), false)
	got.ChangedAt = time.Time{}
	w.same("the job", got, job)
}

func putWhatIfAgain(w *world) {
	e := w.endpoint()
	first := w.compares(e)
	second := store.WhatIf{Account: e.Account, Endpoint: newID[postrider.EndpointID](w), Document: []byte(`{}`)}
	w.refuses(w.PutWhatIf(w.Context(), second), postrider.ErrConflict)
	w.same("the running job", w.compared(e.Account), first)
	_, token := w.claimCompared(long)
	w.ok(w.NoteWhatIf(w.Context(), store.NoteWhatIf{Account: e.Account, Token: token, Document: first.Document, Ended: true}))
	w.ok(w.PutWhatIf(w.Context(), second))
	second.Running = true
	w.same("the new job", w.compared(e.Account), second)
	w.refuses(w.NoteWhatIf(w.Context(), store.NoteWhatIf{Account: e.Account, Token: token, Document: []byte(`{}`)}), postrider.ErrFenced)
}

func claimWhatIf(w *world) {
	_, err := w.ClaimWhatIf(w.Context(), w.token(), long)
	w.refuses(err, postrider.ErrNotFound)
	first := w.compares(w.endpoint())
	w.passed(time.Millisecond)
	second := w.compares(w.endpoint())
	for _, want := range []store.WhatIf{first, second} {
		got, _ := w.claimCompared(long)
		w.same("the job", got, want)
	}
	_, err = w.ClaimWhatIf(w.Context(), w.token(), long)
	w.refuses(err, postrider.ErrNotFound)
}

func claimWhatIfAgain(w *world) {
	job := w.compares(w.endpoint())
	_, old := w.claimCompared(brief)
	w.passed(brief)
	got, token := w.claimCompared(long)
	w.same("the job", got, job)
	note := store.NoteWhatIf{Account: job.Account, Token: old, Document: []byte(`{"old": true}`), Ended: true}
	w.refuses(w.NoteWhatIf(w.Context(), note), postrider.ErrFenced)
	w.same("the job", w.compared(job.Account), job)
	note.Token = token
	w.ok(w.NoteWhatIf(w.Context(), note))
}

func noteWhatIf(w *world) {
	job := w.compares(w.endpoint())
	_, token := w.claimCompared(long)
	job.Document = []byte(`{"step": 1}`)
	note := store.NoteWhatIf{Account: job.Account, Token: token, Document: job.Document, Wait: brief}
	for range 2 {
		w.ok(w.NoteWhatIf(w.Context(), note))
		w.same("the job", w.compared(job.Account), job)
	}
	w.passed(brief)
	got, _ := w.claimCompared(long)
	w.same("the claimed job", got, job)
}

func noteWhatIfEnded(w *world) {
	job := w.compares(w.endpoint())
	_, token := w.claimCompared(brief)
	w.ok(w.NoteWhatIf(w.Context(), store.NoteWhatIf{Account: job.Account, Token: token, Document: job.Document, Ended: true}))
	job.Running = false
	w.same("the job", w.compared(job.Account), job)
	w.passed(brief)
	_, err := w.ClaimWhatIf(w.Context(), w.token(), long)
	w.refuses(err, postrider.ErrNotFound)
}

func noteWhatIfFenced(w *world) {
	job := w.compares(w.endpoint())
	note := store.NoteWhatIf{Account: job.Account, Token: w.token(), Document: []byte(`{}`), Ended: true}
	w.refuses(w.NoteWhatIf(w.Context(), note), postrider.ErrFenced)
	w.same("the job", w.compared(job.Account), job)
	_, note.Token = w.claimCompared(long)
	w.ok(w.DeleteWhatIf(w.Context(), job.Account))
	w.refuses(w.NoteWhatIf(w.Context(), note), postrider.ErrFenced)
	w.same("there is a job", w.isCompared(job.Account), false)
}

func deleteWhatIf(w *world) {
	job, other := w.compares(w.endpoint()), w.compares(w.endpoint())
	w.ok(w.DeleteWhatIf(w.Context(), job.Account))
	w.refuses(w.DeleteWhatIf(w.Context(), job.Account), postrider.ErrNotFound)
	w.same("there is a job", w.isCompared(job.Account), false)
	w.same("the other job", w.compared(other.Account), other)
}

func forgetWhatIfs(w *world) {
	running, ended := w.compares(w.endpoint()), w.compares(w.endpoint())
	for range 2 {
		job, token := w.claimCompared(long)
		w.ok(w.NoteWhatIf(w.Context(), store.NoteWhatIf{
			Account: job.Account, Token: token, Document: job.Document, Ended: job.Account == ended.Account,
		}))
	}
	w.forget(store.OldWhatIfs, time.Hour)
	w.same("young jobs are there", w.isCompared(running.Account) && w.isCompared(ended.Account), true)
	w.forget(store.OldWhatIfs, -time.Minute)
	w.same("an old job is there", w.isCompared(running.Account) || w.isCompared(ended.Account), false)
}

func expungeWhatIfs(w *world) {
	ofEvent, ofEndpoint, ofAccount, other, beside := w.endpoint(), w.endpoint(), w.endpoint(), w.endpoint(), w.endpoint()
	for _, e := range []postrider.Endpoint{ofEvent, ofEndpoint, ofAccount, other, beside} {
		w.compares(e)
	}
	event, endpoint := w.newExpunge(ofEvent.Account), w.newExpunge(ofEndpoint.Account)
	event.Event, endpoint.Endpoint = w.ended(ofEvent).Event, ofEndpoint.ID
	another := w.newExpunge(beside.Account) // of an endpoint that the job is not about
	another.Endpoint = w.put(w.draft(beside.Account)).ID
	w.deleteEndpoint(ofEndpoint)
	w.deleteEndpoint(w.found(another.Endpoint))
	w.ok(w.DeleteAccount(w.Context(), ofAccount.Account))
	_, err := w.DeleteEndpoints(w.Context(), 100)
	w.ok(err)
	for _, x := range []postrider.Expunge{event, endpoint, w.newExpunge(ofAccount.Account)} {
		got := w.expunge(x, 100)
		w.same("there is a job", w.isCompared(x.Account), false)
		w.same("it counts", got.Removed.Other > 0, true)
	}
	w.expunge(another, 100)
	w.same("the jobs of others are there", w.isCompared(other.Account) && w.isCompared(beside.Account), true)
}

func (r *recorder) callWhatIfs(ctx context.Context) {
	v, id := sqlstore.New(r, nil), askedID
	r.verb = "PutWhatIf"
	doVerb(ctx, v.PutWhatIf, store.WhatIf{Account: id, Endpoint: id, Document: []byte(`{}`)})
	r.verb = "WhatIf"
	callVerb(ctx, v.WhatIf, postrider.AccountID(id))
	r.verb = "ClaimWhatIf"
	_, _ = v.ClaimWhatIf(ctx, 1, time.Second)
	r.verb = "NoteWhatIf"
	doVerb(ctx, v.NoteWhatIf, store.NoteWhatIf{Account: id, Token: 1, Document: []byte(`{}`)})
	r.verb = "DeleteWhatIf"
	doVerb(ctx, v.DeleteWhatIf, postrider.AccountID(id))
}
