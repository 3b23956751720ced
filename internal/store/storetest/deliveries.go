package storetest

import (
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func deliveriesBare(w *world) {
	e, other := w.endpoint(), w.endpoint()
	type pair struct {
		delivery postrider.DeliveryID
		event    postrider.EventID
	}
	var want []pair
	for i := range 3 {
		event := w.event(e.Account, w.to(e), w.to(e), w.to(other))
		event.Deliveries[1].Skipped = postrider.ReasonEndpointDisabled
		w.publish(store.Batch{event})
		if i < 2 { // the last one stays pending
			w.settle(delivered(w.claimOne(e, postrider.LaneFirst)))
		}
		for _, d := range event.Deliveries[:2] {
			want = append(want, pair{d.ID, event.Event.ID})
		}
	}
	var got []pair
	pages(w, deliveryID, func(p store.Paging) (store.Page[postrider.Delivery], error) {
		page, err := w.Deliveries(w.Context(), store.DeliveryQuery{Endpoint: e.ID, Bare: true, Paging: p})
		for _, d := range page.Items {
			got = append(got, pair{d.ID, d.Event})
		}
		return page, err
	})
	if !slices.Equal(got, reversed(want)) {
		w.Errorf("listed %v, want %v", got, reversed(want))
	}
}

// deliveriesFilteredPages puts the wanted deliveries among others. It fails the test unless every
// page except the last is full.
func deliveriesFilteredPages(w *world) {
	e := w.endpoint()
	want := map[postrider.Status][]postrider.DeliveryID{}
	for range 5 {
		event := w.event(e.Account, w.to(e), w.to(e), w.to(e))
		event.Deliveries[1].Skipped = postrider.ReasonEndpointDisabled
		w.publish(store.Batch{event})
		d := event.Deliveries
		w.cancel(d[2].ID)
		w.settle(delivered(w.claimOne(e, postrider.LaneFirst)))
		for i, status := range []postrider.Status{postrider.Delivered, postrider.Skipped, postrider.Cancelled} {
			want[status] = append(want[status], d[i].ID)
		}
	}
	for status, ids := range want {
		for _, q := range []store.DeliveryQuery{{}, {Account: e.Account}, {Endpoint: e.ID}, {Account: e.Account, Endpoint: e.ID}} {
			q.Status = status
			for _, oldestFirst := range []bool{false, true} {
				got := pages(w, deliveryID, func(p store.Paging) (store.Page[postrider.Delivery], error) {
					q.Paging, q.OldestFirst = p, oldestFirst
					page, err := w.Deliveries(w.Context(), q)
					if page.Next != "" && len(page.Items) != p.Size() {
						w.Errorf("a page of %+v has %d items and a next one", q, len(page.Items))
					}
					return page, err
				})
				if !oldestFirst {
					slices.Reverse(got)
				}
				w.same(fmt.Sprintf("the deliveries of %+v", q), got, ids)
			}
		}
	}
}
