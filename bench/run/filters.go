package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

const (
	// filterer is an account whose endpoints have expensive conditions.
	filterer = "filterer"
	// filterers is the number of these endpoints, and of the connections that publish for them.
	filterers, filterConnections = 300, 16
	// filterElements is the number of elements of the array that each condition compares with itself.
	filterElements = 40
)

// hostileConditions creates endpoints whose conditions compare each pair of elements of an array, and
// hold for no event.
func hostileConditions(ctx context.Context, w *environment, _ *reading) error {
	c := w.nodes[0].Client()
	if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: filterer, Name: "Filterer"}); err != nil {
		return fmt.Errorf("create the account: %w", err)
	}
	for i := range filterers {
		if _, err := c.CreateEndpoint(ctx, apitypes.EndpointCreate{
			Account: filterer, URL: "http://127.0.0.1:" + w.sink.Port() + "/" + filterer, EventTypes: []string{filterer + ".*"},
			Policy: apitypes.Policy{Condition: apitypes.Of(fmt.Sprintf("data.a.exists(x, data.a.exists(y, x == y + %d.0))", 1000+i))},
		}); err != nil {
			return fmt.Errorf("create an endpoint with a condition: %w", err)
		}
	}
	return nil
}

// publishForConditions publishes for the account. The client waits as long as a refusal says, so the
// refusals are counted by the server.
func publishForConditions(lasts time.Duration) action {
	data := []byte(`{"a": [` + strings.Repeat("1, ", filterElements-1) + `2]}`)
	return func(ctx context.Context, w *environment, r *reading) error {
		ctx, cancel := context.WithTimeout(ctx, max(time.Second, lasts-2*time.Second))
		defer cancel()
		c := w.nodes[0].Client()
		var accepted atomic.Int64
		var publishing sync.WaitGroup
		for range filterConnections {
			publishing.Go(func() {
				for ctx.Err() == nil {
					if _, err := c.Publish(ctx, apitypes.EventCreate{Account: filterer, Type: filterer + ".t0", Data: data}); err == nil {
						accepted.Add(1)
					} else if ctx.Err() == nil {
						pause(ctx, 100*time.Millisecond)
					}
				}
			})
		}
		publishing.Wait()
		r.said = append(r.said, fmt.Sprintf("%d publishes of the account with the conditions were accepted", accepted.Load()))
		if accepted.Load() == 0 {
			return errors.New("no publish of the account with the conditions was accepted")
		}
		return nil
	}
}

// asking is an account whose stored events are compared with a subscription.
const asking = "asking"

// storedEvents publishes n events of the account.
func storedEvents(n int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		if w.asked != (postrider.EndpointID{}) { // the other basis has made them
			return nil
		}
		if err := w.makeAccount(ctx, asking, asking); err != nil {
			return fmt.Errorf("make an account: %w", err)
		}
		if err := w.publishAll(ctx, asking, asking, n); err != nil {
			return fmt.Errorf("publish what is to be compared: %w", err)
		}
		page, err := w.nodes[0].Client().Endpoints(ctx, client.EndpointFilter{Account: asking})
		if err != nil || len(page.Data) != 1 {
			return fmt.Errorf("find the endpoint of %d: %w", len(page.Data), err)
		}
		w.asked = page.Data[0].ID
		return w.untilNothingIsPending(ctx)
	}
}

// askWhatIf compares n stored events with a filter, and counts those that were compared before the
// server stopped.
func askWhatIf(n int) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		result, err := w.nodes[0].Client().WhatIf(ctx, w.asked, apitypes.WhatIf{
			Subscription: apitypes.Subscription{Filter: apitypes.Of(json.RawMessage(`{"data": {"n": [{"numeric": [">", 1000]}]}}`))},
			Last:         &n,
		})
		if err != nil {
			return fmt.Errorf("compare stored events: %w", err)
		}
		r.work.Store(int64(result.Events))
		r.said = append(r.said, fmt.Sprintf("%d events were compared, %d matched", result.Events, result.Matched))
		return nil
	}
}
