package janitor

import (
	"cmp"
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Keep says how long each kind of rows is kept. A zero field stands for its default.
type Keep struct {
	Events      time.Duration // with their data, and the records of outbox rows; default 30 days. An event that is still needed stays
	Attempts    time.Duration // from the creation of their delivery; default 90 days
	Bodies      time.Duration // heads and bodies of attempts, from the creation of their delivery; default 30 days
	Keys        time.Duration // idempotency keys; default 7 days
	DeadLetters time.Duration // unresolved ones, from the creation of their delivery until the janitor discards them; default 180 days
	Resolved    time.Duration // dead letters, from their resolution; default 90 days
	Replays     time.Duration // replay jobs, from their end; default 90 days
	Health      time.Duration // changes of an endpoint's health, except the last change; default 400 days
	Audit       time.Duration // entries of the audit log; default 400 days
	Restored    time.Duration // records that were copied back from the archive; default 30 days
	Notices     time.Duration // of what the janitor and others told people; default 90 days
}

func (k Keep) withDefaults() Keep {
	const day = 24 * time.Hour
	k.Events = cmp.Or(k.Events, 30*day)
	k.Attempts = cmp.Or(k.Attempts, 90*day)
	k.Bodies = cmp.Or(k.Bodies, 30*day)
	k.Keys = cmp.Or(k.Keys, 7*day)
	k.DeadLetters = cmp.Or(k.DeadLetters, 180*day)
	k.Resolved = cmp.Or(k.Resolved, 90*day)
	k.Replays = cmp.Or(k.Replays, 90*day)
	k.Health = cmp.Or(k.Health, 400*day)
	k.Audit = cmp.Or(k.Audit, 400*day)
	k.Restored = cmp.Or(k.Restored, 30*day)
	k.Notices = cmp.Or(k.Notices, 90*day)
	return k
}

// retention returns the chores that delete old rows. They wait for an hour between two rounds,
// because most rounds find nothing: a day of rows becomes old once a day.
func (j *Janitor) retention() []chore {
	const wait = time.Hour
	keep := j.opts.Keep
	chores := []chore{
		{name: "discard dead letters", do: (&discarder{reminder: reminder{Janitor: j, period: daily}}).chunk, wait: wait},
		{name: "forget ordering keys", do: (&keyForgetter{Janitor: j}).chunk, wait: daily},
		{name: "shrink the file", wait: wait, do: j.counted(func(ctx context.Context) (int, error) {
			return j.store.Shrink(ctx, j.opts.Chunk)
		})},
	}
	for _, k := range []aged{
		{store.OldDeadLetters, keep.Resolved},
		{store.OldReplayJobs, max(keep.Replays, keep.Events)}, // a backfill must know whether there were others: see Undelivered
		{store.OldHealth, keep.Health},
		{store.OldSubscriptions, keep.Events},
		{store.OldAudit, keep.Audit},
		{store.OldNotices, keep.Notices},
		{store.OldSessions, store.SessionsKept},
	} {
		chores = append(chores, j.forget(k, false, wait))
	}
	chores = append(chores, j.forgetOfAccounts(), j.forget(aged{store.OldWhatIfs, store.WhatIfsKept}, false, 0))
	for _, k := range []aged{{store.OldEvents, keep.Events}, {store.OldAttempts, keep.Attempts}, {store.OldBodies, keep.Bodies}} {
		chores = append(chores, j.forget(k, j.opts.Archive != nil, wait))
	}
	return append(chores,
		j.forgetBefore("restored records", keep.Restored, j.store.ForgetRestored), j.forgetBefore("outbox rows", keep.Events, j.store.ForgetRows))
}

// forgetBefore returns the chore that calls forget for what is older than keep.
func (j *Janitor) forgetBefore(what string, keep time.Duration, forget func(context.Context, time.Time, int) (int, error)) chore {
	return chore{name: "forget " + what, wait: time.Hour, do: j.counted(func(ctx context.Context) (int, error) {
		now, err := j.store.Now(ctx)
		if err != nil {
			return 0, err
		}
		return forget(ctx, now.Add(-keep), j.opts.Chunk)
	})}
}

// aged is a kind of rows, and the age from which its rows are old.
type aged struct {
	kind store.Kind
	age  time.Duration
}

// forget returns the chore that deletes old rows. If archived is true, it archives the rows first
// and then deletes only rows that are in the archive, including those that another node archived.
// A round first archives all old rows, and then deletes. If it asked before each chunk whether
// the day is archived, the store would count the rows of the day each time.
func (j *Janitor) forget(k aged, archived bool, wait time.Duration) chore {
	name := "forget " + string(k.kind)
	if archived {
		name = "archive " + string(k.kind)
	}
	complete := !archived // in this round, no old rows are left to archive
	return chore{name: name, wait: wait, do: func(ctx context.Context) (chunk, error) {
		now, err := j.store.Now(ctx)
		if err != nil {
			return chunk{}, err
		}
		before := now.Add(-k.age)
		if !complete {
			if more, err := j.opts.Archive.Archive(ctx, k.kind, before); err != nil || more {
				return chunk{more: more}, err
			}
		}
		n, err := j.store.DeleteOld(ctx, store.DeleteOld{Kind: k.kind, Before: before, Limit: j.opts.Chunk, Archived: archived})
		more := n >= j.opts.Chunk
		complete = !archived || more && err == nil
		return chunk{rows: n, more: more}, err
	}}
}

// discarder is the chore that discards dead letters that nobody has resolved for
// Keep.DeadLetters. Then the next deliveries of their ordering keys become due, and their events
// may be deleted.
type discarder struct {
	reminder

	cursor string // of the next page; empty: the round begins
}

// discardedBy and discardedNote are the person and the note of a dead letter that discarder
// discards.
const (
	discardedBy   = "retention"
	discardedNote = "nobody replayed or discarded it in time"
)

// chunk discards the dead letters of the next page. If a person has resolved a dead letter
// meanwhile, chunk does not change it.
func (d *discarder) chunk(ctx context.Context) (c chunk, err error) {
	now, err := d.store.Now(ctx)
	if err != nil {
		return chunk{}, err
	}
	before := now.Add(-d.opts.Keep.DeadLetters)
	page, err := d.store.DeadLetters(ctx, store.DeadLetterQuery{
		Span:   store.Span{To: before},
		Paging: store.Paging{Cursor: d.cursor, Limit: d.opts.Chunk, OldestFirst: true},
	})
	if err != nil {
		return chunk{}, err
	}
	for _, letter := range page.Items {
		err := d.tell(ctx, postrider.Notice{ // before the discard, so that people get a notice of every discard
			Account: letter.Account, Kind: postrider.NoticeExpired, Object: letter.Endpoint.String(),
			Details: map[string]string{"created_before": before.UTC().Format(time.RFC3339)},
		}, now)
		if err != nil {
			return c, err
		}
		_, err = d.store.Discard(ctx, store.Discard{Delivery: letter.Delivery, By: discardedBy, Note: discardedNote})
		if err != nil && !overtaken(err) {
			return c, err
		}
		if err == nil {
			c.rows++
		}
	}
	if c.rows > 0 {
		d.opts.Log.WarnContext(ctx, "dead letters discarded: nobody resolved them in time",
			"discarded", c.rows, "first", page.Items[0].Delivery.String())
	}
	d.cursor = page.Next
	c.more = page.Next != ""
	return c, nil
}

// keyForgetter is the chore that deletes ordering keys without events.
type keyForgetter struct {
	*Janitor

	after store.OrderingKey // the last key that was examined; zero: the round begins
}

func (k *keyForgetter) chunk(ctx context.Context) (chunk, error) {
	last, err := k.store.ForgetOrderingKeys(ctx, k.after, k.opts.Chunk)
	if err != nil {
		return chunk{}, err
	}
	k.after = last
	return chunk{more: last != (store.OrderingKey{})}, nil
}
