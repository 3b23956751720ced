package storetest

import (
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func endpointsByMetadata(w *world) {
	a, b := w.account(), w.account()
	gold, both := postrider.Metadata{"plan": "gold"}, postrider.Metadata{"plan": "gold", "region": "eu"}
	put := func(account postrider.AccountID, m postrider.Metadata) postrider.Endpoint {
		e := w.draft(account)
		e.Metadata = m
		return w.put(e)
	}
	var ids []postrider.EndpointID
	for range 5 {
		ids = append(ids, put(a, gold).ID)
	}
	slices.Reverse(ids)
	w.same("the endpoints, page by page", pages(w, endpointID, func(p store.Paging) (store.Page[postrider.Endpoint], error) {
		return w.Endpoints(w.Context(), store.EndpointQuery{Account: a, Metadata: gold, Paging: p})
	}), ids)
	one, foreign := put(a, both), put(b, both)
	put(a, nil)
	put(a, postrider.Metadata{"plan": "silver", "region": "eu"})
	changed := put(a, gold)
	changed.Metadata = postrider.Metadata{"plan": "golden"}
	w.put(changed)
	deleted := w.become(put(a, both), postrider.EndpointDeleted)
	paused := w.become(put(a, postrider.Metadata{"plan": "gold", "region": "us"}), postrider.EndpointPaused)
	list := by(endpointID, func(q store.EndpointQuery) (store.Page[postrider.Endpoint], error) {
		return w.Endpoints(w.Context(), q)
	})
	for _, tt := range []struct {
		query store.EndpointQuery
		want  []postrider.EndpointID
	}{
		{store.EndpointQuery{Account: a, Metadata: both}, []postrider.EndpointID{one.ID}},
		{store.EndpointQuery{Metadata: both}, []postrider.EndpointID{foreign.ID, one.ID}},
		{store.EndpointQuery{Account: a, Metadata: gold}, append([]postrider.EndpointID{paused.ID, one.ID}, ids...)},
		{store.EndpointQuery{Account: a, Metadata: gold, Status: postrider.EndpointPaused}, []postrider.EndpointID{paused.ID}},
		{store.EndpointQuery{Account: a, Metadata: gold, UID: "none"}, nil},
		{store.EndpointQuery{ID: one.ID, Metadata: gold}, []postrider.EndpointID{one.ID}},
		{store.EndpointQuery{IDs: []postrider.EndpointID{deleted.ID, one.ID, changed.ID}, Metadata: gold}, []postrider.EndpointID{one.ID}},
		{store.EndpointQuery{ID: deleted.ID, Metadata: gold}, nil},
		{store.EndpointQuery{Metadata: postrider.Metadata{"plan": "gol"}}, nil},
		{store.EndpointQuery{Metadata: postrider.Metadata{"plang": "old"}}, nil},
		{store.EndpointQuery{Metadata: postrider.Metadata{"plan": "gold", "other": "x"}}, nil},
	} {
		selects(w, tt.query, list, tt.want)
	}
}

func accountsByMetadata(w *world) {
	gold, both := postrider.Metadata{"plan": "gold"}, postrider.Metadata{"plan": "gold", "region": "eu"}
	put := func(m postrider.Metadata) postrider.Account {
		a := w.newAccount("")
		a.Metadata = m
		w.putAccount(&a)
		return a
	}
	var ids []postrider.AccountID
	for range 5 {
		ids = append(ids, put(gold).ID)
	}
	slices.Reverse(ids)
	w.same("the accounts, page by page", pages(w, accountID, func(p store.Paging) (store.Page[postrider.Account], error) {
		return w.Accounts(w.Context(), store.AccountQuery{Metadata: gold, Paging: p})
	}), ids)
	one, other, deleted := put(both), put(nil), put(both)
	e := w.draft(other.ID)
	e.Metadata = gold // of an endpoint: it selects no account
	w.put(e)
	w.ok(w.DeleteAccount(w.Context(), deleted.ID))
	list := by(accountID, func(q store.AccountQuery) (store.Page[postrider.Account], error) { return w.Accounts(w.Context(), q) })
	selects(w, store.AccountQuery{Metadata: gold}, list, append([]postrider.AccountID{one.ID}, ids...))
	selects(w, store.AccountQuery{Metadata: both}, list, []postrider.AccountID{one.ID})
	selects(w, store.AccountQuery{ID: one.ID, Metadata: gold}, list, []postrider.AccountID{one.ID})
	selects(w, store.AccountQuery{ID: other.ID, Metadata: gold}, list, nil)
	selects(w, store.AccountQuery{ID: deleted.ID, Metadata: gold}, list, nil)
	selects(w, store.AccountQuery{Metadata: postrider.Metadata{"plan": "silver"}}, list, nil)
}
