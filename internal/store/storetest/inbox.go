package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var inbox = []verb{
	{"Publish", slices.Concat([]sentence{
		{"it stores the batches and answers for each in their order", publishAnswersInOrder},
		{"it stores nothing and returns ErrMoved unless the version is that of the subscriptions", publishMoved},
		{"a batch with a taken key is not stored and others are not affected", publishConflict},
		{"two batches of one call may conflict with each other", publishConflictInOneCall},
		{"a key of a refused batch is not taken", publishConflictTakesNoKeys},
		{"a key taken by the same content is a duplicate whose deliveries are not stored", publishDuplicate},
		{"the content is account, type, data and ordering key", publishContent},
		{"a key means the same only in its account", publishKeyOfAnotherAccount},
		{"duplicates inside one call answer with the first", publishDuplicateInOneCall},
		{"of parallel publishes with one key exactly one is stored", publishDuplicateInParallel},
		{"parallel calls whose keys overlap in other orders all succeed", publishKeysInParallel},
		{"sequences start at 1 and go on for each account and key", publishSequences},
		{"sequences have no gaps under parallel publishes", publishSequencesInParallel},
		{"a refused batch leaves no gap in a sequence", publishSequencesAfterConflict},
		{"a delivery with a token is stored leased as attempt 1", publishLeased},
		{"a delivery without a token waits", publishWaits},
		{"a skipped delivery is recorded with its reason and never queued", publishSkipped},
		{"a delivery with a Step keeps it in the queue", publishStep},
		{"an event with FanOutUpTo gets a job instead of deliveries", publishFanOut},
		{"repeated with the same ids it stores nothing twice and answers as the first time", publishRepeated},
		{"a repeat brings no ended delivery back", publishRepeatedAfterTheEnd},
		{"a full flush is stored", publishFull},
		{"data comes back to the byte", publishBytes},
		{"bytes that were passed in are not kept", publishKeepsNoBytes},
	}, publishOrderSentences)},
	{"ClaimFanOuts", []sentence{
		{"it leases up to Max jobs, oldest first", claimFanOutsOldestFirst},
		{"a job has its event, data and all", claimFanOutsEvent},
		{"AcceptedAt is after earlier changes of subscriptions, and before later ones", claimFanOutsAcceptedAt},
		{"jobs of excepted accounts are not claimed", claimFanOutsExcept},
		{"a leased job is not claimed again while its lease lasts", claimFanOutsLeased},
		{"a job is due again when its lease has ended", claimFanOutsAgain},
		{"parallel claims never return the same job", claimFanOutsInParallel},
	}},
	{"FanOut", []sentence{
		{"a chunk stores its deliveries and moves the cursor", fanOutChunk},
		{"a chunk without deliveries moves the cursor", fanOutNothing},
		{"another token is ErrFenced and stores nothing", fanOutFencedByToken},
		{"another cursor is ErrFenced and stores nothing", fanOutFencedByCursor},
		{"a chunk renews the lease", fanOutRenewsLease},
		{"after the last chunk the job is gone", fanOutDone},
		{"a job that does not exist is ErrFenced", fanOutUnknown},
		{"of the same chunk stored in parallel exactly one counts", fanOutInParallel},
	}},
}

func publishAnswersInOrder(w *world) {
	e := w.endpoint()
	first, second := w.to(e), w.to(e)
	a, b, c := w.event(e.Account, first), w.event(e.Account), w.event(e.Account, second)
	a.Event.APIVersion, a.Event.Hops, a.Event.TraceParent, a.Event.TraceState, a.Event.MaxAttempts = "2026-01-01", 2, traced, tracedState, 3
	a.Event.Endpoints = []postrider.EndpointID{e.ID}
	a.Event.OccurredAt, b.Event.OccurredAt = e.CreatedAt.Add(123456*time.Microsecond), time.Unix(0, 0).UTC()
	a.Event.About, b.Event.About = said, postrider.About{Subject: "order/42", ChangedPaths: []string{"$.b", "$.a[0]"}}
	got := w.publish(store.Batch{a, b}, store.Batch{c})
	w.same("Publish", got, []store.Published{
		{Conflict: -1, Events: []store.PublishedEvent{{ID: a.Event.ID}, {ID: b.Event.ID}}},
		{Conflict: -1, Events: []store.PublishedEvent{{ID: c.Event.ID}}},
	})
	for _, want := range []postrider.Event{a.Event, b.Event, c.Event} {
		w.same("the stored event", w.stored(want.ID), want)
	}
	w.same("a stored delivery", w.delivery(second.ID), postrider.Delivery{
		ID: second.ID, Event: c.Event.ID, Endpoint: e.ID, Account: e.Account, EventType: "order.created", Status: postrider.Pending,
	}, cmpopts.IgnoreFields(postrider.Delivery{}, "NextAttemptAt", "Waiting"))
	w.same("what is queued", deliveryIDs(w.claim(e, postrider.LaneFirst, 10), claimedID), []postrider.DeliveryID{first.ID, second.ID})
}

// tracedState is a tracestate of the greatest allowed size.
var tracedState = "a=" + strings.Repeat("b", 510)

// traced is a producer's trace, with a span.
var traced = postrider.TraceParent{0: 0xab, 15: 1, 16: 0xcd, 23: 2}

// said has all that an event can say of itself, but for the paths that changed: one says either.
var said = postrider.About{
	Subject: "order/42\n", Channels: []string{"b", "a & <\u2028>"}, Metadata: map[string]string{"b": "\n", "a": ""},
	Internal: map[string]string{"risk": "high"}, Previous: []byte("{\"a\" :\n1,\"b\":\"<\"}"),
	ContentType: `text/csv; a="b"`,
}

// stored returns the stored event.
func (w *world) stored(id postrider.EventID) postrider.Event {
	w.Helper()
	page, err := w.Events(w.Context(), store.EventQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("event %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

// absent fails the test if one of the events, or a delivery of one, is stored.
func (w *world) absent(events ...store.NewEvent) {
	w.Helper()
	for _, e := range events {
		page, err := w.Events(w.Context(), store.EventQuery{ID: e.Event.ID})
		w.ok(err)
		deliveries, err := w.Deliveries(w.Context(), store.DeliveryQuery{Event: e.Event.ID})
		w.ok(err)
		if len(page.Items) > 0 || len(deliveries.Items) > 0 {
			w.Errorf("event %s is stored, with %d deliveries; want nothing", e.Event.ID, len(deliveries.Items))
		}
	}
}

func publishMoved(w *world) {
	e := w.endpoint()
	version := w.version()
	event := w.event(e.Account, w.to(e))
	for _, other := range []int64{version - 1, version + 1} {
		_, err := w.Publish(w.Context(), store.Publish{Version: other, Batches: []store.Batch{{event}}})
		w.refuses(err, store.ErrMoved)
	}
	w.put(w.draft(e.Account))
	_, err := w.Publish(w.Context(), store.Publish{Version: version, Batches: []store.Batch{{event}}})
	w.refuses(err, store.ErrMoved)
	w.absent(event)
	w.publish(store.Batch{event})
}

// keyed returns an event with an idempotency key and one delivery.
func (w *world) keyed(e postrider.Endpoint, key, data string) store.NewEvent {
	event := w.event(e.Account, w.to(e))
	event.Event.IdempotencyKey, event.Event.Data = key, []byte(data)
	return event
}

func publishConflict(w *world) {
	e := w.endpoint()
	w.publish(store.Batch{w.keyed(e, "k", "1")})
	free, taken, other := w.keyed(e, "free", "1"), w.keyed(e, "k", "2"), w.keyed(e, "other", "1")
	got := w.publish(store.Batch{free, taken}, store.Batch{other})
	w.same("Publish", got, []store.Published{
		{Conflict: 1},
		{Conflict: -1, Events: []store.PublishedEvent{{ID: other.Event.ID}}},
	})
	w.absent(free, taken)
	w.stored(other.Event.ID)
}

func publishConflictInOneCall(w *world) {
	e := w.endpoint()
	a, b := w.keyed(e, "k", "1"), w.keyed(e, "k", "2")
	within := store.Batch{w.keyed(e, "j", "1"), w.keyed(e, "j", "2")}
	got := w.publish(store.Batch{a}, store.Batch{b}, within)
	w.same("Publish", got, []store.Published{
		{Conflict: -1, Events: []store.PublishedEvent{{ID: a.Event.ID}}}, {Conflict: 0}, {Conflict: 1},
	})
	w.absent(append(within, b)...)
}

func publishConflictTakesNoKeys(w *world) {
	e := w.endpoint()
	w.publish(store.Batch{w.keyed(e, "k", "1")})
	refused, again := w.keyed(e, "free", "1"), w.keyed(e, "free", "2")
	w.publish(store.Batch{refused, w.keyed(e, "k", "2")})
	got := w.publish(store.Batch{again})
	w.same("Publish", got, []store.Published{{Conflict: -1, Events: []store.PublishedEvent{{ID: again.Event.ID}}}})
}

func publishDuplicate(w *world) {
	e := w.endpoint()
	first, second := w.keyed(e, "k", "1"), w.keyed(e, "k", "1")
	w.publish(store.Batch{first})
	got := w.publish(store.Batch{second})
	w.same("Publish", got, []store.Published{
		{Conflict: -1, Events: []store.PublishedEvent{{ID: first.Event.ID, Duplicate: true}}},
	})
	w.absent(second)
	w.same("what is queued", deliveryIDs(w.claim(e, postrider.LaneFirst, 10), claimedID), []postrider.DeliveryID{first.Deliveries[0].ID})
}

func publishContent(w *world) {
	e := w.endpoint()
	w.publish(store.Batch{w.keyed(e, "k", `{"a": 1}`)})
	for name, change := range map[string]func(*postrider.Event){
		"another type":               func(e *postrider.Event) { e.Type = "order.paid" },
		"another ordering key":       func(e *postrider.Event) { e.OrderingKey = "o" },
		"another number of attempts": func(e *postrider.Event) { e.MaxAttempts = 2 },
		"endpoints that it names":    func(e *postrider.Event) { e.Endpoints = []postrider.EndpointID{{1}} },
		"another content type":       func(e *postrider.Event) { e.About.ContentType = "text/plain" },
		"another subject":            func(e *postrider.Event) { e.About.Subject = "order/42" },
		"other bytes":                func(e *postrider.Event) { e.Data = []byte(`{"a":1}`) },
	} {
		event := w.keyed(e, "k", `{"a": 1}`)
		change(&event.Event)
		w.same(name, w.publish(store.Batch{event}), []store.Published{{Conflict: 0}})
	}
	event := w.keyed(e, "k", `{"a": 1}`)
	event.Event.APIVersion, event.Event.Hops, event.Event.OccurredAt = "2026-01-01", 1, e.CreatedAt
	if got := w.publish(store.Batch{event}); got[0].Conflict != -1 || !got[0].Events[0].Duplicate {
		w.Errorf("another API version, other hops and another time: %+v, want a duplicate", got[0])
	}
}

func publishKeyOfAnotherAccount(w *world) {
	a, b := w.endpoint(), w.endpoint()
	w.publish(store.Batch{w.keyed(a, "k", "1")})
	event := w.keyed(b, "k", "2")
	got := w.publish(store.Batch{event})
	w.same("Publish", got, []store.Published{{Conflict: -1, Events: []store.PublishedEvent{{ID: event.Event.ID}}}})
}

func publishDuplicateInOneCall(w *world) {
	e := w.endpoint()
	a, b, c := w.keyed(e, "k", "1"), w.keyed(e, "k", "1"), w.keyed(e, "k", "1")
	got := w.publish(store.Batch{a, b}, store.Batch{c})
	duplicate := store.PublishedEvent{ID: a.Event.ID, Duplicate: true}
	w.same("Publish", got, []store.Published{
		{Conflict: -1, Events: []store.PublishedEvent{{ID: a.Event.ID}, duplicate}},
		{Conflict: -1, Events: []store.PublishedEvent{duplicate}},
	})
	w.absent(b, c)
}

func publishDuplicateInParallel(w *world) {
	e := w.endpoint()
	version := w.version()
	var events []store.NewEvent
	for range 16 {
		events = append(events, w.keyed(e, "k", "1"))
	}
	answers := make([]store.PublishedEvent, len(events))
	var publishers sync.WaitGroup
	for i, event := range events {
		publishers.Go(func() {
			got, err := w.Publish(w.Context(), store.Publish{Version: version, Batches: []store.Batch{{event}}})
			if err != nil || len(got) != 1 || len(got[0].Events) != 1 {
				w.Errorf("Publish = %+v, %v", got, err)
				return
			}
			answers[i] = got[0].Events[0]
		})
	}
	publishers.Wait()

	first := slices.IndexFunc(answers, func(a store.PublishedEvent) bool { return !a.Duplicate })
	for i, a := range answers {
		if first < 0 || a.ID != events[first].Event.ID || a.Duplicate != (i != first) {
			w.Fatalf("answer %d = %+v, want one first event and 15 duplicates of it", i, a)
		}
	}
	if n := len(w.claim(e, postrider.LaneFirst, 100)); n != 1 {
		w.Errorf("%d deliveries are queued, want 1", n)
	}
}

func publishKeysInParallel(w *world) {
	e := w.endpoint()
	version := w.version()
	var publishers sync.WaitGroup
	for range 8 {
		var forth store.Batch
		for i := range 20 {
			forth = append(forth, w.keyed(e, fmt.Sprint("k", i), "1"))
		}
		back := slices.Clone(forth)
		slices.Reverse(back)
		for _, batch := range []store.Batch{forth, back} {
			publishers.Go(func() {
				got, err := w.Publish(w.Context(), store.Publish{Version: version, Batches: []store.Batch{batch}})
				if err != nil || got[0].Conflict != -1 {
					w.Errorf("Publish = %+v, %v; want no conflict", got, err)
				}
			})
		}
	}
	publishers.Wait()
	if n := len(w.claim(e, postrider.LaneFirst, 1000)); n != 20 {
		w.Errorf("%d deliveries are queued for 20 keys", n)
	}
}

// ordered returns an event with an ordering key.
func (w *world) ordered(account postrider.AccountID, key string) store.NewEvent {
	event := w.event(account)
	event.Event.OrderingKey = key
	return event
}

func sequences(published []store.Published) (all []int64) {
	for _, p := range published {
		for _, e := range p.Events {
			all = append(all, e.Sequence)
		}
	}
	return all
}

func publishSequences(w *world) {
	a, b := w.account(), w.account()
	first := w.ordered(a, "x")
	w.same("the first call", sequences(w.publish(
		store.Batch{first, w.ordered(a, "y"), w.event(a), w.ordered(a, "x")}, store.Batch{w.ordered(a, "x")},
	)), []int64{1, 1, 0, 2, 3})
	w.same("the second call", sequences(w.publish(
		store.Batch{w.ordered(a, "x"), w.ordered(b, "x"), w.ordered(a, "y")},
	)), []int64{4, 1, 2})
	if got := w.stored(first.Event.ID); got.Sequence != 1 || got.OrderingKey != "x" {
		w.Errorf("the stored event has sequence %d of key %q, want 1 of x", got.Sequence, got.OrderingKey)
	}
}

func publishSequencesInParallel(w *world) {
	account := w.account()
	version := w.version()
	got := make([][]int64, 8)
	var publishers sync.WaitGroup
	for i := range got {
		publishers.Go(func() {
			for j := range 10 {
				batch := store.Batch{w.ordered(account, "a"), w.ordered(account, "b")}
				if (i+j)%2 == 0 {
					slices.Reverse(batch)
				}
				published, err := w.Publish(w.Context(), store.Publish{Version: version, Batches: []store.Batch{batch}})
				if err != nil || len(published) != 1 || len(published[0].Events) != 2 {
					w.Errorf("Publish = %+v, %v", published, err)
					return
				}
				got[i] = append(got[i], published[0].Events[0].Sequence, published[0].Events[1].Sequence)
			}
		})
	}
	publishers.Wait()

	count := map[int64]int{}
	for _, s := range got {
		for _, sequence := range s {
			count[sequence]++
		}
	}
	want := map[int64]int{}
	for sequence := range int64(80) {
		want[sequence+1] = 2 // once for each key
	}
	w.same("how often each sequence was given", count, want)
}

func publishSequencesAfterConflict(w *world) {
	e := w.endpoint()
	w.publish(store.Batch{w.keyed(e, "k", "1")})
	got := w.publish(store.Batch{w.ordered(e.Account, "x"), w.keyed(e, "k", "2")}, store.Batch{w.ordered(e.Account, "x")})
	if got[0].Conflict != 1 || len(got[1].Events) != 1 || got[1].Events[0].Sequence != 1 {
		w.Errorf("Publish = %+v, want a conflict, then sequence 1", got)
	}
}

func publishLeased(w *world) {
	e := w.endpoint()
	d := w.to(e)
	d.Token, d.Lease = w.token(), long
	event := w.event(e.Account, d)
	w.publish(store.Batch{event})
	if items := w.claim(e, postrider.LaneFirst, 10); len(items) != 0 {
		w.Errorf("claimed %d leased deliveries", len(items))
	}
	settled := w.settle(delivered(postrider.Claimed{
		ID: d.ID, Endpoint: e.ID, Event: &event.Event, Lane: d.Lane, Attempt: 1, Token: d.Token,
	}))
	w.same("Settle", settled, []store.Settled{{}})
	if got := w.delivery(d.ID); got.Status != postrider.Delivered || got.Attempts != 1 {
		w.Errorf("delivery is %s after %d attempts, want delivered after 1", got.Status, got.Attempts)
	}
}

func publishWaits(w *world) {
	e := w.endpoint()
	soon, later := w.to(e), w.to(e)
	later.Wait = long
	w.publish(store.Batch{w.event(e.Account, soon, later)})
	c := w.claimOne(e, postrider.LaneFirst)
	if c.ID != soon.ID || c.Attempt != 1 {
		w.Errorf("claimed %s as attempt %d, want %s as 1", c.ID, c.Attempt, soon.ID)
	}
	w.near("the wait of the other", w.delivery(later.ID).NextAttemptAt.Sub(w.now()), long)
	w.near("the expiry", c.ExpiresAt.Sub(w.now()), soon.Expiry)
}

func publishSkipped(w *world) {
	e := w.endpoint()
	d := w.to(e)
	d.Skipped = postrider.ReasonEndpointDisabled
	event := w.event(e.Account, d)
	w.publish(store.Batch{event})
	got := w.delivery(d.ID)
	w.same("the delivery", got, postrider.Delivery{
		ID: d.ID, Event: event.Event.ID, Endpoint: e.ID, Account: e.Account, EventType: "order.created",
		Status: postrider.Skipped, Reason: postrider.ReasonEndpointDisabled,
	}, cmpopts.IgnoreFields(postrider.Delivery{}, "FinishedAt", "LastError"))
	w.near("when it was finished", got.FinishedAt.Sub(w.now()), 0)
	attempts := w.attempts(got)
	if len(attempts) != 1 || attempts[0].Outcome != postrider.OutcomeNone || attempts[0].StatusAfter != postrider.Skipped {
		w.Errorf("recorded %+v, want one decision without a request", attempts)
	}
	if items := w.claim(e, postrider.LaneFirst, 10); len(items) != 0 {
		w.Errorf("claimed %d skipped deliveries", len(items))
	}
}

// publishStep publishes deliveries whose condition failed beside others, with an order and without.
func publishStep(w *world) {
	e, ordered := w.endpoint(), w.endpoint()
	failed, fine, inOrder := w.to(e), w.to(e), w.to(ordered)
	failed.Step, inOrder.Step, inOrder.Ordered = postrider.StepFilterFailed, postrider.StepFilterFailed, postrider.PauseOnDead
	event := w.event(e.Account, failed, fine)
	keyed := w.event(ordered.Account, inOrder)
	keyed.Event.OrderingKey = "a"
	w.publish(store.Batch{event, keyed})
	for _, c := range append(w.claim(e, postrider.LaneFirst, 10), w.claimOne(ordered, postrider.LaneFirst)) {
		want := postrider.StepFilterFailed
		if c.ID == fine.ID {
			want = 0
		}
		if c.Step != want {
			w.Errorf("claimed %+v, want the step %d", c, want)
		}
	}
}

func publishFanOut(w *world) {
	e := w.endpoint()
	event := w.event(e.Account)
	event.FanOutUpTo = e.ID
	w.publish(store.Batch{event})
	job := w.claimFanOuts(10, long)
	want := event.Event
	w.same("the jobs", job, []store.FanOut{{Event: want, UpTo: e.ID}}, cmpopts.IgnoreFields(store.FanOut{}, "Token", "AcceptedAt"))
}

func publishRepeated(w *world) {
	e := w.endpoint()
	plain, keyed, ordered := w.event(e.Account, w.to(e)), w.keyed(e, "k", "1"), w.ordered(e.Account, "x")
	duplicate, refused := w.keyed(e, "k", "1"), w.keyed(e, "k", "2")
	fanOut := w.event(e.Account)
	fanOut.FanOutUpTo = e.ID
	skipped := w.event(e.Account, w.to(e))
	skipped.Deliveries[0].Skipped = postrider.ReasonEndpointDisabled
	batches := []store.Batch{{plain, keyed, ordered}, {duplicate}, {refused}, {fanOut, skipped}}
	first := w.publish(batches...)
	w.same("the second answer", w.publish(batches...), first)

	if items := w.claim(e, postrider.LaneFirst, 10); len(items) != 2 {
		w.Errorf("%d deliveries are queued, want 2", len(items))
	}
	if jobs := w.claimFanOuts(10, long); len(jobs) != 1 {
		w.Errorf("%d fan-out jobs are stored, want 1", len(jobs))
	}
	if n := len(w.attempts(w.delivery(skipped.Deliveries[0].ID))); n != 1 {
		w.Errorf("the skipped delivery is recorded %d times", n)
	}
	if next := w.publish(store.Batch{w.ordered(e.Account, "x")}); next[0].Events[0].Sequence != 2 {
		w.Errorf("the next sequence is %d, want 2", next[0].Events[0].Sequence)
	}
}

func publishRepeatedAfterTheEnd(w *world) {
	e := w.endpoint()
	event := w.keyed(e, "k", "1")
	w.publish(store.Batch{event})
	w.settle(delivered(w.claimOne(e, postrider.LaneFirst)))
	w.publish(store.Batch{event})
	if items := w.claim(e, postrider.LaneFirst, 10); len(items) != 0 {
		w.Errorf("the repeat queued %d deliveries again", len(items))
	}
}

func publishFull(w *world) {
	e := w.endpoint()
	var batches []store.Batch
	for i := range 500 {
		event := w.event(e.Account, w.to(e), w.to(e), w.to(e), w.to(e))
		event.Event.IdempotencyKey, event.Event.OrderingKey = fmt.Sprint(i), fmt.Sprint(i%7)
		batches = append(batches, store.Batch{event})
	}
	w.publish(batches...)
	if n := len(w.claim(e, postrider.LaneFirst, 3000)); n != 2000 {
		w.Errorf("%d deliveries are queued, want 2000", n)
	}
}

func publishBytes(w *world) {
	e := w.endpoint()
	for _, data := range []string{
		"null",
		"{\"z\" :\t1,\r\n  \"a\":1.0,\"a\" : 1e0 }\n \n",
		`{"nul":"\u0000","lone":"\ud800","line":"\u2028","slash":"\/","big":12345678901234567890.10}`,
		"\"\u2028 \u00e9 e\u0301 \U0001f600 \x7f <&>\"",
		"\"raw \x00 and \xff\xfe\"",
		`{"large":"` + string(bytes.Repeat([]byte("x"), 1<<20)) + `"}`,
	} {
		event := w.event(e.Account, w.to(e))
		event.Event.Data = []byte(data)
		if data[0] == '{' {
			event.Event.About.Previous = []byte(data)
		}
		w.publish(store.Batch{event})
		for name, got := range map[string]postrider.Event{
			"stored": w.stored(event.Event.ID), "claimed": *w.claimOne(e, postrider.LaneFirst).Event,
		} {
			if string(got.Data) != data || string(got.About.Previous) != string(event.Event.About.Previous) {
				w.Errorf("the %s data is %.80q, want %.80q; the object before is %.80q", name, got.Data, data, got.About.Previous)
			}
		}
	}
}

func publishKeepsNoBytes(w *world) {
	e := w.endpoint()
	event := w.event(e.Account, w.to(e))
	event.Event.About.Previous = []byte("{}")
	want := bytes.Clone(event.Event.Data)
	w.publish(store.Batch{event})
	stored := w.stored(event.Event.ID)
	for _, text := range [][]byte{event.Event.Data, event.Event.About.Previous, stored.Data, stored.About.Previous} {
		clear(text)
	}
	if got := w.stored(event.Event.ID); !bytes.Equal(got.Data, want) || string(got.About.Previous) != "{}" {
		w.Errorf("the stored data became %q, want %q; the object before became %q", got.Data, want, got.About.Previous)
	}
}
