package stats

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/store"
)

// maxPages is the greatest number of pages of events, and of deliveries, that are read to count the
// events that an endpoint left out.
const maxPages = 20

// fanOutTakes is how much later than its event a delivery may be made by a fan-out job and still be found.
const fanOutTakes = time.Hour

// leftOut counts the events of the endpoint's types in the span for which it has no delivery. It reads
// the events first: a delivery that is made meanwhile does no harm.
//
// The count is exact if one subscription selected all events of the span, if everything could be read,
// and if the span ended before this hour, in which events may still wait for their fan-out job.
func (s *Routes) leftOut(ctx context.Context, e postrider.Endpoint, span store.Span, eventType string) (*apitypes.LeftOut, error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	then, err := s.Store.Subscription(ctx, store.SubscriptionQuery{Endpoint: e.ID, At: span.From})
	if err != nil && !errors.Is(err, postrider.ErrNotFound) {
		return nil, err
	}
	one := err == nil && (then.Until.IsZero() || !then.Until.Before(span.To))
	wanted := map[postrider.EventID]time.Time{}
	from, cut, err := newest(span.From, func(p store.Paging) (store.Page[postrider.Event], error) {
		return s.Store.Events(ctx, store.EventQuery{Account: e.Account, Span: span, Paging: p})
	}, func(event postrider.Event) time.Time {
		if e.Subscribes(event.Type) && !postrider.IsTest(event.ID) && len(event.Endpoints) == 0 && (eventType == "" || eventType == event.Type) {
			wanted[event.ID] = event.CreatedAt
		}
		return event.CreatedAt
	})
	if err != nil {
		return nil, err
	}
	had := map[postrider.EventID]bool{}
	later := store.Span{From: from, To: span.To.Add(fanOutTakes)}
	from, cutToo, err := newest(from, func(p store.Paging) (store.Page[postrider.Delivery], error) {
		return s.Store.Deliveries(ctx, store.DeliveryQuery{Endpoint: e.ID, Span: later, Paging: p})
	}, func(d postrider.Delivery) time.Time {
		had[d.Event] = true
		return d.ID.Time()
	})
	if err != nil {
		return nil, err
	}
	view := &apitypes.LeftOut{From: render.Instant(from), About: cut || cutToo || !one || span.To.After(now.Truncate(time.Hour))}
	for id, at := range wanted {
		if !at.Before(from) {
			view.Events++
			if !had[id] {
				view.Count++
			}
		}
	}
	return view, nil
}

// newest reads a list, newest first, and calls add for each item, which returns when the item was made.
// cut is true if the list has more pages than are read; what was read is then complete from a later time
// on than begin.
func newest[T any](
	begin time.Time, list func(store.Paging) (store.Page[T], error), add func(T) time.Time,
) (from time.Time, cut bool, err error) {
	from = begin
	p := store.Paging{Limit: store.MaxLimit}
	for range maxPages {
		page, err := list(p)
		if err != nil {
			return begin, false, err
		}
		for _, item := range page.Items {
			from = add(item).Add(time.Millisecond)
		}
		if p.Cursor = page.Next; page.Next == "" {
			return begin, false, nil
		}
	}
	return from, true, nil
}
