package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Archive is the part of the archive that this package reads.
type Archive interface {
	// Parts lists parts by kind, day and number.
	Parts(ctx context.Context, q store.ArchiveParts) ([]store.ArchivePart, error)
	// Events calls yield with archived events for about five seconds, the oldest day first. The cursor of
	// its result goes on.
	Events(ctx context.Context, q store.ArchiveQuery, yield func(*postrider.Event)) (store.ArchiveFound, error)
}

// Comparer runs the jobs that compare archived events with changes of subscriptions. Make it with
// [NewComparer]. A job is a row of the store. Each step reads the archive for about five seconds, and
// stores what it has found. So any node shows the progress, and if a node dies, another one repeats its
// step when the lease has ended.
//
// A node works on one step at a time, because a step has a part of the archive in memory. Jobs take turns.
type Comparer struct {
	*rest.Shared

	Jobs    store.WhatIfs
	Archive Archive // nil: the server has none

	begun batch.Signal // set when a job is stored by this node
}

// NewComparer returns a comparer of archived events. A nil archive: no job can begin.
func NewComparer(shared *rest.Shared, jobs store.WhatIfs, archive Archive) *Comparer {
	return &Comparer{Shared: shared, Jobs: jobs, Archive: archive, begun: batch.NewSignal()}
}

const (
	// compareLease is how long a node holds a job. A step takes at most compareTime.
	compareLease, compareTime = 2 * time.Minute, time.Minute
	// comparePoll is the interval in which a node looks for jobs that other nodes have stored or left.
	comparePoll = 10 * time.Second
	// compareAgain is the wait after a step that failed. A job whose steps fail for compareTries has failed.
	compareAgain, compareTries = 10 * time.Second, 10 * time.Minute
)

var errCompareSlow = errors.New("the archive is too slow")

// Run works on jobs until ctx ends, and returns nil.
func (c *Comparer) Run(ctx context.Context) error {
	if c.Archive == nil {
		<-ctx.Done()
		return nil
	}
	for {
		begun := time.Now()
		worked, err := c.step(ctx)
		if ctx.Err() == nil && (worked || err != nil) {
			c.Hooks.ChoreDone.Call(observe.ChoreDone{Name: "compare archived events", Took: time.Since(begun), Err: err})
		}
		if ctx.Err() == nil && err != nil {
			c.Log.WarnContext(ctx, "archived events were not compared", "error", err)
		}
		wait := comparePoll
		if worked {
			wait = 0
		}
		if !batch.SleepOr(ctx, wait, c.begun) {
			return nil
		}
	}
}

// step makes one step of the job that is due for longest. It reports whether there was one.
func (c *Comparer) step(ctx context.Context) (worked bool, err error) {
	note := store.NoteWhatIf{Token: postrider.Token(1 + rand.Int64N(1<<62))}
	w, err := c.Jobs.ClaimWhatIf(ctx, note.Token, compareLease)
	if errors.Is(err, postrider.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	job, err := decodeComparison(w)
	if err != nil {
		return true, err
	}
	within, cancel := context.WithTimeoutCause(ctx, compareTime, errCompareSlow)
	defer cancel()
	if err = job.advance(within, c.Archive, w.Account); err != nil && ctx.Err() == nil {
		job.failed(err, c.Clock.Wall())
		note.Wait = compareAgain
	}
	note.Account, note.Ended = w.Account, job.View.Status != statusRunning
	var errNote error
	if note.Document, errNote = job.encode(); errNote == nil {
		errNote = c.Jobs.NoteWhatIf(context.WithoutCancel(ctx), note) // a server that stops gives the job back
	}
	if errors.Is(errNote, postrider.ErrFenced) { // the job is cancelled or expunged, or another node has it
		errNote = nil
	}
	return true, errors.Join(err, errNote)
}

// The status of a comparison.
const (
	statusRunning = "running"
	statusDone    = "done"
	statusFailed  = "failed"
)

// comparison is the document of a job.
type comparison struct {
	Present      string                 // the subscription of the endpoint when the job began, by store.EncodeSubscription
	Asked        apitypes.ArchiveWhatIf // how it would change, and which events are compared
	Cursor       string                 // of the archive
	FailingSince time.Time              // zero: the last step did not fail
	View         apitypes.ArchiveComparison
}

func decodeComparison(w store.WhatIf) (job comparison, err error) {
	if err = json.Unmarshal(w.Document, &job); err != nil {
		err = fmt.Errorf("decode what-if of account %s: %w", w.Account, err)
	}
	job.View.UpdatedAt = render.Instant(w.ChangedAt)
	return job, err
}

// encode returns the document. It does not escape what HTML would need, because conditions are counted by
// their text.
func (j *comparison) encode() ([]byte, error) {
	var document bytes.Buffer
	to := json.NewEncoder(&document)
	to.SetEscapeHTML(false)
	if err := to.Encode(j); err != nil {
		return nil, fmt.Errorf("encode what-if: %w", err)
	}
	return document.Bytes(), nil
}

// query returns which events of the archive the job reads next. It selects by days.
func (j *comparison) query() store.ArchiveQuery {
	return store.ArchiveQuery{Type: j.Asked.Type, From: timeOf(j.Asked.From), To: timeOf(j.Asked.To), Cursor: j.Cursor}
}

// advance compares the next events of the archive. After an error nothing has changed.
func (j *comparison) advance(ctx context.Context, archive Archive, account postrider.AccountID) error {
	stored, err := store.DecodeSubscription([]byte(j.Present))
	if err != nil {
		return err
	}
	operator := &postrider.Caller{}
	present, errPresent := subscriptionOf(stored, operator)
	wants, errWants := subscriptionOf(stored, operator)
	if err := errors.Join(errPresent, errWants, wants.change(j.Asked.Subscription)); err != nil {
		return err
	}
	t, q := tallyOf(&wants, j.View.Result), j.query()
	q.Account = account
	found, err := archive.Events(ctx, q, func(e *postrider.Event) {
		outside := e.CreatedAt.Before(q.From) || !q.To.IsZero() && !e.CreatedAt.Before(q.To)
		if !outside && !postrider.IsTest(e.ID) && len(e.Endpoints) == 0 {
			t.add(e, present.reasonOf(comparingOf(e)) == reason{})
		}
	})
	if err != nil {
		return err
	}
	v := &j.View
	v.Result, v.Error, v.PartsRead, v.RowsExpunged = t.view(), nil, v.PartsRead+found.Parts, v.RowsExpunged+found.Expunged
	v.Parts = max(v.Parts, v.PartsRead) // more may have been archived since the job began
	j.Cursor, j.FailingSince = found.Next, time.Time{}
	if found.Next == "" {
		v.Status = statusDone
	}
	return nil
}

// failed notes that a step has failed. A damaged archive, or one that cannot be read for long, ends the job.
func (j *comparison) failed(err error, now time.Time) {
	text := "the archive cannot be read now; the log of the server has the cause"
	damaged := errors.Is(err, store.ErrArchiveDamaged)
	if damaged {
		text = err.Error()
	}
	if j.FailingSince.IsZero() {
		j.FailingSince = now
	}
	j.View.Error = &text
	if damaged || now.Sub(j.FailingSince) >= compareTries {
		j.View.Status = statusFailed
	}
}
