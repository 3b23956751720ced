package ingest_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// fill marks up to n endpoints of the harness as full, oldest first.
func (r *harness) fill(n int) {
	r.Helper()
	changes, err := r.store.Changes(r.Context(), 0, n)
	if err != nil {
		r.Fatal(err)
	}
	var full store.MarkFull
	for _, e := range changes.Endpoints {
		full.Full = append(full.Full, e.Endpoint.ID)
	}
	if _, err := r.store.MarkFull(r.Context(), full); err != nil {
		r.Fatal(err)
	}
}

// reasons counts the skipped deliveries of an event by their reason.
func (r *harness) reasons(event postrider.EventID) map[string]int {
	r.Helper()
	page, err := r.store.Deliveries(r.Context(), store.DeliveryQuery{
		Event: event, Status: postrider.Skipped,
		Paging: store.Paging{Limit: store.MaxLimit},
	})
	if err != nil {
		r.Fatal(err)
	}
	reasons := map[string]int{}
	for _, d := range page.Items {
		reasons[d.Reason]++
	}
	return reasons
}

func TestAFullEndpointIsSkippedAndOthersAreNot(t *testing.T) {
	t.Parallel()
	committed := make(chan observe.Committed, 1)
	r := newHarness(t, ingest.Options{Hooks: observe.Hooks{Committed: func(c observe.Committed) { committed <- c }}})
	defer r.run()()
	r.endpoints(1, postrider.EndpointEnabled)
	r.endpoints(1, postrider.EndpointPaused)
	r.endpoints(1, postrider.EndpointDisabled)
	r.fill(3)
	r.endpoints(2, postrider.EndpointEnabled)
	got := r.publish(r.event("", `1`))[0]
	if found := r.deliveries(got.ID); got.Deliveries != 2 || found[postrider.Pending] != 2 {
		t.Errorf("receipt %+v, stored %v, want 2 pending", got, found)
	}
	want := map[string]int{postrider.ReasonBacklogFull: 2, postrider.ReasonEndpointDisabled: 1}
	if reasons := r.reasons(got.ID); !maps.Equal(reasons, want) {
		t.Errorf("skipped %v, want %v", reasons, want)
	}
	if c := <-committed; c.Skipped != (observe.Skipped{Full: 2, Disabled: 1}) || c.Deliveries != 5 {
		t.Errorf("observers saw %+v, want the same", c)
	}
}

func TestAMarkIsSeenByTheNextCommit(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	r.endpoints(1, postrider.EndpointEnabled)
	if got := r.publish(r.event("", `1`))[0]; got.Deliveries != 1 {
		t.Fatalf("receipt %+v, want a delivery", got)
	}
	r.fill(1) // this node's table does not have the change, but the store refuses the commit
	if got := r.publish(r.event("", `2`))[0]; got.Deliveries != 0 {
		t.Errorf("receipt %+v, want none", got)
	}
}

func TestAFullEndpointIsSkippedByAFanOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{FanOutAbove: 10, FanOutChunk: 7})
		r.endpoints(30, postrider.EndpointEnabled)
		r.fill(4)
		stop := r.run()
		event := r.publish(r.event("", `1`))[0].ID
		time.Sleep(time.Minute)
		if found, reasons := r.deliveries(event), r.reasons(event); found[postrider.Pending] != 26 || reasons[postrider.ReasonBacklogFull] != 4 {
			t.Errorf("stored %v, skipped %v, want 26 pending and the 4 that are full skipped", found, reasons)
		}
		stop()
	})
}

func TestATestGoesToAFullEndpoint(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	r.endpoints(1, postrider.EndpointEnabled)
	r.fill(1)
	if err := r.table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	changes, err := r.store.Changes(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e := r.event("", `1`)
	e.Type = "postrider.test"
	got, err := r.in.PublishTo(t.Context(), e, changes.Endpoints[0].Endpoint.ID)
	if err != nil || got.Deliveries != 1 {
		t.Errorf("PublishTo = %+v, %v, want a delivery", got, err)
	}
}
