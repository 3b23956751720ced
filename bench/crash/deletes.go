package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// doomedPath begins the paths of the endpoints that are deleted during the kills. Until its
// deletion, such an endpoint gets every event of the types crash.a and crash.b.
const doomedPath = "/doomed/"

// deletion is a doomed endpoint and its deletion.
type deletion struct {
	endpoint postrider.EndpointID
	path     string
	answered time.Time // when a server answered the deletion; zero: not deleted
}

// deleteAll deletes the doomed endpoints one after the other, spread over the restarts.
func (p *phase) deleteAll(ctx context.Context) {
	for i := range p.doomed {
		due := int64(p.times) * int64(i+1) / int64(len(p.doomed)+1)
		for p.disturbed.Load() < due && ctx.Err() == nil {
			pause(ctx, 5*time.Millisecond)
		}
		for n := i; ctx.Err() == nil; n++ { // the next server, since this one may be down
			err := p.servers[n%len(p.servers)].Client().DeleteEndpoint(ctx, p.doomed[i].endpoint)
			if refused, ok := errors.AsType[*client.Error](err); err == nil || ok && refused.Status == http.StatusNotFound {
				p.doomed[i].answered = time.Now()
				break
			}
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// checkDeletions lists every delivery of the account and compares the lists with the requests that
// arrived. Each delivery must be listed once and must have ended. A delivery of a doomed endpoint
// must be cancelled; it may be delivered if the endpoint accepted it. The statistics must count the
// same deliveries. As with duplicates, a server that was killed may have left an acceptance
// unrecorded.
func (p *phase) checkDeletions(ctx context.Context, window time.Duration) error {
	paths := map[postrider.EndpointID]string{}
	for _, d := range p.doomed {
		if d.answered.IsZero() {
			return fmt.Errorf("%s was not deleted", d.path)
		}
		paths[d.endpoint] = d.path
	}
	counted, unrecorded := map[postrider.Status]int64{}, 0
	listed := map[postrider.DeliveryID]bool{}
	f := client.DeliveryFilter{Account: account, Paging: client.Paging{Limit: 250}}
	for {
		page, err := p.servers[0].Client().Deliveries(ctx, f)
		if err != nil {
			return fmt.Errorf("list all deliveries: %w", err)
		}
		for _, d := range page.Data {
			if listed[d.ID] {
				return fmt.Errorf("delivery %s is listed twice", d.ID)
			}
			listed[d.ID] = true
			counted[d.Status]++
			path, isDoomed := paths[d.Endpoint]
			if !isDoomed {
				continue
			}
			excused, err := p.receiver.agrees(arrival{path, d.Event}, d, window)
			if err != nil {
				return err
			}
			unrecorded += excused
		}
		if page.Next() == "" {
			break
		}
		f.Cursor = page.Next()
	}
	late, longest := p.receiver.lateAfter(p.doomed)
	fmt.Printf("  %d endpoints deleted; of %d deliveries listed, %d are delivered and %d cancelled, as they arrived;\n"+
		"  %d were accepted, and a kill kept that from being recorded\n"+
		"  %d requests began to arrive more than 100 ms after the response to the deletion, the last %v after it\n",
		len(p.doomed), len(listed), counted[postrider.Delivered], counted[postrider.Cancelled], unrecorded,
		late, longest.Round(time.Millisecond))
	return p.checkStats(ctx, counted)
}

// agrees compares a delivery of a doomed endpoint with the requests that arrived there. It returns
// 1 if the endpoint accepted the delivery but a kill prevented the record of that.
func (r *receiver) agrees(a arrival, d apitypes.Delivery, window time.Duration) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	accepted := r.arrivals[a]
	switch {
	case d.Attempts < r.byEvent[a]:
		return 0, fmt.Errorf("%d requests of %s arrived at %s, and %d attempts are on record", r.byEvent[a], d.ID, a.path, d.Attempts)
	case d.Status == postrider.Delivered && len(accepted) == 0:
		return 0, fmt.Errorf("%s is delivered, and did not arrive at %s", d.ID, a.path)
	case d.Status == postrider.Delivered, d.Status == postrider.Cancelled && len(accepted) == 0:
		return 0, nil
	case d.Status != postrider.Cancelled:
		return 0, fmt.Errorf("%s of the deleted %s is %s", d.ID, a.path, d.Status)
	}
	for _, at := range accepted {
		if _, killed := explainedBy(r.kills, at, time.Now(), window); !killed {
			return 0, fmt.Errorf("%s was accepted at %s and is cancelled; it was accepted %s", d.ID, a.path, beside(r.kills, at))
		}
	}
	return 1, nil
}

// lateAfter counts the requests that began to arrive at a doomed endpoint more than 100 ms after
// its deletion was answered. longest is how late the last such request was.
func (r *receiver) lateAfter(doomed []deletion) (late int, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range doomed {
		for _, at := range r.began[d.path] {
			after := at.Sub(d.answered)
			longest = max(longest, after)
			if after > 100*time.Millisecond {
				late++
			}
		}
	}
	return late, longest
}

// checkStats waits until the statistics of the account count as many delivered and cancelled
// deliveries as the lists have. The statistics are folded every ten seconds.
func (p *phase) checkStats(ctx context.Context, listed map[postrider.Status]int64) error {
	var got apitypes.StatsDeliveries
	for range 100 {
		stats, err := p.servers[0].Client().AccountStats(ctx, account, client.StatsQuery{From: p.began.Add(-time.Minute), Step: "minute"})
		got = stats.Total.Deliveries
		if err == nil && got.Delivered == listed[postrider.Delivered] && got.Cancelled == listed[postrider.Cancelled] {
			fmt.Printf("  the statistics count the same\n")
			return nil
		}
		pause(ctx, 300*time.Millisecond)
	}
	return fmt.Errorf("the lists have %d delivered and %d cancelled, and the statistics %d and %d",
		listed[postrider.Delivered], listed[postrider.Cancelled], got.Delivered, got.Cancelled)
}
