package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var ledger = []verb{
	{"Events", []sentence{
		{"they are listed newest first, page by page", eventsPages},
		{"with OldestFirst they are listed oldest first, page by page", eventsOldestFirst},
		{"an idempotency key selects the event that it stands for, while it is remembered", eventsOfKey},
		{"each filter selects", eventsFilters},
		{"only an event found by ID, or listed as a whole, carries its data and what changed", eventsData},
		{"another account's are not listed", eventsForeign},
		{"a cursor that no page gave is an InvalidError", eventsCursor},
	}},
	{"Deliveries", []sentence{
		{"those of every status are listed newest first, page by page", deliveriesPages},
		{"with OldestFirst those of every status are listed oldest first, page by page", deliveriesOldestFirst},
		{"bare ones of an endpoint have their ids and events, page by page", deliveriesBare},
		{"each filter selects in pages that are full", deliveriesFilteredPages},
		{"each filter selects", deliveriesFilters},
		{"a leased delivery counts no attempt until it settles", deliveriesLeased},
		{"one that is pending says why it waits, and the others do not", deliveriesWaiting},
		{"one of an ordering key says what goes first", deliveriesWaitingInOrder},
		{"one of an endpoint whose policy cannot be read says so", deliveriesUnreadable},
		{"a replay to an endpoint that is not sent to says so", deliveriesReplayedWaiting},
		{"another account's are not listed", deliveriesForeign},
		{"a cursor that no page gave is an InvalidError", deliveriesCursor},
	}},
	{"Attempts", []sentence{
		{"they are listed by delivery, newest first, and in it by number, page by page", attemptsPages},
		{"those of one delivery are listed page by page", attemptsOfDelivery},
		{"bodies and heads come with those of one delivery only", attemptsBodies},
		{"another account's are not listed", attemptsForeign},
		{"a cursor that no page gave is an InvalidError", attemptsCursor},
	}},
	{"DeadLetters", []sentence{
		{"they are listed newest first, page by page", deadLettersPages},
		{"with OldestFirst they are listed oldest first, page by page", deadLettersOldestFirst},
		{"each filter selects", deadLettersFilters},
		{"only the unresolved are listed unless the query says else", deadLettersResolved},
		{"another account's are not listed", deadLettersForeign},
		{"a cursor that no page gave is an InvalidError", deadLettersCursor},
	}},
	{"Replay", slices.Concat(replaySentences, replayOrderSentences)},
	{"Cancel", slices.Concat(cancelSentences, cancelOrderSentences)},
	{"Discard", slices.Concat(discardSentences, discardOrderSentences)},
	{"OrderedKeys", orderedKeysSentences},
	{"HealthHistory", healthHistorySentences},
}

// scene is an account with events of two types and two endpoints, and with one delivery of every
// status.
type scene struct {
	account postrider.AccountID
	a, b    postrider.Endpoint
	events  []postrider.EventID
	// deliveries are oldest first: delivered to a, dead at b, cancelled and skipped at a, and
	// pending at b after one attempt.
	deliveries []postrider.DeliveryID
}

func (w *world) scene() scene {
	w.Helper()
	s := scene{account: w.account()}
	s.a, s.b = w.put(w.draft(s.account)), w.put(w.draft(s.account))
	created, paid := w.event(s.account, w.to(s.a), w.to(s.b)), w.event(s.account, w.to(s.a), w.to(s.a), w.to(s.b))
	paid.Event.Type = "order.paid"
	paid.Deliveries[1].Skipped = postrider.ReasonEndpointDisabled
	for _, e := range []store.NewEvent{created, paid} {
		s.events = append(s.events, e.Event.ID)
		for _, d := range e.Deliveries {
			s.deliveries = append(s.deliveries, d.ID)
		}
		w.publish(store.Batch{e})
	}
	w.settle(delivered(w.claim(s.a, postrider.LaneFirst, 1)[0]))
	ofB := w.claim(s.b, postrider.LaneFirst, 2)
	w.settle(dead(ofB[0]), retry(ofB[1], long))
	_, err := w.Cancel(w.Context(), store.Cancel{Delivery: s.deliveries[2]})
	w.ok(err)
	return s
}

func eventID(e postrider.Event) postrider.EventID          { return e.ID }
func deliveryID(d postrider.Delivery) postrider.DeliveryID { return d.ID }
func letterID(l postrider.DeadLetter) postrider.DeliveryID { return l.Delivery }
func attemptName(a postrider.Attempt) string               { return fmt.Sprint(a.Delivery, " ", a.Number) }
func at(id interface{ Time() time.Time }) time.Time        { return id.Time() }

func reversed[T any](items []T) []T {
	items = slices.Clone(items)
	slices.Reverse(items)
	return items
}

// apart waits, so that the next id has another millisecond than the last one.
func (w *world) apart() {
	w.Helper()
	w.passed(3 * time.Millisecond)
}

func eventsPages(w *world) {
	account := w.account()
	var want []postrider.EventID
	for range 5 {
		e := w.event(account)
		want = append(want, e.Event.ID)
		w.publish(store.Batch{e})
	}
	w.same("the events", pages(w, eventID, func(p store.Paging) (store.Page[postrider.Event], error) {
		return w.Events(w.Context(), store.EventQuery{Account: account, Paging: p})
	}), reversed(want))
}

func eventsOldestFirst(w *world) {
	account := w.account()
	var want []postrider.EventID
	for range 5 {
		e := w.event(account)
		want = append(want, e.Event.ID)
		w.publish(store.Batch{e})
	}
	w.same("the events", pages(w, eventID, func(p store.Paging) (store.Page[postrider.Event], error) {
		p.OldestFirst = true
		return w.Events(w.Context(), store.EventQuery{Account: account, Paging: p})
	}), want)
}

func eventsOfKey(w *world) {
	account := w.account()
	keyed, other, foreign := w.event(account), w.event(account), w.event(w.account())
	keyed.Event.IdempotencyKey, other.Event.IdempotencyKey, foreign.Event.IdempotencyKey = "order-42", "order-43", "order-42"
	w.publish(store.Batch{keyed, other}, store.Batch{foreign}, store.Batch{w.event(account)})
	w.same("the event", w.stored(keyed.Event.ID), keyed.Event)
	list := by(eventID, func(q store.EventQuery) (store.Page[postrider.Event], error) { return w.Events(w.Context(), q) })
	query := store.EventQuery{Account: account, IdempotencyKey: "order-42"}
	selects(w, query, list, []postrider.EventID{keyed.Event.ID})
	selects(w, store.EventQuery{Account: account, IdempotencyKey: "order-44"}, list, nil)
	selects(w, store.EventQuery{Account: account, IdempotencyKey: "order-42", Type: "order.paid"}, list, nil)
	w.passed(time.Millisecond)
	if _, err := w.ForgetKeys(w.Context(), 0, 10); err != nil {
		w.Fatal(err)
	}
	selects(w, query, list, nil)
	w.same("the event whose key is forgotten", w.stored(keyed.Event.ID), keyed.Event)
}

func eventsFilters(w *world) {
	account := w.account()
	a := w.event(account)
	w.apart()
	b := w.event(account)
	w.apart()
	c := w.event(account)
	b.Event.Type = "order.paid"
	a.Event.OrderingKey, c.Event.OrderingKey = "o-1", "o-1"
	w.publish(store.Batch{a, b, c})
	foreign := w.event(w.account())
	w.publish(store.Batch{foreign})
	ids := []postrider.EventID{a.Event.ID, b.Event.ID, c.Event.ID}

	list := by(eventID, func(q store.EventQuery) (store.Page[postrider.Event], error) { return w.Events(w.Context(), q) })
	for _, tt := range []struct {
		query store.EventQuery
		want  []postrider.EventID
	}{
		{store.EventQuery{}, append([]postrider.EventID{foreign.Event.ID}, reversed(ids)...)},
		{store.EventQuery{Account: account}, reversed(ids)},
		{store.EventQuery{ID: ids[1]}, ids[1:2]},
		{store.EventQuery{Account: account, ID: ids[1], Type: "order.created"}, nil},
		{store.EventQuery{ID: newID[postrider.EventID](w)}, nil},
		{store.EventQuery{Account: account, Type: "order.paid"}, ids[1:2]},
		{store.EventQuery{Account: account, OrderingKey: "o-1"}, []postrider.EventID{ids[2], ids[0]}},
		{store.EventQuery{Account: account, OrderingKey: "o-1", Type: "order.paid"}, nil},
		{store.EventQuery{Account: foreign.Event.Account, OrderingKey: "o-1"}, nil},
		{store.EventQuery{Account: account, Type: "order.created"}, []postrider.EventID{ids[2], ids[0]}},
		{store.EventQuery{Account: account, Span: store.Span{From: at(ids[1])}}, []postrider.EventID{ids[2], ids[1]}},
		{store.EventQuery{Account: account, Span: store.Span{To: at(ids[1])}}, ids[:1]},
		{store.EventQuery{Account: account, Span: store.Span{From: at(ids[1]), To: at(ids[2])}}, ids[1:2]},
	} {
		selects(w, tt.query, list, tt.want)
	}
}

func eventsData(w *world) {
	e := w.event(w.account())
	e.Event.TraceParent, e.Event.TraceState, e.Event.About = traced, tracedState, said
	e.Event.About.Previous = []byte(`{"a": "` + strings.Repeat("b", 1<<15) + `"}`)
	w.publish(store.Batch{e})
	page, err := w.Events(w.Context(), store.EventQuery{Account: e.Event.Account})
	w.ok(err)
	listed := e.Event
	listed.Data, listed.About.Previous = nil, nil
	w.same("the listed event", page.Items, []postrider.Event{listed})
	w.same("the event by ID", w.stored(e.Event.ID), e.Event)
	page, err = w.Events(w.Context(), store.EventQuery{Account: e.Event.Account, Whole: true})
	w.ok(err)
	w.same("the event as a whole", page.Items, []postrider.Event{e.Event})
	e = w.read(w.endpoint(), newID[postrider.OutboxID](w))
	e.Event.TraceParent, e.Event.TraceState, e.Event.About = traced, tracedState, largest()
	for i := range postrider.MaxEventEndpoints {
		e.Event.Endpoints = append(e.Event.Endpoints, postrider.EndpointID{byte(i), 15: 0xff})
	}
	w.publish(store.Batch{e})
	page, err = w.Events(w.Context(), store.EventQuery{Account: e.Event.Account})
	w.ok(err)
	listed = e.Event
	listed.Data, listed.About.ChangedPaths = nil, nil
	w.same("the listed event with the largest labels", page.Items, []postrider.Event{listed})
	w.same("the same event by ID", w.stored(e.Event.ID), e.Event)
}

// largest returns labels and paths of the greatest allowed size, of characters whose stored form is the
// longest.
func largest() postrider.About {
	quotes := func(n int) string { return strings.Repeat(`"`, n) }
	metadata := map[string]string{}
	for i := range postrider.MaxMetadataKeys {
		metadata[string(rune('a'+i))] = quotes(postrider.MaxMetadata/postrider.MaxMetadataKeys - 1)
	}
	a := postrider.About{Subject: quotes(postrider.MaxSubject), Metadata: metadata, Internal: metadata}
	a.ContentType = quotes(postrider.MaxContentType)
	for i := range postrider.MaxChannels {
		a.Channels = append(a.Channels, quotes(postrider.MaxChannel-1)+string(rune('a'+i)))
	}
	for i := range postrider.MaxChangedPaths {
		path := fmt.Sprintf("$.%d", i)
		a.ChangedPaths = append(a.ChangedPaths, path+strings.Repeat("a", postrider.MaxPathBytes-len(path)))
	}
	return a
}

func eventsForeign(w *world) {
	s, other := w.scene(), w.scene()
	list := by(eventID, func(q store.EventQuery) (store.Page[postrider.Event], error) { return w.Events(w.Context(), q) })
	selects(w, store.EventQuery{Account: other.account}, list, reversed(other.events))
	for _, q := range []store.EventQuery{
		{ID: s.events[0]},
		{Paging: store.Paging{Cursor: idCursor(other.events[0])}}, // only older events, all of another account
	} {
		q.Account = other.account
		selects(w, q, list, nil)
	}
}

func idCursor[I ~[16]byte](id I) string { return store.EncodeCursor(string(id[:])) }

func eventsCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.Events(w.Context(), store.EventQuery{Paging: p})
		return err
	})
}

func deliveriesPages(w *world) {
	s := w.scene()
	w.same("the deliveries", pages(w, deliveryID, func(p store.Paging) (store.Page[postrider.Delivery], error) {
		return w.Deliveries(w.Context(), store.DeliveryQuery{Account: s.account, Paging: p})
	}), reversed(s.deliveries))
}

func deliveriesOldestFirst(w *world) {
	s := w.scene()
	w.same("the deliveries", pages(w, deliveryID, func(p store.Paging) (store.Page[postrider.Delivery], error) {
		p.OldestFirst = true
		return w.Deliveries(w.Context(), store.DeliveryQuery{Account: s.account, Paging: p})
	}), s.deliveries)
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{
		Account: s.account, Span: store.Span{To: at(s.deliveries[0]).Add(-time.Second)}, Paging: store.Paging{OldestFirst: true},
	})
	w.ok(err)
	w.same("those made before", deliveryIDs(page.Items, deliveryID), []postrider.DeliveryID{})
}

func deliveriesFilters(w *world) {
	s := w.scene()
	w.apart()
	late := w.pending(s.a, 1)[0]
	d := s.deliveries
	list := by(deliveryID, func(q store.DeliveryQuery) (store.Page[postrider.Delivery], error) {
		return w.Deliveries(w.Context(), q)
	})
	for _, tt := range []struct {
		query store.DeliveryQuery
		want  []postrider.DeliveryID
	}{
		{store.DeliveryQuery{Account: s.account}, append([]postrider.DeliveryID{late}, reversed(d)...)},
		{store.DeliveryQuery{Event: s.events[1]}, []postrider.DeliveryID{d[4], d[3], d[2]}},
		{store.DeliveryQuery{Event: s.events[1], Endpoint: s.a.ID}, []postrider.DeliveryID{d[3], d[2]}},
		{store.DeliveryQuery{Endpoint: s.b.ID}, []postrider.DeliveryID{d[4], d[1]}},
		{store.DeliveryQuery{EventType: "order.paid"}, []postrider.DeliveryID{d[4], d[3], d[2]}},
		{store.DeliveryQuery{EventType: "order.paid", Status: postrider.Pending}, d[4:]},
		{store.DeliveryQuery{Status: postrider.Delivered}, d[:1]},
		{store.DeliveryQuery{Status: postrider.Dead}, d[1:2]},
		{store.DeliveryQuery{Status: postrider.Cancelled}, d[2:3]},
		{store.DeliveryQuery{Status: postrider.Skipped}, d[3:4]},
		{store.DeliveryQuery{Status: postrider.Pending}, []postrider.DeliveryID{late, d[4]}},
		{store.DeliveryQuery{Status: postrider.Dead, Endpoint: s.a.ID}, nil},
		{store.DeliveryQuery{ID: d[0], Status: postrider.Dead}, nil},
		{store.DeliveryQuery{ID: newID[postrider.DeliveryID](w)}, nil},
		{store.DeliveryQuery{Span: store.Span{From: at(late)}}, []postrider.DeliveryID{late}},
		{store.DeliveryQuery{Account: s.account, Span: store.Span{To: at(late)}}, reversed(d)},
	} {
		selects(w, tt.query, list, tt.want)
	}
	for _, id := range d {
		selects(w, store.DeliveryQuery{ID: id}, list, []postrider.DeliveryID{id})
	}
}

func deliveriesLeased(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	c := w.claimOne(e, postrider.LaneFirst)
	if got := w.delivery(c.ID); got.Status != postrider.Pending || got.Attempts != 0 {
		w.Errorf("the delivery is %+v, want pending without attempts", got)
	}
	w.settle(retry(c, 0))
	if got := w.delivery(c.ID); got.Attempts != 1 {
		w.Errorf("%d attempts count, want 1", got.Attempts)
	}
	w.claimOne(e, postrider.LaneRetry)
	if got := w.delivery(c.ID); got.Attempts != 1 || got.LastStatusCode != 503 {
		w.Errorf("the delivery is %+v, want pending after one attempt", got)
	}
}

func deliveriesForeign(w *world) {
	s, other := w.scene(), w.scene()
	list := by(deliveryID, func(q store.DeliveryQuery) (store.Page[postrider.Delivery], error) {
		return w.Deliveries(w.Context(), q)
	})
	selects(w, store.DeliveryQuery{Account: other.account}, list, reversed(other.deliveries))
	queries := []store.DeliveryQuery{
		{Event: s.events[0]},
		{Event: s.events[1]},
		{Endpoint: s.a.ID},
		{Endpoint: s.b.ID, Status: postrider.Dead},
		{Paging: store.Paging{Cursor: idCursor(other.deliveries[0])}}, // only older deliveries, all of another account
	}
	for i, id := range s.deliveries {
		queries = append(queries, store.DeliveryQuery{ID: id})
		status := postrider.Statuses[i]
		page, err := w.Deliveries(w.Context(), store.DeliveryQuery{Account: other.account, Status: status})
		w.ok(err)
		if len(page.Items) != 1 || page.Items[0].Account != other.account {
			w.Errorf("one account's %s deliveries are %+v, want its own one", status, page.Items)
		}
	}
	for _, q := range queries {
		q.Account = other.account
		selects(w, q, list, nil)
	}
}

func deliveriesCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.Deliveries(w.Context(), store.DeliveryQuery{Paging: p})
		return err
	})
}

// tried publishes one event to two endpoints, and makes three attempts at each.
func (w *world) tried() (event store.NewEvent, names []string) {
	w.Helper()
	a := w.endpoint()
	b := w.put(w.draft(a.Account))
	event = w.event(a.Account, w.to(a), w.to(b))
	w.publish(store.Batch{event})
	for _, e := range []postrider.Endpoint{a, b} {
		lane := postrider.LaneFirst
		for range 3 {
			s := retry(w.claimOne(e, lane), 0)
			s.Attempt.RequestHead, s.Attempt.ResponseHead, s.Attempt.ResponseBody = []byte("request"), []byte("head"), []byte("body")
			w.settle(s)
			lane = postrider.LaneRetry
		}
	}
	for _, d := range reversed(event.Deliveries) {
		for number := range 3 {
			names = append(names, fmt.Sprint(d.ID, " ", number+1))
		}
	}
	return event, names
}

func attemptsPages(w *world) {
	event, want := w.tried()
	w.same("the attempts", pages(w, attemptName, func(p store.Paging) (store.Page[postrider.Attempt], error) {
		return w.Attempts(w.Context(), store.AttemptQuery{Account: event.Event.Account, Event: event.Event.ID, Paging: p})
	}), want)
}

func attemptsOfDelivery(w *world) {
	event, want := w.tried()
	q := store.AttemptQuery{Account: event.Event.Account, Delivery: event.Deliveries[1].ID}
	w.same("the attempts", pages(w, attemptName, func(p store.Paging) (store.Page[postrider.Attempt], error) {
		q.Paging = p
		return w.Attempts(w.Context(), q)
	}), want[:3])
	list := by(attemptName, func(q store.AttemptQuery) (store.Page[postrider.Attempt], error) { return w.Attempts(w.Context(), q) })
	q.Paging, q.Event = store.Paging{}, event.Event.ID
	selects(w, q, list, want[:3])
	page, err := w.Attempts(w.Context(), q)
	w.ok(err)
	q.Event = postrider.EventID{}
	alone, err := w.Attempts(w.Context(), q)
	w.ok(err)
	w.same("the attempts of the delivery and of its event", page.Items, alone.Items)
	q.Event = newID[postrider.EventID](w)
	selects(w, q, list, nil)
}

func attemptsBodies(w *world) {
	event, _ := w.tried()
	for _, q := range []store.AttemptQuery{{Event: event.Event.ID}, {Delivery: event.Deliveries[0].ID}} {
		q.Account = event.Event.Account
		page, err := w.Attempts(w.Context(), q)
		w.ok(err)
		for _, a := range page.Items {
			got := string(a.RequestHead) + " " + string(a.ResponseHead) + " " + string(a.ResponseBody)
			want := "request head body"
			if q.Delivery.IsZero() {
				want = "  "
			}
			w.same("heads and body", got, want)
		}
	}
}

func attemptsForeign(w *world) {
	event, _ := w.tried()
	other, _ := w.tried()
	list := by(attemptName, func(q store.AttemptQuery) (store.Page[postrider.Attempt], error) { return w.Attempts(w.Context(), q) })
	for _, q := range []store.AttemptQuery{
		{Event: event.Event.ID},
		{Delivery: event.Deliveries[0].ID},
		{Event: event.Event.ID, Delivery: event.Deliveries[0].ID},
		{Event: other.Event.ID, Delivery: event.Deliveries[0].ID},
	} {
		q.Account = other.Event.Account
		selects(w, q, list, nil)
	}
}

func attemptsCursor(w *world) {
	event, _ := w.tried()
	for _, q := range []store.AttemptQuery{{Event: event.Event.ID}, {Delivery: event.Deliveries[0].ID}} {
		q.Account = event.Event.Account
		badCursors(w, func(p store.Paging) error {
			q.Paging = p
			_, err := w.Attempts(w.Context(), q)
			return err
		})
	}
}

// deadLetters publishes n deliveries to the endpoint, and makes them dead letters.
func (w *world) deadLetters(e postrider.Endpoint, n int) []postrider.DeliveryID {
	w.Helper()
	ids := w.pending(e, n)
	for _, c := range w.claim(e, postrider.LaneFirst, n) {
		w.settle(dead(c))
	}
	return ids
}

func deadLettersPages(w *world) {
	e := w.endpoint()
	want := w.deadLetters(e, 5)
	w.same("the dead letters", pages(w, letterID, func(p store.Paging) (store.Page[postrider.DeadLetter], error) {
		return w.DeadLetters(w.Context(), store.DeadLetterQuery{Account: e.Account, Paging: p})
	}), reversed(want))
}

func deadLettersOldestFirst(w *world) {
	e := w.endpoint()
	want := w.deadLetters(e, 5)
	w.same("the dead letters", pages(w, letterID, func(p store.Paging) (store.Page[postrider.DeadLetter], error) {
		p.OldestFirst = true
		return w.DeadLetters(w.Context(), store.DeadLetterQuery{Account: e.Account, Paging: p})
	}), want)
}

func deadLettersFilters(w *world) {
	s := w.scene()
	w.apart()
	late := w.pending(s.a, 1)[0]
	gone := dead(w.claimOne(s.a, postrider.LaneFirst))
	gone.Transition.Reason = postrider.ReasonGone
	w.settle(gone)
	d := s.deliveries[1]
	list := by(letterID, func(q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error) {
		return w.DeadLetters(w.Context(), q)
	})
	for _, tt := range []struct {
		query store.DeadLetterQuery
		want  []postrider.DeliveryID
	}{
		{store.DeadLetterQuery{}, []postrider.DeliveryID{late, d}},
		{store.DeadLetterQuery{Account: s.account}, []postrider.DeliveryID{late, d}},
		{store.DeadLetterQuery{Delivery: d}, []postrider.DeliveryID{d}},
		{store.DeadLetterQuery{Delivery: s.deliveries[0]}, nil},
		{store.DeadLetterQuery{Endpoint: s.a.ID}, []postrider.DeliveryID{late}},
		{store.DeadLetterQuery{Delivery: d, Endpoint: s.a.ID}, nil},
		{store.DeadLetterQuery{EventType: "order.created"}, []postrider.DeliveryID{late, d}},
		{store.DeadLetterQuery{EventType: "order.paid"}, nil},
		{store.DeadLetterQuery{Reason: postrider.ReasonGone}, []postrider.DeliveryID{late}},
		{store.DeadLetterQuery{Account: s.account, Reason: postrider.ReasonExhausted}, []postrider.DeliveryID{d}},
		{store.DeadLetterQuery{Endpoint: s.a.ID, Reason: postrider.ReasonGone}, []postrider.DeliveryID{late}},
		{store.DeadLetterQuery{Endpoint: s.a.ID, Reason: postrider.ReasonExhausted}, nil},
		{store.DeadLetterQuery{Delivery: d, Reason: postrider.ReasonGone}, nil},
		{store.DeadLetterQuery{Span: store.Span{From: at(late)}}, []postrider.DeliveryID{late}},
		{store.DeadLetterQuery{Span: store.Span{To: at(late)}}, []postrider.DeliveryID{d}},
	} {
		selects(w, tt.query, list, tt.want)
	}
}

func deadLettersResolved(w *world) {
	e := w.endpoint()
	ids := w.deadLetters(e, 3)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ids[0]})
	w.ok(err)
	w.replay(ids[1])
	list := by(letterID, func(q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error) {
		return w.DeadLetters(w.Context(), q)
	})
	selects(w, store.DeadLetterQuery{Account: e.Account}, list, ids[2:])
	selects(w, store.DeadLetterQuery{Delivery: ids[0]}, list, nil)
	selects(w, store.DeadLetterQuery{Account: e.Account, Resolved: true}, list, reversed(ids))
}

func deadLettersForeign(w *world) {
	s, other := w.scene(), w.scene()
	list := by(letterID, func(q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error) {
		return w.DeadLetters(w.Context(), q)
	})
	selects(w, store.DeadLetterQuery{Account: other.account}, list, other.deliveries[1:2])
	for _, q := range []store.DeadLetterQuery{
		{Delivery: s.deliveries[1]},
		{Endpoint: s.b.ID},
		{Resolved: true, Delivery: s.deliveries[1]},
		{Paging: store.Paging{Cursor: idCursor(other.deliveries[0])}},
	} {
		q.Account = other.account
		selects(w, q, list, nil)
	}
}

func deadLettersCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.DeadLetters(w.Context(), store.DeadLetterQuery{Paging: p})
		return err
	})
}
