package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/store"
)

// percent is how much of a disk is in use. Tests set it.
type percent struct{ atomic.Int64 }

func (p *percent) used() postrider.DiskUse { return postrider.DiskUse(p.Load()) / 100 }

// failingNotices is a store in which the first notices cannot be written.
type failingNotices struct {
	store.Store

	left atomic.Int64
}

func (f *failingNotices) PutNotices(ctx context.Context, notices []postrider.Notice) ([]postrider.Notice, error) {
	if f.left.Add(-1) >= 0 {
		return nil, errors.New("nothing can be written")
	}
	return f.Store.PutNotices(ctx, notices)
}

func TestOperatorsAreToldOnceOfEachTimeThatTheDiskFills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		failing := &failingNotices{Store: w.Store}
		failing.left.Store(3)
		disk := &percent{}
		opts := janitor.Options{Disk: janitor.Disk{Folder: "/var/lib/postrider", Used: disk.used}}
		for _, used := range []int64{0, 50, 91, 93, 91, 96, 94, 97, 90, 80, 97, 60} {
			disk.Store(used)
			w.run(1, 5*time.Minute, failing, opts) // each is another start of the server
		}
		w.same("the notices", w.notified(store.NoticeQuery{Object: "/var/lib/postrider"}), []string{
			"10m0s disk.filling ", "25m0s disk.full ", "45m0s disk.recovered ", "50m0s disk.full ", "55m0s disk.recovered ",
		})
		page, err := w.Notices(t.Context(), store.NoticeQuery{Kind: postrider.NoticeDiskFilling})
		w.ok(err)
		if n := page.Items[0]; !n.Account.IsZero() || n.Details["used_percent"] != "91.0" {
			t.Errorf("the notice is %+v", n)
		}
	})
}

func TestADiskThatCannotBeSeenHasNoNotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.run(1, time.Hour, w, janitor.Options{})
		w.same("the notices", w.notified(store.NoticeQuery{}), []string(nil))
	})
}

// TestAUsedQuotaHasANoticeADay has two nodes refuse the requests of two accounts for two days.
func TestAUsedQuotaHasANoticeADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		failing := &failingNotices{Store: w.Store}
		failing.left.Store(2)
		other := store.NewID[postrider.AccountID](w.ids)
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour-time.Second)
		defer cancel()
		var nodes sync.WaitGroup
		for range 2 {
			j := janitor.New(of(failing), janitor.Options{})
			nodes.Go(func() {
				if err := j.Run(ctx); err != nil {
					w.Errorf("Run = %v", err)
				}
			})
			nodes.Go(func() {
				for ctx.Err() == nil {
					for _, account := range []postrider.AccountID{w.account, other} {
						j.QuotaUsed(&postrider.QuotaError{Account: account, Quota: postrider.QuotaEvents, Limit: 10})
					}
					j.QuotaUsed(&postrider.QuotaError{Account: other, Quota: postrider.QuotaEndpoints, Limit: 3})
					time.Sleep(time.Second)
				}
			})
		}
		nodes.Wait()
		page, err := w.Notices(t.Context(), store.NoticeQuery{Paging: store.Paging{OldestFirst: true}})
		w.ok(err)
		got := map[string]int{}
		for _, n := range page.Items {
			late := n.CreatedAt.Sub(w.start) % (24 * time.Hour)
			if late > time.Minute || n.Object != n.Account.String() || n.Kind != postrider.NoticeQuota {
				t.Errorf("%v after the start of its day the notice is %+v", late, n)
			}
			got[fmt.Sprintf("%t %s %s", n.Account == other, n.Details["quota"], n.Details["limit"])]++
		}
		w.same("the notices", got, map[string]int{"false events_per_second 10": 2, "true events_per_second 10": 2, "true endpoints 3": 2})
	})
}
