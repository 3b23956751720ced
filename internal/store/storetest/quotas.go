package storetest

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var quotas = []verb{
	{"PutQuotas", []sentence{
		{"it replaces the quotas of an account", putQuotas},
		{"it raises the version of the subscriptions", putQuotasVersion},
		{"an account that does not exist, or is deleted, is ErrNotFound", putQuotasNotFound},
	}},
	{"Quotas", []sentence{
		{"it lists the quotas that were put, in the order of their versions", quotasListed},
		{"each filter selects", quotasFilters},
	}},
	{"SpendQuotas", []sentence{
		{"the events are the burst before the first call, and fall by what is spent, below 0 too", spendEvents},
		{"they grow by the rate up to the burst", spendGrows},
		{"what was returned is added", spendReturned},
		{"it returns what all nodes have used, in the same order", spendStates},
		{"parallel calls are all counted", spendInParallel},
	}},
	{"QuotaUse", []sentence{
		{"it returns what an account uses", quotaUsed},
		{"an account that used nothing has zeros, and the day's end", quotaUnused},
		{"endpoints that are deleted do not count", quotaEndpoints},
	}},
	{"EndpointBacklogs", []sentence{
		{"it counts the pending deliveries of each endpoint, leased ones too", backlogsCount},
		{"it counts those that wait for their ordering key, and those whose key is paused", backlogsOrdered},
		{"the Limit is the account's own or else the default, and Waiting stops at it", backlogsLimits},
		{"where no account has a limit, endpoints that are not marked are left out", backlogsUnlimited},
		{"it returns at most Max after After, and none if there are no more", backlogsPages},
		{"it ends with the endpoint at which Count deliveries are counted", backlogsBounded},
		{"a deleted endpoint has nothing but its id, and is left out where nothing waits for it", backlogsDeleted},
	}},
	{"MarkFull", []sentence{
		{"it marks endpoints as full, and takes the mark from others", markFull},
		{"each gets a version of the subscriptions", markFullVersions},
		{"an endpoint that is marked keeps the time since when", markFullKeeps},
		{"one that is deleted, or does not exist, is left alone", markFullDeleted},
		{"the notices that are new are stored in the same transaction, and returned", markFullTells},
		{"a change of the endpoint leaves the mark", markFullStays},
	}},
}

// limits are the quotas of these tests.
var limits = postrider.Quotas{EventsPerSecond: 10, Burst: 20, BytesPerDay: postrider.NoQuota, Endpoints: 3, Backlog: 1000}

func (w *world) putQuotas(account postrider.AccountID, q postrider.Quotas) {
	w.Helper()
	w.ok(w.PutQuotas(w.Context(), account, q))
}

func (w *world) quotas(q store.QuotaQuery) []store.AccountQuotas {
	w.Helper()
	found, err := w.Quotas(w.Context(), q)
	w.ok(err)
	return found
}

func putQuotas(w *world) {
	account := w.account()
	w.putQuotas(account, limits)
	w.putQuotas(account, postrider.Quotas{Endpoints: 5})
	found := w.quotas(store.QuotaQuery{})
	if len(found) != 1 || found[0].Account != account || found[0].Quotas != (postrider.Quotas{Endpoints: 5}) {
		w.Errorf("quotas = %+v, want 5 endpoints", found)
	}
}

func putQuotasVersion(w *world) {
	account, before := w.account(), w.version()
	w.putQuotas(account, limits)
	if after := w.version(); after != before+1 || w.quotas(store.QuotaQuery{})[0].Version != after {
		w.Errorf("version = %d after %d, quotas = %+v", after, before, w.quotas(store.QuotaQuery{}))
	}
}

func putQuotasNotFound(w *world) {
	w.refuses(w.PutQuotas(w.Context(), newID[postrider.AccountID](w), limits), postrider.ErrNotFound)
	account := w.account()
	w.ok(w.DeleteAccount(w.Context(), account))
	w.refuses(w.PutQuotas(w.Context(), account, limits), postrider.ErrNotFound)
}

func quotasListed(w *world) {
	accounts := []postrider.AccountID{w.account(), w.account(), w.account()}
	for _, i := range []int{2, 0, 1, 2} {
		w.putQuotas(accounts[i], limits)
	}
	var listed []postrider.AccountID
	for _, a := range w.quotas(store.QuotaQuery{}) {
		listed = append(listed, a.Account)
	}
	w.same("the accounts", listed, []postrider.AccountID{accounts[0], accounts[1], accounts[2]})
}

func quotasFilters(w *world) {
	first, second := w.account(), w.account()
	w.putQuotas(first, limits)
	w.putQuotas(second, limits)
	all := w.quotas(store.QuotaQuery{})
	w.same("the first one", w.quotas(store.QuotaQuery{Limit: 1}), all[:1])
	w.same("those after the first one", w.quotas(store.QuotaQuery{After: all[0].Version}), all[1:])
	w.same("those of an account", w.quotas(store.QuotaQuery{Account: second}), all[1:])
	w.same("those of an account without", w.quotas(store.QuotaQuery{Account: w.account()}), []store.AccountQuotas{})
}

// spend adds n events and the bytes to the use of an account. The account has a rate of rate
// events a second and a burst of 20.
func (w *world) spend(account postrider.AccountID, rate, n, bytes int64) store.QuotaState {
	w.Helper()
	states, err := w.SpendQuotas(w.Context(), []store.QuotaSpend{{Account: account, Rate: rate, Burst: 20, Events: n, Asked: n, Bytes: bytes}})
	w.ok(err)
	return states[0]
}

func spendEvents(w *world) {
	account := w.account()
	for i, want := range []float64{15, 0, -25} {
		if got := w.spend(account, 0, []int64{5, 15, 25}[i], 0); got.Events != want {
			w.Errorf("events = %v, want %v", got.Events, want)
		}
	}
}

func spendGrows(w *world) {
	account := w.account()
	begun := w.Clock().Now()
	w.spend(account, 100, 20, 0)
	w.passed(50 * time.Millisecond)
	got := w.spend(account, 100, 0, 0)
	if most := 100*w.Clock().Now().Sub(begun).Seconds() + 1; got.Events < 5 || got.Events > most {
		w.Errorf("events after 50 ms at 100 a second = %v, want 5 to %v", got.Events, most)
	}
	w.passed(300 * time.Millisecond)
	if got := w.spend(account, 100, 0, 0); got.Events != 20 {
		w.Errorf("events after 300 ms = %v, want the burst", got.Events)
	}
}

func spendReturned(w *world) {
	account := w.account()
	w.spend(account, 0, 10, 100)
	states, err := w.SpendQuotas(w.Context(), []store.QuotaSpend{{Account: account, Burst: 20, Events: -4, Asked: -4, Bytes: -40}})
	w.ok(err)
	w.same("the state", states, []store.QuotaState{{Account: account, Events: 14, Asked: 6, Bytes: 60}})
}

func spendStates(w *world) {
	var spends []store.QuotaSpend
	var want []store.QuotaState
	for i := range int64(5) {
		account := w.account()
		w.spend(account, 0, 1, 100)
		spends = append([]store.QuotaSpend{{Account: account, Burst: 20, Events: i, Asked: 2 * i, Bytes: i}}, spends...)
		want = append([]store.QuotaState{{Account: account, Events: float64(19 - i), Asked: 1 + 2*i, Bytes: 100 + i}}, want...)
	}
	states, err := w.SpendQuotas(w.Context(), spends)
	w.ok(err)
	w.same("the states", states, want)
}

func spendInParallel(w *world) {
	accounts := []postrider.AccountID{w.account(), w.account(), w.account()}
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			var spends []store.QuotaSpend
			for j := range accounts { // each call has another order
				spends = append(spends, store.QuotaSpend{Account: accounts[(i+j)%3], Burst: 20, Events: 1, Asked: 1, Bytes: 10})
			}
			if _, err := w.SpendQuotas(w.Context(), spends); err != nil {
				w.Errorf("spend: %v", err)
			}
		})
	}
	calls.Wait()
	for _, account := range accounts {
		w.same("the state", w.spend(account, 0, 0, 0), store.QuotaState{Account: account, Events: 12, Asked: 8, Bytes: 80})
	}
}

func (w *world) quotaUse(account postrider.AccountID) postrider.QuotaUse {
	w.Helper()
	use, err := w.QuotaUse(w.Context(), account)
	w.ok(err)
	if left := use.DayEnds.Sub(w.now()); left < -time.Minute || left > 24*time.Hour+time.Minute ||
		use.DayEnds.Truncate(24*time.Hour) != use.DayEnds {
		w.Errorf("the day ends at %v, want the next midnight of UTC", use.DayEnds)
	}
	use.DayEnds = time.Time{}
	return use
}

func quotaUsed(w *world) {
	e := w.endpoint()
	w.spend(e.Account, 1000, 18, 300)
	w.passed(time.Millisecond)
	use := w.quotaUse(e.Account)
	if use.Missing < 0 || use.Missing >= 18 {
		w.Errorf("%v events are missing, want fewer than the 18 that were spent", use.Missing)
	}
	use.Missing = 0
	w.same("the use", use, postrider.QuotaUse{Bytes: 300, Endpoints: 1})
	w.spend(e.Account, 0, 40, 0)
	if use := w.quotaUse(e.Account); math.Abs(use.Missing-58) > 1e-6 {
		w.Errorf("%v events are missing, want the 58 that were spent", use.Missing)
	}
}

func quotaUnused(w *world) {
	w.same("the use", w.quotaUse(w.account()), postrider.QuotaUse{})
}

func quotaEndpoints(w *world) {
	e := w.endpoint()
	w.put(w.draft(e.Account))
	w.become(e, postrider.EndpointDeleted)
	w.endpoint() // an endpoint of another account
	w.same("the use", w.quotaUse(e.Account), postrider.QuotaUse{Endpoints: 1})
}

// putOneOf puts an endpoint of an account that may have at most `most` endpoints.
func (w *world) putOneOf(e postrider.Endpoint, most int64) error {
	_, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: e, Most: most})
	return err
}

func putMost(w *world) {
	first := w.endpoint()
	w.ok(w.putOneOf(w.draft(first.Account), 2))
	third := w.draft(first.Account)
	err := w.putOneOf(third, 2)
	w.refuses(err, postrider.ErrBusy)
	w.same("the use", w.quotaUse(first.Account), postrider.QuotaUse{Endpoints: 2})
	first.Description = "changed"
	w.ok(w.putOneOf(first, 2))
	w.ok(w.putOneOf(third, 3))
}

func putMostInParallel(w *world) {
	account := w.account()
	var created atomic.Int64
	var calls sync.WaitGroup
	for range 8 {
		e := w.draft(account)
		calls.Go(func() {
			if w.putOneOf(e, 3) == nil {
				created.Add(1)
			}
		})
	}
	calls.Wait()
	if created.Load() != 3 {
		w.Errorf("%d endpoints were created, want 3", created.Load())
	}
}

// Around midnight, or after its clock was set back, a node may still have the day before.
func spendDayStays(w *world) {
	account := w.account()
	w.machine.move(24 * time.Hour)
	w.spend(account, 0, 0, 100)
	w.machine.move(-24 * time.Hour)
	w.same("bytes of the day", w.spend(account, 0, 0, 10).Bytes, int64(110))
	use, err := w.QuotaUse(w.Context(), account)
	w.ok(err)
	w.same("bytes that are shown", use.Bytes, int64(110))
	w.machine.move(24 * time.Hour)
	w.same("bytes of the day, once all have it", w.spend(account, 0, 0, 1).Bytes, int64(111))
	w.machine.move(24 * time.Hour)
	w.same("bytes of the next day", w.spend(account, 0, 0, 1).Bytes, int64(1))
}
