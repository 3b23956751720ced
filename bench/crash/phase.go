package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

const account = "crash"

// The endpoints, by the path of the receiver, and what they subscribe to.
var endpoints = map[string]string{"/all": "*", "/a": "crash.a", "/b": "crash.b"}

// pathsOf returns where an event of the type must arrive.
func pathsOf(eventType string) []string {
	return []string{"/all", map[string]string{"crash.a": "/a", "crash.b": "/b"}[eventType]}
}

func subscribe(ctx context.Context, c *client.Client, url string) error {
	if _, err := c.CreateAccount(ctx, client.NewAccount{UID: account}); err != nil {
		return fmt.Errorf("create account: %w", err)
	}
	for path, pattern := range endpoints {
		_, err := c.CreateEndpoint(ctx, client.NewEndpoint{
			Account: account, URL: url + path, EventTypes: []string{pattern}, Concurrency: 20, TimeoutMS: 5000,
			Retry: &client.Retry{BaseMS: 100, Factor: 2, CapMS: 2000, MaxAttempts: 100, Jitter: "full"},
		})
		if err != nil {
			return fmt.Errorf("create endpoint %s: %w", path, err)
		}
	}
	return nil
}

// phase publishes events while the server is restarted, and validates.
type phase struct {
	name       string
	server     *lab.Server
	receiver   *receiver
	events     int
	publishers int
	times      int
	random     *rand.Rand
	restart    func(context.Context) error

	next, acked atomic.Int64
	published   ledger
}

// run publishes, restarts and validates. The server lives on with ctx.
func (p *phase) run(ctx context.Context, window time.Duration) error {
	p.published = ledger{acked: map[postrider.EventID]string{}}
	p.receiver.startPhase()
	began := time.Now()
	publish, cancel := context.WithCancel(ctx)
	defer cancel()
	var publishing sync.WaitGroup
	for range p.publishers {
		publishing.Go(func() { p.publish(publish) })
	}
	if err := p.disturb(ctx); err != nil {
		cancel()
		publishing.Wait()
		return fmt.Errorf("%s: %w", p.name, err)
	}
	publishing.Wait()
	p.receiver.misbehave.Store(false)
	published := time.Since(began)
	if err := p.untilEmpty(ctx); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	v := p.published.check(p.receiver, window)
	fmt.Printf("%s: %d restarts, %d events acknowledged in %.0f s, queue empty after %.0f s\n%s",
		p.name, p.times, len(p.published.acked), published.Seconds(), time.Since(began).Seconds(), v)
	return v.err()
}

// publish publishes events until there are no more. One whose fate is unknown
// is published again, with its key.
func (p *phase) publish(ctx context.Context) {
	for ctx.Err() == nil {
		n := p.next.Add(1) - 1
		if n >= int64(p.events) {
			return
		}
		event := client.NewEvent{
			Account: account, Type: []string{"crash.a", "crash.b"}[n%2],
			Data:           json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
			IdempotencyKey: fmt.Sprintf("%s-%d", p.name, n),
		}
		var receipt client.Receipt
		for err := errors.New("not yet"); err != nil && ctx.Err() == nil; {
			if receipt, err = p.server.Client().Publish(ctx, event); err != nil {
				p.published.refused(err)
				pause(ctx, 20*time.Millisecond)
			}
		}
		if ctx.Err() != nil {
			return
		}
		p.published.ack(receipt.ID, event.Type)
		p.acked.Add(1)
		if n%10 == 0 {
			p.again(ctx, event, receipt.ID)
		}
	}
}

// again publishes an acknowledged event once more: the answer must be the same.
func (p *phase) again(ctx context.Context, event client.NewEvent, id postrider.EventID) {
	receipt, err := p.server.Client().Publish(ctx, event)
	if err == nil && (receipt.ID != id || !receipt.Duplicate) {
		p.published.contradict(fmt.Sprintf("%s repeated is %s (duplicate %t)", id, receipt.ID, receipt.Duplicate))
	}
}

// disturb restarts the server at random times, spread over the publishes.
func (p *phase) disturb(ctx context.Context) error {
	slice := float64(p.events) / float64(max(1, p.times))
	for i := range p.times {
		due := int64(slice * (float64(i) + p.random.Float64()*0.9))
		for p.acked.Load() < due && ctx.Err() == nil {
			select {
			case <-p.server.Process().Exited():
				return fmt.Errorf("the server ended by itself:\n%s", p.server.Process().Tail())
			default:
				pause(ctx, time.Millisecond)
			}
		}
		pause(ctx, time.Duration(p.random.Int64N(int64(20*time.Millisecond))))
		if err := p.restart(ctx); err != nil {
			return fmt.Errorf("restart %d: %w", i+1, err)
		}
	}
	return ctx.Err()
}

// untilEmpty waits until the API lists no pending delivery.
func (p *phase) untilEmpty(ctx context.Context) error {
	for {
		page, err := p.server.Client().Deliveries(ctx, client.DeliveryFilter{
			Account: account, Status: postrider.Pending, Paging: client.Paging{Limit: 1},
		})
		if err == nil && len(page.Items) == 0 && page.Next == "" {
			return p.noDeadLetters(ctx)
		}
		pause(ctx, 200*time.Millisecond)
		if ctx.Err() != nil {
			return errors.Join(errors.New("wait for an empty queue: gave up"), err)
		}
	}
}

func (p *phase) noDeadLetters(ctx context.Context) error {
	page, err := p.server.Client().DeadLetters(ctx, client.DeadLetterFilter{Account: account})
	if err != nil {
		return fmt.Errorf("list dead letters: %w", err)
	}
	if len(page.Items) > 0 {
		return fmt.Errorf("there are dead letters, the first is %+v", page.Items[0])
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
