package app_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/postrider/postrider/apitypes"
)

// TestPromise7AfterTheResponseAFilterIsInEffect changes a filter through one server, and publishes
// through all as soon as the server has responded.
func TestPromise7AfterTheResponseAFilterIsInEffect(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"sqlite": 1, "postgres": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChanges(t, n)
			id := c.endpoint("https://a.invalid/hooks", "order.*")
			for i := range 10 {
				change := apitypes.EndpointUpdate{}
				change.Filter = apitypes.Of(json.RawMessage(fmt.Sprintf(`{"data": {"round": [%d]}}`, i)))
				_, err := c.apis[i%n].ChangeEndpoint(t.Context(), id, change)
				c.must(err)
				for node, api := range c.apis {
					for _, round := range []int{i - 1, i} {
						receipt, err := api.Publish(t.Context(), apitypes.EventCreate{
							Account: "acme", Type: "order.created", Data: json.RawMessage(fmt.Sprintf(`{"round": %d}`, round)),
						})
						c.must(err)
						if wanted := *receipt.Deliveries == 1; wanted != (round == i) {
							t.Errorf("server %d, after the change to round %d: an event of round %d is delivered: %t", node, i, round, wanted)
						}
					}
				}
			}
		})
	}
}
