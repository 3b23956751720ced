package api_test

import (
	"context"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

// answering is a publisher that returns the same result for every publish.
type answering struct {
	instantly
	receipts []postrider.Receipt
}

func (a answering) Publish(context.Context, []postrider.Event) ([]postrider.Receipt, error) {
	return a.receipts, nil
}

func TestReceiptsAreAnsweredAsDocumented(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	id, err := postrider.ParseID[postrider.EventID]("evt_01h455vb4pex5vsknk084sn02q")
	if err != nil {
		t.Fatal(err)
	}
	const event = `{"account": "acme", "type": "a", "data": 1}`
	made := postrider.Receipt{ID: id, Deliveries: 12}
	again, job := postrider.Receipt{ID: id, Duplicate: true}, postrider.Receipt{ID: id, FanOut: true}
	for _, tt := range []struct {
		name, route, body string
		receipts          []postrider.Receipt
		status            int
		want              string
	}{
		{"one", "POST /events", event, []postrider.Receipt{made}, 202, `{"id":"evt_01h455vb4pex5vsknk084sn02q","deliveries":12}` + "\n"},
		{
			"a duplicate", "POST /events", event,
			[]postrider.Receipt{again},
			200,
			`{"id":"evt_01h455vb4pex5vsknk084sn02q","duplicate":true,"deliveries":null}` + "\n",
		},
		{
			"a fan-out job", "POST /events", event,
			[]postrider.Receipt{job},
			202,
			`{"id":"evt_01h455vb4pex5vsknk084sn02q","deliveries":null,"fanout":true}` + "\n",
		},
		{
			"a batch", "POST /events/batch", `{"events": [` + event + `]}`,
			[]postrider.Receipt{made, again},
			202,
			`{"data":[{"id":"evt_01h455vb4pex5vsknk084sn02q","duplicate":false},{"id":"evt_01h455vb4pex5vsknk084sn02q","duplicate":true}]}` + "\n",
		},
	} {
		w.handler = api.New(api.Deps{
			Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: answering{receipts: tt.receipts}, Guard: guard{}, Verifier: new(receiver),
			Vault: vault{}, Notifier: deaf{}, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
		}, api.Options{})
		got := w.do(w.admin, tt.route, tt.body)
		if got.status != tt.status || got.text != tt.want || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s = %d %s %q, want %d %q", tt.name, got.status, got.header.Get("Content-Type"), got.text, tt.status, tt.want)
		}
	}
}
