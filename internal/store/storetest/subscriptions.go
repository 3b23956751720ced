package storetest

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// subscriptions are verbs of the role directory.
var subscriptions = []verb{
	{"Subscription", []sentence{
		{"it is that of the time, whatever the endpoint selects now", subscriptionOfTime},
		{"a change of something else, or one that is refused, begins no other", subscriptionStays},
		{"a change of the types keeps what can be read of a policy that cannot be read", subscriptionUnreadable},
		{"of a deleted endpoint it is the last one", subscriptionOfDeleted},
		{"before the endpoint was created, and of one that does not exist, it is ErrNotFound", subscriptionBefore},
	}},
	{"PastSubscriptions", []sentence{
		{"they are those of the time, of endpoints that have another one now", pastSubscriptions},
	}},
}

func (w *world) subscription(e postrider.Endpoint, at time.Time) postrider.SubscriptionRevision {
	w.Helper()
	r, err := w.Subscription(w.Context(), store.SubscriptionQuery{Endpoint: e.ID, At: at})
	w.ok(err)
	return r
}

// resubscribe gives the endpoint other event types, at a later time.
func (w *world) resubscribe(e postrider.Endpoint, types ...postrider.Pattern) postrider.Endpoint {
	w.Helper()
	w.passed(0)
	e.EventTypes = types
	return w.put(e)
}

// oldEndpoint stores an endpoint that was created an hour ago: its id has that time by this machine's
// clock, and changes have the time of the store, which may differ by milliseconds.
func (w *world) oldEndpoint() postrider.Endpoint {
	w.Helper()
	e := w.draft(w.account())
	id := postrider.MakeID[postrider.EndpointID](w.now().Add(-time.Hour), [10]byte(e.ID[6:]))
	e.ID, e.CreatedAt = id, id.Time()
	return w.put(e)
}

func subscriptionOfTime(w *world) {
	first := w.oldEndpoint()
	second := first
	second.Policy.Filter, second.Policy.Changed = `{"data": {"a": [1.0, "<é>"]}}`, []string{"$.a", "$.b"}
	second = w.resubscribe(second, "order.*", "user.created")
	third := second
	third.Policy.Filter = ""
	third = w.resubscribe(third, second.EventTypes...)
	for _, tt := range []struct {
		what string
		at   time.Time
		want postrider.SubscriptionRevision
	}{
		{"the first", first.CreatedAt, postrider.SubscriptionRevision{
			Subscription: first.Subscription(), Since: first.CreatedAt, Until: second.UpdatedAt,
		}},
		{"the second", second.UpdatedAt, postrider.SubscriptionRevision{
			Subscription: second.Subscription(), Since: second.UpdatedAt, Until: third.UpdatedAt,
		}},
		{"the second at its end", third.UpdatedAt.Add(-time.Microsecond), postrider.SubscriptionRevision{
			Subscription: second.Subscription(), Since: second.UpdatedAt, Until: third.UpdatedAt,
		}},
		{"the third", third.UpdatedAt, postrider.SubscriptionRevision{Subscription: third.Subscription(), Since: third.UpdatedAt}},
		{"the third, later", third.UpdatedAt.Add(long), postrider.SubscriptionRevision{
			Subscription: third.Subscription(), Since: third.UpdatedAt,
		}},
	} {
		w.same(tt.what, w.subscription(third, tt.at), tt.want)
	}
}

func subscriptionStays(w *world) {
	e := w.oldEndpoint()
	want := postrider.SubscriptionRevision{Subscription: e.Subscription(), Since: e.CreatedAt}
	refused := e
	refused.Revision, refused.EventTypes = 7, []postrider.Pattern{"order.*"}
	w.passed(0)
	w.refuses(w.tryPut(refused), postrider.ErrConflict)
	e.Description, e.Status, e.Policy.Concurrency = "changed", postrider.EndpointPaused, 3
	e = w.put(e)
	w.same("the present one", w.subscription(e, e.UpdatedAt), want)
	w.same("that of the beginning", w.subscription(e, e.CreatedAt), want)
}

func subscriptionUnreadable(w *world) {
	e := w.oldEndpoint()
	e.Policy.Changed = []string{"$.a"}
	e = w.put(e)
	was := w.damage(e, `"concurrency":10`, `"concurrency":"ten"`)
	e = w.resubscribe(was, "order.*")
	w.same("the earlier one", w.subscription(e, was.UpdatedAt), postrider.SubscriptionRevision{
		Subscription: was.Subscription(), Since: was.UpdatedAt, Until: e.UpdatedAt,
	})
	w.same("the present one", w.subscription(e, e.UpdatedAt).Subscription, w.found(e.ID).Subscription())
}

func subscriptionOfDeleted(w *world) {
	account := w.newAccount("")
	w.putAccount(&account)
	one, other := w.put(w.draft(account.ID)), w.put(w.draft(account.ID))
	one = w.become(one, postrider.EndpointDeleted)
	w.ok(w.DeleteAccount(w.Context(), account.ID))
	_, err := w.DeleteEndpoints(w.Context(), 10)
	w.ok(err)
	for _, e := range []postrider.Endpoint{one, w.found(other.ID)} {
		w.same("the last one", w.subscription(e, e.StatusSince.Add(long)), postrider.SubscriptionRevision{
			Subscription: e.Subscription(), Since: e.CreatedAt, Until: e.StatusSince,
		})
	}
}

func subscriptionBefore(w *world) {
	e := w.resubscribe(w.oldEndpoint(), "order.*")
	for _, q := range []store.SubscriptionQuery{
		{Endpoint: e.ID, At: e.CreatedAt.Add(-time.Millisecond)}, {Endpoint: newID[postrider.EndpointID](w), At: w.now()},
	} {
		_, err := w.Subscription(w.Context(), q)
		w.refuses(err, postrider.ErrNotFound)
	}
}

// past returns the earlier subscriptions of endpoints.
func (w *world) past(at time.Time, endpoints ...postrider.Endpoint) map[postrider.EndpointID]postrider.Subscription {
	w.Helper()
	p := store.PastSubscriptions{At: at}
	for i := range endpoints {
		p.Endpoints = append(p.Endpoints, endpoints[i].ID)
	}
	past, err := w.PastSubscriptions(w.Context(), p)
	w.ok(err)
	return past
}

func pastSubscriptions(w *world) {
	never, unknown, other, first := w.oldEndpoint(), w.draft(w.account()), w.oldEndpoint(), w.oldEndpoint()
	second := first
	second.Policy.Filter, second.Policy.Condition = `{"data": {"a": [1.0, "<é>"]}}`, `data.a == 1.0`
	second.Policy.Channels, second.Policy.Changed = []string{"eu"}, []string{"$.a", "$.b"}
	second = w.resubscribe(second, "order.*", "user.created")
	third := w.resubscribe(second, "user.*")
	gone := w.resubscribe(other, "order.*")
	w.passed(0)
	gone = w.become(gone, postrider.EndpointDeleted)
	type past = map[postrider.EndpointID]postrider.Subscription
	for _, tt := range []struct {
		what string
		at   time.Time
		want past
	}{
		{"before the endpoints were created", first.CreatedAt.Add(-time.Second), nil},
		{"the first", second.UpdatedAt.Add(-time.Microsecond), past{first.ID: first.Subscription(), gone.ID: other.Subscription()}},
		{"the second", second.UpdatedAt, past{first.ID: second.Subscription(), gone.ID: other.Subscription()}},
		{"the second at its end", third.UpdatedAt.Add(-time.Microsecond), past{first.ID: second.Subscription(), gone.ID: other.Subscription()}},
		{"the third", third.UpdatedAt, past{gone.ID: other.Subscription()}},
		{"the last of the deleted endpoint", gone.UpdatedAt.Add(-time.Microsecond), nil},
		{"the present ones", gone.UpdatedAt.Add(long), nil},
	} {
		w.same(tt.what, w.past(tt.at, never, unknown, third, gone), tt.want)
	}
	w.same("of no endpoints", len(w.past(first.CreatedAt)), 0)
}

func changesSubscribedAt(w *world) {
	e := w.endpoint()
	subscribedAt := func() time.Time { return w.changes(w.version()-1, 1).Endpoints[0].SubscribedAt }
	w.same("of a new endpoint", subscribedAt(), time.Time{})
	e = w.resubscribe(e, "order.*")
	since := e.UpdatedAt
	w.same("after a change of the subscription", subscribedAt(), since)
	w.passed(0)
	e.Description = "changed"
	e = w.put(e)
	w.same("after a change of something else", subscribedAt(), since)
	w.become(e, postrider.EndpointDeleted)
	w.same("of a deleted endpoint", subscribedAt(), since)
}

// forgottenSubscription fails the test unless the subscription before the last change, which changed it,
// is gone, and the present one stays.
func (w *world) forgottenSubscription(e postrider.Endpoint) {
	w.Helper()
	before := e.UpdatedAt.Add(-time.Microsecond)
	_, err := w.Subscription(w.Context(), store.SubscriptionQuery{Endpoint: e.ID, At: before})
	w.refuses(err, postrider.ErrNotFound)
	w.same("earlier ones", len(w.past(before, e)), 0)
	w.same("the present one", w.subscription(e, w.now().Add(long)).Subscription, w.found(e.ID).Subscription())
}

func forgetSubscriptions(w *world) {
	e := w.oldEndpoint()
	for _, name := range []postrider.Pattern{"a", "b", "c", "d"} {
		e = w.resubscribe(e, name)
	}
	w.forget(store.OldSubscriptions, time.Hour)
	w.same("one that ended lately", w.subscription(e, e.CreatedAt).EventTypes, []postrider.Pattern{"*"})
	w.same("calls", w.forget(store.OldSubscriptions, all), 2)
	w.forgottenSubscription(e)
}
