package janitor

import (
	"context"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// usedQuotas are the quotas because of which requests were refused. Callers note them on the
// way of a publish, so they are kept in memory until a chore tells people of them.
type usedQuotas struct {
	mu      sync.Mutex
	day     time.Time // UTC; of noted
	noted   map[usedQuota]struct{}
	waiting []postrider.Notice // that are not stored yet
}

// usedQuota is a quota of an account.
type usedQuota struct {
	account postrider.AccountID
	quota   postrider.QuotaName
}

// QuotaUsed notes that a request was refused because of a quota. Only the first one of an
// account and a quota on a day (UTC) does more than take a lock. It stores nothing: a chore
// writes the notice, within watchEvery.
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

// take removes up to n notices from those that wait, the oldest first.
func (q *usedQuotas) take(n int) []postrider.Notice {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.waiting))
	taken := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return taken
}

// giveBack has notices wait again.
func (q *usedQuotas) giveBack(notices []postrider.Notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(notices, q.waiting...)
}

// tellOfQuotas tells people of the quotas that were noted. Those that another node has told
// of, or this one before a restart, the store leaves out.
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
	Folder string                   // of the store, for people
	Used   func() postrider.DiskUse // nil: it cannot be seen
}

// watchEvery is the time between two rounds of the chores of this file, which cost nothing
// while there is nothing to tell.
const watchEvery = 10 * time.Second

// ofDisk returns the chore that watches the disk, if it can be seen.
func (j *Janitor) ofDisk() []chore {
	if j.opts.Disk.Used == nil {
		return nil
	}
	return []chore{{name: "notice full disk", do: (&diskWatcher{Janitor: j}).chunk, wait: watchEvery}}
}

// diskWatcher is the chore that tells operators of a disk that fills, and that has recovered.
type diskWatcher struct {
	*Janitor

	known bool
	last  postrider.Notice // about the disk, if known; zero: there was none
}

// chunk looks at the disk. The store has the last notice, so that a restart, and a write
// whose result is unknown, repeat none.
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
