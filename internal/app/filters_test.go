package app_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/apitypes"
)

// selecting has, for each option that says which events an endpoint gets, the change of a round and the
// event that only this round's change selects.
var selecting = map[string]func(round int) (apitypes.Policy, apitypes.EventCreate){
	"filter": func(round int) (p apitypes.Policy, e apitypes.EventCreate) {
		p.Filter = apitypes.Of(json.RawMessage(fmt.Sprintf(`{"data": {"round": [%d]}}`, round)))
		e.Data = json.RawMessage(fmt.Sprintf(`{"round": %d}`, round))
		return p, e
	},
	"condition": func(round int) (p apitypes.Policy, e apitypes.EventCreate) {
		p.Condition = apitypes.Of(fmt.Sprintf("data.round == %d", round))
		e.Data = json.RawMessage(fmt.Sprintf(`{"round": %d}`, round))
		return p, e
	},
	"channels": func(round int) (p apitypes.Policy, e apitypes.EventCreate) {
		name := fmt.Sprintf("round-%d", round)
		p.Channels = apitypes.Of([]string{name})
		e.Data, e.Channels = json.RawMessage(`{}`), []string{name}
		return p, e
	},
	"changed": func(round int) (p apitypes.Policy, e apitypes.EventCreate) {
		path := fmt.Sprintf("$.round%d", round)
		p.Changed = apitypes.Of([]string{path})
		e.Data, e.ChangedPaths = json.RawMessage(`{}`), []string{path}
		return p, e
	},
}

// TestPromise7AfterTheResponseASubscriptionIsInEffect changes which events an endpoint gets through one
// server, and publishes through all as soon as the server has responded.
func TestPromise7AfterTheResponseASubscriptionIsInEffect(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"sqlite": 1, "postgres": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChanges(t, n)
			for option, change := range selecting {
				id := c.endpoint("https://a.invalid/hooks", option+".*")
				longest := time.Duration(0)
				for round := 1; round <= 10; round++ {
					policy, _ := change(round)
					begun := time.Now()
					_, err := c.apis[round%n].ChangeEndpoint(t.Context(), id, apitypes.EndpointUpdate{Policy: policy})
					c.must(err)
					longest = max(longest, time.Since(begun))
					for node, api := range c.apis {
						for _, of := range []int{round - 1, round} {
							_, event := change(of)
							event.Account, event.Type = "acme", option+".created"
							receipt, err := api.Publish(t.Context(), event)
							c.must(err)
							if wanted := *receipt.Deliveries == 1; wanted != (of == round) {
								t.Errorf("server %d, %s of round %d: an event of round %d is delivered: %t", node, option, round, of, wanted)
							}
						}
					}
				}
				if t.Logf("the longest change of %s took %v", option, longest); longest > time.Second {
					t.Errorf("a change of %s was in effect after %v, want within a second", option, longest)
				}
			}
			if n := c.accepted.Load(); n > 0 {
				t.Errorf("%d changes were not in effect with the response", n)
			}
		})
	}
}
