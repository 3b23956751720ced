package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

const (
	// fewCompared and mostCompared are how many events are compared if the request does not say, without
	// a span and with one. mostCompared is also the limit.
	fewCompared, mostCompared = 1000, 100_000
	// whatIfTime is how long events are compared.
	whatIfTime = 5 * time.Second
	// firstPage is the number of events of the first page. A later page has as many as pageBytes would
	// have held before, because events may be small or large.
	firstPage, pageBytes = 25, 4 << 20
	// leastRest and mostRest are how long a comparison rests, as a multiple of the time that it works. In
	// between it rests so long that the last event is compared endsEarly before the time is over. longestRest
	// limits one rest.
	leastRest, mostRest = 0.5, 3.0
	endsEarly           = whatIfTime / 10
	longestRest         = 50 * time.Millisecond
	// madeLater is how long after the newest compared event a delivery may have been made and still be
	// found. That is the time within which fan-out jobs make theirs.
	madeLater = time.Hour
	// maxExamples is the number of events that the response shows.
	maxExamples = 20
	// maxRunning is the number of comparisons with stored events at a time, on this node.
	maxRunning = 2
)

// running has the accounts for which events are compared now.
type running struct {
	mu sync.Mutex
	of []postrider.AccountID
}

// begin takes the turn of an account. The returned function gives it back.
func (r *running) begin(account postrider.AccountID) (end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case slices.Contains(r.of, account):
		return nil, rest.TooManyReads("the account's stored events are being compared already; see Retry-After")
	case len(r.of) >= maxRunning:
		return nil, rest.TooManyReads(fmt.Sprintf("stored events of %d other accounts are being compared, no more may be; see Retry-After", maxRunning))
	}
	r.of = append(r.of, account)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.of = slices.DeleteFunc(r.of, func(other postrider.AccountID) bool { return other == account })
	}, nil
}

// whatIf compares the stored events of an endpoint's account with a change of its subscription.
func (s *Routes) whatIf(ctx context.Context, in *rest.EndpointPath, body apitypes.WhatIf) (*rest.Reply[apitypes.WhatIfResult], error) {
	var to postrider.Endpoint
	if err := s.read(ctx, func(ctx context.Context) (err error) {
		to, err = s.Names.LiveEndpoint(ctx, in.Endpoint)
		return err
	}); err != nil {
		return nil, err
	}
	wants, err := subscriptionOf(to.Subscription(), rest.InfoOf(ctx).Caller)
	if err != nil {
		return nil, err
	}
	h, err := s.newHistory(&to, &body)
	if err := errors.Join(wants.change(body.Subscription), err); err != nil {
		return nil, err
	}
	end, err := s.running.begin(to.Account)
	if err != nil {
		s.Hooks.ReadRefused.Call(to.Account)
		return nil, err
	}
	defer end()
	t := tally{wants: &wants, against: againstDeliveries, reasons: map[reason]int{}}
	next, err := h.walk(ctx, t.add)
	if err != nil {
		return nil, err
	}
	view := t.view()
	view.NextCursor = render.OrNull(next)
	return rest.Respond(view), nil
}

// history walks the events of an account and, beside them, the deliveries of an endpoint. Both are read
// newest first. A delivery is made after its event, so its id is greater than that of its event. So an
// event has no other delivery once all with a greater id are read.
type history struct {
	*Routes

	until     time.Time     // when the walk stops
	worked    time.Duration // for the present page, without rests
	rest      float64       // how long the walk rests after each step, as a multiple of the time of the step
	left      int           // events to compare
	events    store.EventQuery
	made      store.DeliveryQuery
	follows   bool                       // false: all deliveries are read
	delivered map[postrider.EventID]bool // events of the deliveries that were read
}

// newHistory returns the walk that the request asks for, or the faults of the request.
func (s *Routes) newHistory(to *postrider.Endpoint, body *apitypes.WhatIf) (*history, error) {
	h := &history{
		Routes: s, until: time.Now().Add(whatIfTime), left: fewCompared, follows: true, delivered: map[postrider.EventID]bool{},
		events: store.EventQuery{Account: to.Account, Type: body.Type, Whole: true, Paging: store.Paging{Limit: firstPage, Cursor: body.Cursor}},
		made:   store.DeliveryQuery{Account: to.Account, Endpoint: to.ID, Bare: true, Paging: store.Paging{Limit: store.MaxLimit}},
		rest:   leastRest,
	}
	if body.From != nil {
		h.events.From, h.made.From, h.left = body.From.UTC(), body.From.UTC(), mostCompared
	}
	if body.To != nil {
		h.events.To, h.left = body.To.UTC(), mostCompared
	}
	err := checkSpan(body.Type, body.From, body.To)
	if body.Last != nil {
		if h.left = *body.Last; h.left < 1 || h.left > mostCompared {
			err = errors.Join(err, postrider.OutOfRange("last", 1, mostCompared))
		}
	}
	return h, err
}

// walk calls add with each event and whether the endpoint has a delivery of it. If the time is over
// before all are compared, it returns the cursor of the rest. If it has come nowhere in that time, it
// returns an error.
func (h *history) walk(ctx context.Context, add func(e *postrider.Event, delivered bool)) (next string, err error) {
	for from := h.events.Cursor; ; {
		h.worked = 0
		page, err := h.page(ctx)
		if err != nil {
			return "", err
		}
		n := 0
		if err := h.step(ctx, func(context.Context) error {
			for ; n < len(page.Items) && h.left > 0 && time.Now().Before(h.until); n++ {
				if e := &page.Items[n]; !postrider.IsTest(e.ID) && len(e.Endpoints) == 0 {
					add(e, h.delivered[e.ID])
					h.left--
				}
				delete(h.delivered, page.Items[n].ID)
			}
			return nil
		}); err != nil {
			return "", err
		}
		if n > 0 {
			last := page.Items[n-1].ID
			h.events.Cursor = store.EncodeCursor(string(last[:]))
		}
		if n == len(page.Items) {
			h.events.Cursor = page.Next
		}
		switch {
		case h.left == 0 || n == len(page.Items) && page.Next == "":
			return "", nil
		case !time.Now().Before(h.until) && h.events.Cursor == from:
			return "", rest.ErrStoreTimeout
		case !time.Now().Before(h.until):
			return h.events.Cursor, nil
		}
		h.pace(n)
	}
}

// step reads or compares a part of a page, and rests.
func (h *history) step(ctx context.Context, do func(ctx context.Context) error) error {
	began := time.Now()
	if err := h.read(ctx, do); err != nil {
		return err
	}
	worked := time.Since(began)
	h.worked += worked
	if !batch.Sleep(ctx, min(time.Duration(float64(worked)*h.rest), longestRest)) {
		return context.Cause(ctx)
	}
	return nil
}

// pace sets how long the steps of the next page rest, after a page of n events: as long as the time for the
// events that are left allows.
func (h *history) pace(n int) {
	forPage := float64(time.Until(h.until)-endsEarly) * float64(n) / float64(h.left)
	h.rest = min(max(forPage/float64(h.worked)-1, leastRest), mostRest)
}

// page returns the next page of events, after it has read the deliveries of all of them.
func (h *history) page(ctx context.Context) (page store.Page[postrider.Event], err error) {
	h.events.Limit = min(h.events.Limit, h.left)
	if err := h.step(ctx, func(ctx context.Context) (err error) {
		page, err = h.Store.Events(ctx, h.events)
		return err
	}); err != nil || len(page.Items) == 0 {
		return page, err
	}
	size := 1
	for i := range page.Items {
		size += page.Items[i].Size()
	}
	h.events.Limit = min(max(pageBytes*len(page.Items)/size, 1), store.MaxLimit)
	if h.made.To.IsZero() {
		h.made.To = page.Items[0].ID.Time().Add(madeLater)
	}
	return page, h.follow(ctx, page.Items[len(page.Items)-1].ID)
}

// follow reads the deliveries of the endpoint down to those of the event.
func (h *history) follow(ctx context.Context, event postrider.EventID) error {
	for h.follows && time.Now().Before(h.until) {
		reached, some, err := store.IDKey[postrider.DeliveryID](h.made.Paging)
		if err != nil || some && reached.Compare(postrider.DeliveryID(event)) < 0 {
			return err
		}
		if err := h.step(ctx, func(ctx context.Context) error {
			page, err := h.Store.Deliveries(ctx, h.made)
			for i := range page.Items {
				h.delivered[page.Items[i].Event] = true
			}
			h.made.Cursor, h.follows = page.Next, page.Next != ""
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// tally counts what comparisons say.
type tally struct {
	wants   *subscription
	against string // what delivered means
	result  apitypes.WhatIfResult
	oldest  time.Time
	reasons map[reason]int
	// differing are the first examples of events that are new or gone, same are the first of the others.
	differing, same []apitypes.WhatIfExample
}

// What a comparison calls delivered: that the endpoint has a delivery, or that its present subscription
// selects the event.
const (
	againstDeliveries   = "deliveries"
	againstSubscription = "subscription"
)

// tallyOf returns the tally that goes on from a result.
func tallyOf(wants *subscription, r apitypes.WhatIfResult) tally {
	t := tally{wants: wants, against: r.Against, result: r, reasons: map[reason]int{}}
	if r.Oldest != nil {
		t.oldest = r.Oldest.Time
	}
	for _, why := range r.NotMatched {
		t.reasons[reason{why.Reason, why.Path, string(why.Condition)}] = why.Events
	}
	for _, e := range r.Examples {
		if e.Matches == e.Delivered {
			t.same = append(t.same, e)
		} else {
			t.differing = append(t.differing, e)
		}
	}
	return t
}

// add compares an event with the subscription.
func (t *tally) add(e *postrider.Event, delivered bool) {
	r, compared := &t.result, comparingOf(e)
	r.Events++
	if t.oldest.IsZero() || e.CreatedAt.Before(t.oldest) {
		t.oldest = e.CreatedAt
	}
	why := t.wants.reasonOf(compared)
	matches := why == reason{}
	if matches {
		r.Matched++
	} else {
		t.reasons[why]++
	}
	if delivered {
		r.Delivered++
	}
	examples := &t.differing
	switch {
	case matches == delivered:
		examples = &t.same
	case matches:
		r.New++
	default:
		r.Gone++
	}
	if len(*examples) < maxExamples {
		*examples = append(*examples, apitypes.WhatIfExample{
			Event: e.ID, Type: e.Type, CreatedAt: render.Instant(e.CreatedAt), Delivered: delivered, Comparison: t.wants.explain(compared),
		})
	}
}

// view returns what was counted in the form of a response.
func (t *tally) view() apitypes.WhatIfResult {
	view := t.result
	view.Against = t.against
	view.Oldest, view.NotMatched = render.TimeOrNull(t.oldest), []apitypes.WhatIfReason{}
	for why, n := range t.reasons {
		view.NotMatched = append(view.NotMatched, why.view(n))
	}
	slices.SortFunc(view.NotMatched, func(a, b apitypes.WhatIfReason) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Reason+a.Path, b.Reason+b.Path))
	})
	shown := append(t.differing, t.same[:min(len(t.same), maxExamples-len(t.differing))]...)
	slices.SortFunc(shown, func(a, b apitypes.WhatIfExample) int { return b.Event.Compare(a.Event) })
	view.Examples = append([]apitypes.WhatIfExample{}, shown...)
	return view
}
