package storetest

import (
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var finder = []verb{
	{"Find", []sentence{
		{"a name is a term that begins with the text", findNames},
		{"a change replaces the terms", findChanged},
		{"of one kind the newest are found, and no more than the limit", findNewest},
		{"keys and ids are matched whole, and found before names", findKeys},
		{"of an ordering key the newest event of each account is found", findOrdered},
		{"deleted accounts and endpoints are found by no name", findDeleted},
		{"another account's are not found", findForeign},
		{"no text finds nothing", findNothing},
	}},
	findsEvents,
	{"DeadLetterGroups", []sentence{
		{"the unresolved are grouped by endpoint and cause, page by page", groupsPages},
		{"each filter selects", groupsFilters},
		{"a group is counted up to 1,000", groupsCount},
		{"a cursor that no page gave is an InvalidError", groupsCursor},
		{"a page goes on behind a group that is resolved meanwhile", groupsResolved},
		{"a cursor of another account or endpoint selects nothing", groupsForeign},
	}},
}

// find returns the ids of the objects that match a text.
func (w *world) find(account postrider.AccountID, text string) (ids []any) {
	w.Helper()
	found, err := w.Find(w.Context(), store.FindQuery{Account: account, Text: text, Limit: 20})
	w.ok(err)
	for _, f := range found {
		switch {
		case !f.Event.IsZero():
			ids = append(ids, f.Event)
		case !f.Endpoint.IsZero():
			ids = append(ids, f.Endpoint)
		default:
			ids = append(ids, f.Account)
		}
	}
	return ids
}

// named stores an account with a name and a uid, and one endpoint of the account.
func (w *world) named(name, url string) (postrider.Account, postrider.Endpoint) {
	w.Helper()
	a := postrider.Account{ID: newID[postrider.AccountID](w), Name: name}
	a.UID = a.ID.String()[4:]
	w.putAccount(&a)
	draft := w.draft(a.ID)
	draft.URL, draft.Description, draft.UID = url, "Billing of "+name, "ep-"+a.UID
	return a, w.put(draft)
}

func findNames(w *world) {
	a, e := w.named("Zoë's Flowers", "https://hooks.flowers.example:8443/in/7?x=1")
	for text, want := range map[string][]any{
		"zoë": {e.ID, a.ID}, "ZOË'S FLOW": {e.ID, a.ID}, "billing": {e.ID}, "billing of z": {e.ID}, "lowers": nil,
		"hooks.flowers": {e.ID}, "FLOWERS.example": {e.ID}, "https://hooks.flowers.example:8443/in": {e.ID},
		"https://hooks.flowers.example:8443/in/7?x=2": {e.ID}, "hooks.flowers.example/in": nil, "ooks": nil,
		"/in": {e.ID}, "/in/7": {e.ID}, "/IN/7": {e.ID}, "/7": {e.ID}, "in/7": nil, "/n/7": nil, "/in/8": nil,
		a.UID: {a.ID}, e.UID: {e.ID}, "%": nil, "_": nil,
	} {
		w.same("what "+text+" finds", w.find(postrider.AccountID{}, text), want)
	}
}

func findChanged(w *world) {
	a, e := w.named("Before", "https://before.example/")
	a.Name, e.URL, e.Description = "After", "https://after.example/", "Later"
	w.putAccount(&a)
	w.put(e)
	w.same("what the old name finds", w.find(postrider.AccountID{}, "before"), []any{})
	w.same("what the new name finds", w.find(postrider.AccountID{}, "after"), []any{e.ID, a.ID})
}

func findNewest(w *world) {
	var want []any
	for range 25 {
		w.apart()
		_, e := w.named("x", "https://same.example/")
		want = append(want, e.ID)
	}
	slices.Reverse(want)
	w.same("what 25 endpoints share finds", w.find(postrider.AccountID{}, "same.example"), want[:20])
}

func findKeys(w *world) {
	a, e := w.named("Key-1", "https://acme.example/")
	secret := w.secret(e.ID)
	w.put(e, secret)
	keyed, ordered := w.event(a.ID), w.event(a.ID)
	keyed.Event.IdempotencyKey, ordered.Event.OrderingKey = "key-1", "key-1"
	w.publish(store.Batch{keyed}, store.Batch{ordered})
	w.same("what a key finds", w.find(postrider.AccountID{}, "key-1"), []any{keyed.Event.ID, ordered.Event.ID, e.ID, a.ID})
	w.same("what a part of a key finds", w.find(postrider.AccountID{}, "key-"), []any{e.ID, a.ID})
	found, err := w.Find(w.Context(), store.FindQuery{Text: "key-1", Secret: secret.ID, Limit: 3})
	w.ok(err)
	w.same("what a secret and a key find", found, []store.Found{
		{By: store.FoundBySecret, Account: a.ID, Endpoint: e.ID},
		{By: store.FoundByIdempotencyKey, Account: a.ID, Event: keyed.Event.ID},
		{By: store.FoundByOrderingKey, Account: a.ID, Event: ordered.Event.ID},
	})
}

func findOrdered(w *world) {
	a, b := w.account(), w.account()
	var batch store.Batch
	for _, account := range []postrider.AccountID{a, a, b} {
		e := w.event(account)
		e.Event.OrderingKey = "cart-7"
		batch = append(batch, e)
	}
	w.publish(batch)
	w.same("what the key finds", w.find(postrider.AccountID{}, "cart-7"), []any{batch[2].Event.ID, batch[1].Event.ID})
	w.same("what the key finds in one account", w.find(a, "cart-7"), []any{batch[1].Event.ID})
}

func findDeleted(w *world) {
	gone, orphan := w.named("Gone", "https://gone.example/")
	left, e := w.named("Left", "https://left.example/")
	w.become(e, postrider.EndpointDeleted)
	w.ok(w.DeleteAccount(w.Context(), gone.ID))
	w.same("what the name of a deleted account finds", w.find(postrider.AccountID{}, "gone"), []any{orphan.ID})
	_, err := w.DeleteEndpoints(w.Context(), 10)
	w.ok(err)
	w.same("what it finds once its endpoint is deleted too", w.find(postrider.AccountID{}, "gone"), []any{})
	w.same("what the name of a deleted endpoint finds", w.find(postrider.AccountID{}, "left"), []any{left.ID})
}

func findForeign(w *world) {
	a, e := w.named("Shared", "https://shared.example/")
	other, _ := w.named("Shared", "https://shared.example/")
	for _, account := range []postrider.AccountID{a.ID, other.ID} {
		keyed := w.event(account)
		keyed.Event.IdempotencyKey = "shared"
		w.publish(store.Batch{keyed})
	}
	found, err := w.Find(w.Context(), store.FindQuery{Account: a.ID, Text: "shared", Limit: 20})
	w.ok(err)
	if len(found) != 3 || found[1].Endpoint != e.ID || found[2].Account != a.ID {
		w.Errorf("found %+v, want an event, the endpoint and the account %s", found, a.ID)
	}
	secret := w.secret(e.ID)
	w.put(e, secret)
	found, err = w.Find(w.Context(), store.FindQuery{Account: other.ID, Secret: secret.ID, Limit: 20})
	w.ok(err)
	w.same("what another account's secret finds", found, []store.Found{})
}

func findNothing(w *world) {
	w.named("Nothing", "https://nothing.example/")
	w.publish(store.Batch{w.event(w.account())})
	w.same("what no text finds", w.find(postrider.AccountID{}, ""), []any{})
}

// died publishes a delivery for each status code. The code makes the delivery a dead letter.
func (w *world) died(e postrider.Endpoint, codes ...int) (ids []postrider.DeliveryID) {
	w.Helper()
	for _, code := range codes {
		w.pending(e, 1)
		c := w.claimOne(e, postrider.LaneFirst)
		w.settle(settlement(c, code, postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonExhausted}))
		ids = append(ids, c.ID)
	}
	return ids
}

func (w *world) groups(q store.DeadLetterGroupQuery) []store.DeadLetterGroup {
	w.Helper()
	page, err := w.DeadLetterGroups(w.Context(), q)
	w.ok(err)
	return page.Items
}

// group returns the group of the dead letters with one status code.
func group(e postrider.Endpoint, code int, ids ...postrider.DeliveryID) store.DeadLetterGroup {
	return store.DeadLetterGroup{
		Account: e.Account, Endpoint: e.ID, Reason: postrider.ReasonExhausted, LastStatusCode: code,
		LastError: "the endpoint refused", Count: len(ids), Oldest: ids[0], Newest: ids[len(ids)-1],
	}
}

func groupsPages(w *world) {
	a := w.endpoint()
	b := w.put(w.draft(a.Account))
	ofA, ofB := w.died(a, 500, 500, 503, 500), w.died(b, 500, 404, 410)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ofA[3]})
	w.ok(err)
	want := []store.DeadLetterGroup{
		group(b, 500, ofB[0]), group(b, 410, ofB[2]), group(b, 404, ofB[1]),
		group(a, 503, ofA[2]), group(a, 500, ofA[0], ofA[1]),
	}
	whole := func(g store.DeadLetterGroup) store.DeadLetterGroup { return g }
	w.same("the groups", pages(w, whole, func(p store.Paging) (store.Page[store.DeadLetterGroup], error) {
		return w.DeadLetterGroups(w.Context(), store.DeadLetterGroupQuery{Paging: p})
	}), want)
}

func groupsFilters(w *world) {
	a, other := w.endpoint(), w.endpoint()
	b := w.put(w.draft(a.Account))
	ofA, ofB, ofOther := w.died(a, 500), w.died(b, 500), w.died(other, 500)
	w.same("all", len(w.groups(store.DeadLetterGroupQuery{})), 3)
	w.same("one account's", w.groups(store.DeadLetterGroupQuery{Account: a.Account}),
		[]store.DeadLetterGroup{group(b, 500, ofB...), group(a, 500, ofA...)})
	w.same("one endpoint's", w.groups(store.DeadLetterGroupQuery{Account: a.Account, Endpoint: a.ID}),
		[]store.DeadLetterGroup{group(a, 500, ofA...)})
	w.same("another's", w.groups(store.DeadLetterGroupQuery{Account: other.Account}),
		[]store.DeadLetterGroup{group(other, 500, ofOther...)})
	w.same("another's under the wrong account", w.groups(store.DeadLetterGroupQuery{Account: a.Account, Endpoint: other.ID}),
		[]store.DeadLetterGroup{})
}

func groupsCount(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 1001)
	var settlements []store.Settlement
	for len(settlements) < len(ids) {
		for _, c := range w.claim(e, postrider.LaneFirst, 250) {
			settlements = append(settlements, dead(c))
		}
	}
	for batch := range slices.Chunk(settlements, 250) {
		w.settle(batch...)
	}
	groups := w.groups(store.DeadLetterGroupQuery{})
	if len(groups) != 1 || groups[0].Count != 1000 || groups[0].Oldest != ids[0] || groups[0].Newest != ids[1000] {
		w.Errorf("the groups of 1,001 dead letters are %s", fmt.Sprint(groups))
	}
}

func groupsCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.DeadLetterGroups(w.Context(), store.DeadLetterGroupQuery{Paging: p})
		return err
	})
}

func groupsResolved(w *world) {
	e := w.endpoint()
	ids := w.died(e, 404, 500)
	page, err := w.DeadLetterGroups(w.Context(), store.DeadLetterGroupQuery{Paging: store.Paging{Limit: 1}})
	w.ok(err)
	w.same("the first page", page.Items, []store.DeadLetterGroup{group(e, 500, ids[1])})
	_, err = w.Discard(w.Context(), store.Discard{Delivery: ids[1]})
	w.ok(err)
	w.same("the second page", w.groups(store.DeadLetterGroupQuery{Paging: store.Paging{Cursor: page.Next}}),
		[]store.DeadLetterGroup{group(e, 404, ids[0])})
}

func groupsForeign(w *world) {
	a, other := w.endpoint(), w.endpoint()
	b := w.put(w.draft(a.Account))
	ofA, ofB, ofOther := w.died(a, 404, 500), w.died(b, 404, 500), w.died(other, 404, 500)
	behind := func(last postrider.DeliveryID, account postrider.AccountID, endpoint postrider.EndpointID) []store.DeadLetterGroup {
		return w.groups(store.DeadLetterGroupQuery{Account: account, Endpoint: endpoint, Paging: store.Paging{Cursor: idCursor(last)}})
	}
	none := []store.DeadLetterGroup{}
	w.same("an account's, behind a newer account's", behind(ofOther[1], a.Account, postrider.EndpointID{}), none)
	w.same("an account's, behind an older account's", behind(ofA[1], other.Account, postrider.EndpointID{}), none)
	w.same("an endpoint's, behind a newer endpoint's", behind(ofB[1], a.Account, a.ID), none)
	w.same("an endpoint's, behind an older endpoint's", behind(ofA[1], a.Account, b.ID), none)
	w.same("an account's, behind its own", behind(ofB[1], a.Account, postrider.EndpointID{}),
		[]store.DeadLetterGroup{group(b, 404, ofB[0]), group(a, 500, ofA[1]), group(a, 404, ofA[0])})
	w.same("an endpoint's, behind its own", behind(ofB[1], a.Account, b.ID), []store.DeadLetterGroup{group(b, 404, ofB[0])})
}
