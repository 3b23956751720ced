package app_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

// TestABacklogIsFullOnEveryServer runs two servers on one database. The events that both accept for
// an endpoint that does not respond fill one backlog, and both skip new events from the same commit
// on.
func TestABacklogIsFullOnEveryServer(t *testing.T) {
	t.Parallel()
	const limit = 40
	answers := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-answers:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(receiver.Close)
	dir := t.TempDir()
	env := map[string]string{
		"POSTRIDER_DATABASE_URL":  testkit.Postgres(t, func(context.Context, string) error { return nil }),
		"POSTRIDER_QUOTA_BACKLOG": "40",
	}
	servers := []*running{startWith(t, dir, env), startWith(t, dir, env)}
	e := servers[0].subscribe(t, receiver.URL)

	for i := range limit {
		servers[i%2].publish(t)
	}
	full := func(r *running) *apitypes.Time {
		now, err := r.api.Endpoint(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.FullSince
	}
	eventually(t, "the endpoint is full", func() bool { return full(servers[0]) != nil })
	for _, r := range servers {
		if since := full(r); since == nil || !since.Equal(full(servers[0]).Time) {
			t.Errorf("a server says that it is full since %v, the other %v", since, full(servers[0]))
		}
		if d := r.deliveryTo(t, r.publish(t)); d.Status != postrider.Skipped || d.Reason == nil || *d.Reason != postrider.ReasonBacklogFull {
			t.Errorf("a delivery to the full endpoint is %+v, want it skipped", d)
		}
	}

	close(answers)
	eventually(t, "the endpoint drains", func() bool { return full(servers[1]) == nil })
	for _, r := range servers {
		if d := r.deliveryTo(t, r.publish(t)); d.Status == postrider.Skipped {
			t.Errorf("a delivery to the endpoint that has drained is %+v", d)
		}
	}
}

// deliveryTo returns the only delivery of an event.
func (r *running) deliveryTo(t *testing.T, event postrider.EventID) apitypes.Delivery {
	t.Helper()
	page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("the event has %d deliveries: %v", len(page.Data), err)
	}
	return page.Data[0]
}
