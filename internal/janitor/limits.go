package janitor

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// usedQuotas has the quotas that have caused a refusal. A refused publish only adds its quota here, in
// memory, because it must not wait. Later a chore writes the notice.
type usedQuotas struct {
	mu      sync.Mutex
	day     time.Time // the day of noted, in UTC
	noted   map[usedQuota]struct{}
	waiting []postrider.Notice // not stored yet; note adds, take removes
}

// usedQuota names a quota of an account.
type usedQuota struct {
	account postrider.AccountID
	quota   postrider.QuotaName
}

// QuotaUsed notes in memory that a request was refused because of a quota. Only the first refusal
// of a day (UTC), for an account and quota, does more than take a lock. A chore writes the notice
// within watchEvery.
func (j *Janitor) QuotaUsed(e *postrider.QuotaError) {
	j.quotas.note(e, time.Now().UTC())
}

func (q *usedQuotas) note(e *postrider.QuotaError, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if day := now.Truncate(daily); !day.Equal(q.day) {
		q.day, q.noted = day, map[usedQuota]struct{}{}
	}
	used := usedQuota{e.Account, e.Quota}
	if _, known := q.noted[used]; known {
		return
	}
	q.noted[used] = struct{}{}
	q.waiting = append(q.waiting, e.Notice(now))
}

// take removes up to n waiting notices, the oldest first, and returns them.
func (q *usedQuotas) take(n int) []postrider.Notice {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.waiting))
	taken := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return taken
}

// giveBack puts notices back in front of the waiting ones.
func (q *usedQuotas) giveBack(notices []postrider.Notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(notices, q.waiting...)
}

// tellOfQuotas stores the notices of used quotas. The store skips a notice that exists already,
// because another node wrote it, or this node before a restart.
func (j *Janitor) tellOfQuotas(ctx context.Context) (did chunk, err error) {
	notices := j.quotas.take(j.opts.Chunk)
	if len(notices) == 0 {
		return did, nil
	}
	if err := j.tell(ctx, notices...); err != nil {
		j.quotas.giveBack(notices)
		return did, err
	}
	return chunk{rows: len(notices), more: len(notices) == j.opts.Chunk}, nil
}

// Disk is the disk of the store.
type Disk struct {
	Folder string                   // of the store; shown to people
	Used   func() postrider.DiskUse // nil: the use of the disk is unknown
}

// watchEvery is the time between two rounds of the chores of this file. A round without a notice
// costs nothing.
const watchEvery = 10 * time.Second

// ofDisk returns the chore that watches the disk; none if the use of the disk is unknown.
func (j *Janitor) ofDisk() []chore {
	if j.opts.Disk.Used == nil {
		return nil
	}
	return []chore{{name: "notice full disk", do: (&diskWatcher{Janitor: j}).chunk, wait: watchEvery}}
}

// diskWatcher is the chore that tells operators that the disk fills, and that it has recovered.
type diskWatcher struct {
	*Janitor

	known bool
	last  postrider.Notice // about the disk; valid if known; zero: the store has none
}

// chunk writes a notice if the state of the disk changed. It reads the last notice from the
// store, so that no notice is repeated after a restart, or after a write whose result is unknown.
func (w *diskWatcher) chunk(ctx context.Context) (did chunk, err error) {
	if !w.known {
		page, err := w.store.Notices(ctx, store.NoticeQuery{Object: w.opts.Disk.Folder, Paging: store.Paging{Limit: 1}})
		if err != nil {
			return did, err
		}
		if len(page.Items) > 0 {
			w.last = page.Items[0]
		}
		w.known = true
	}
	n, is := w.opts.Disk.Used().Notice(w.opts.Disk.Folder, w.last, time.Now())
	if !is {
		return did, nil
	}
	w.known = false
	if err := w.tell(ctx, n); err != nil {
		return did, err
	}
	w.known, w.last = true, n
	return chunk{rows: 1}, nil
}
