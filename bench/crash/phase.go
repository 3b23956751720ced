package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

const account = "crash"

// endpoints maps the paths of the receiver to the types that the endpoints there subscribe to.
var endpoints = map[string]string{"/all": "*", "/a": "crash.a", "/b": "crash.b"}

// pathsOf returns the paths at which an event of the type must arrive.
func pathsOf(eventType string, fanOut int) []string {
	if eventType == wide {
		paths := []string{"/all"}
		for i := range fanOut {
			paths = append(paths, widePathOf(i))
		}
		return paths
	}
	return []string{"/all", map[string]string{"crash.a": "/a", "crash.b": "/b"}[eventType]}
}

// wide is the event type of the fan-out endpoints.
const wide = "crash.wide"

// widePath begins the paths of the fan-out endpoints.
const widePath = "/wide/"

func widePathOf(i int) string { return fmt.Sprintf("%s%d", widePath, i) }

// subscribe creates the endpoints, and returns those that are to be deleted.
func subscribe(ctx context.Context, c *client.Client, url string, o options) (doomed []deletion, err error) {
	if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: account}); err != nil {
		return nil, fmt.Errorf("create account: %w", err)
	}
	to := map[string][]string{}
	for path, pattern := range endpoints {
		to[path] = []string{pattern}
	}
	for i := range o.fanOut {
		to[widePathOf(i)] = []string{wide}
	}
	for i := range o.deletes {
		to[fmt.Sprintf("%s%d", doomedPath, i)] = []string{"crash.a", "crash.b"}
	}
	for path, patterns := range to {
		created, err := c.CreateEndpoint(ctx, apitypes.EndpointCreate{
			Account: account, URL: url + path, EventTypes: patterns,
			Policy: apitypes.Policy{
				Concurrency: apitypes.Of(20), TimeoutMS: apitypes.Of[int64](5000),
				Retry: apitypes.Of(apitypes.Retry{BaseMS: 100, Factor: 2, CapMS: 2000, MaxAttempts: 100, Jitter: "full"}),
			},
		})
		if err != nil {
			return nil, fmt.Errorf("create endpoint %s: %w", path, err)
		}
		if strings.HasPrefix(path, doomedPath) {
			doomed = append(doomed, deletion{endpoint: created.ID, path: path})
		}
	}
	return doomed, nil
}

// phase publishes events while servers are restarted, and then checks the result.
type phase struct {
	name       string
	servers    []*lab.Server
	receiver   *receiver
	events     int
	publishers int
	times      int
	random     *rand.Rand
	min, max   time.Duration // how long a server lives; 0: the restarts are spread over the publishes
	fanOut     int           // endpoints of the events of type wide, which are published one at a time
	doomed     []deletion    // endpoints to delete meanwhile
	restart    func(context.Context, *lab.Server) error

	began time.Time

	next, acked atomic.Int64
	disturbed   atomic.Int64 // restarts so far
	restarted   atomic.Bool  // the restarts are over
	published   ledger
}

// run publishes, restarts and checks. The server runs on until ctx ends.
func (p *phase) run(ctx context.Context, window time.Duration) error {
	p.published = ledger{acked: map[postrider.EventID]string{}}
	p.receiver.startPhase()
	p.began = time.Now()
	publish, cancel := context.WithCancel(ctx)
	defer cancel()
	var publishing sync.WaitGroup
	for range p.publishers {
		publishing.Go(func() { p.publish(publish) })
	}
	if p.fanOut > 0 {
		publishing.Go(func() { p.publishWide(publish) })
	}
	if len(p.doomed) > 0 {
		publishing.Go(func() { p.deleteAll(publish) })
	}
	if err := p.disturb(ctx); err != nil {
		cancel()
		publishing.Wait()
		return fmt.Errorf("%s: %w", p.name, err)
	}
	publishing.Wait()
	p.receiver.misbehave.Store(false)
	p.restarted.Store(true)
	published := time.Since(p.began)
	if err := p.untilEmpty(ctx); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	v := p.published.check(p.receiver, window, p.fanOut)
	if err := p.checkRecords(ctx); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	fmt.Printf("%s: %d restarts, %d events acknowledged in %.0f s, queue empty after %.0f s\n%s",
		p.name, p.times, len(p.published.acked), published.Seconds(), time.Since(p.began).Seconds(), v)
	if err := v.err(); err != nil || len(p.doomed) == 0 {
		return err
	}
	return p.checkDeletions(ctx, window)
}

// publish publishes events until there are no more. If a publish gets no answer, it is repeated
// with its key.
func (p *phase) publish(ctx context.Context) {
	for ctx.Err() == nil {
		n := p.next.Add(1) - 1
		if n >= int64(p.events) {
			return
		}
		event := apitypes.EventCreate{
			Account: account, Type: []string{"crash.a", "crash.b"}[n%2],
			Data:           json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
			IdempotencyKey: fmt.Sprintf("%s-%d", p.name, n),
		}
		receipt, ok := p.publishUntilAnswered(ctx, int(n), event)
		if !ok {
			return
		}
		p.published.ack(receipt.ID, event.Type)
		p.acked.Add(1)
		if p.max > 0 { // the restarts take time, so slow down
			pause(ctx, 100*time.Millisecond)
		}
		if n%10 == 0 {
			p.again(ctx, event, receipt.ID)
		}
	}
}

// publishUntilAnswered publishes an event until a server answers. ok is false if ctx has ended.
func (p *phase) publishUntilAnswered(ctx context.Context, n int, event apitypes.EventCreate) (receipt apitypes.Receipt, ok bool) {
	for ctx.Err() == nil {
		receipt, err := p.servers[n%len(p.servers)].Client().Publish(ctx, event)
		if err == nil {
			return receipt, true
		}
		p.published.refused(err)
		pause(ctx, 20*time.Millisecond)
		n++ // the next server, since this one may be down
	}
	return apitypes.Receipt{}, false
}

// publishWide publishes events of type wide until the restarts are over. It publishes the next
// event when four fifths of the last one have arrived.
func (p *phase) publishWide(ctx context.Context) {
	for n := 0; ctx.Err() == nil && !p.restarted.Load() && p.acked.Load() < int64(p.events); n++ {
		before := p.receiver.receivedWide()
		receipt, ok := p.publishUntilAnswered(ctx, n, apitypes.EventCreate{
			Account: account, Type: wide, Data: json.RawMessage(`{}`), IdempotencyKey: fmt.Sprintf("%s-wide-%d", p.name, n),
		})
		if !ok {
			return
		}
		p.published.ack(receipt.ID, wide)
		for ctx.Err() == nil && p.acked.Load() < int64(p.events) && p.receiver.receivedWide() < before+p.fanOut*4/5 {
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// again publishes an acknowledged event once more. The answer must be the same.
func (p *phase) again(ctx context.Context, event apitypes.EventCreate, id postrider.EventID) {
	receipt, err := p.servers[0].Client().Publish(ctx, event)
	if err == nil && (receipt.ID != id || !receipt.Duplicate) {
		p.published.contradict(fmt.Sprintf("%s repeated is %s (duplicate %t)", id, receipt.ID, receipt.Duplicate))
	}
}

// disturb restarts servers at random times, and prints its progress every 25 restarts.
func (p *phase) disturb(ctx context.Context) error {
	if p.max == 0 {
		return p.disturbEvenly(ctx)
	}
	began := time.Now()
	for i := range p.times {
		pause(ctx, p.min+time.Duration(p.random.Int64N(int64(p.max-p.min)+1)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := p.restart(ctx, p.servers[p.random.IntN(len(p.servers))]); err != nil {
			return fmt.Errorf("restart %d: %w", i+1, err)
		}
		p.disturbed.Add(1)
		if done := i + 1; done%25 == 0 && done < p.times {
			fmt.Printf("%s: %d of %d after %.0f s, %d requests received\n", p.name, done, p.times, time.Since(began).Seconds(),
				p.receiver.received())
		}
	}
	p.acked.Store(int64(p.events)) // ends the publishers
	p.next.Store(int64(p.events))
	return ctx.Err()
}

// disturbEvenly spreads the restarts over the publishes.
func (p *phase) disturbEvenly(ctx context.Context) error {
	slice := float64(p.events) / float64(max(1, p.times))
	for i := range p.times {
		due := int64(slice * (float64(i) + p.random.Float64()*0.9))
		for p.acked.Load() < due && ctx.Err() == nil {
			select {
			case <-p.servers[0].Process().Exited():
				return fmt.Errorf("the server ended by itself:\n%s", p.servers[0].Process().Tail())
			default:
				pause(ctx, time.Millisecond)
			}
		}
		pause(ctx, time.Duration(p.random.Int64N(int64(20*time.Millisecond))))
		if err := p.restart(ctx, p.servers[p.random.IntN(len(p.servers))]); err != nil {
			return fmt.Errorf("restart %d: %w", i+1, err)
		}
		p.disturbed.Add(1)
	}
	return ctx.Err()
}

// untilEmpty waits until the API lists no pending delivery.
func (p *phase) untilEmpty(ctx context.Context) error {
	for {
		page, err := p.servers[0].Client().Deliveries(ctx, client.DeliveryFilter{
			Account: account, Status: postrider.Pending, Paging: client.Paging{Limit: 1},
		})
		if err == nil && len(page.Data) == 0 && page.Next() == "" {
			return p.noDeadLetters(ctx)
		}
		pause(ctx, 200*time.Millisecond)
		if ctx.Err() != nil {
			return errors.Join(errors.New("wait for an empty queue: gave up"), err)
		}
	}
}

func (p *phase) noDeadLetters(ctx context.Context) error {
	page, err := p.servers[0].Client().DeadLetters(ctx, client.DeadLetterFilter{Account: account})
	if err != nil {
		return fmt.Errorf("list dead letters: %w", err)
	}
	if len(page.Data) > 0 {
		return fmt.Errorf("there are dead letters, the first is %+v", page.Data[0])
	}
	return nil
}

// checkRecords checks up to 500 deliveries that arrived more than once. Each must have at least as
// many recorded attempts as requests arrived.
func (p *phase) checkRecords(ctx context.Context) error {
	c, checked, extra := p.servers[0].Client(), 0, 0
	paths, err := p.paths(ctx)
	if err != nil {
		return err
	}
	for a, n := range p.receiver.repeated() {
		if checked == 500 {
			break
		}
		checked++
		page, err := c.Deliveries(ctx, client.DeliveryFilter{Event: a.event, Endpoint: paths[a.path]})
		if err != nil || len(page.Data) == 0 {
			return errors.Join(fmt.Errorf("the delivery of %s to %s is not listed", a.event, a.path), err)
		}
		got := page.Data[0].Attempts
		if got < n {
			return fmt.Errorf("%d requests of %s arrived at %s, and %d attempts are on record", n, page.Data[0].ID, a.path, got)
		}
		extra += got - n
	}
	fmt.Printf("  of %d deliveries that arrived more than once every request is on record, and %d attempts that did not arrive\n", checked,
		extra)
	return nil
}

// paths returns the ids of the endpoints by their paths.
func (p *phase) paths(ctx context.Context) (map[string]postrider.EndpointID, error) {
	paths := map[string]postrider.EndpointID{}
	for _, d := range p.doomed { // lists leave out deleted endpoints
		paths[d.path] = d.endpoint
	}
	f := client.EndpointFilter{Account: account}
	for {
		page, err := p.servers[0].Client().Endpoints(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list endpoints: %w", err)
		}
		for _, e := range page.Data {
			paths[strings.TrimPrefix(e.URL, p.receiver.url)] = e.ID
		}
		if page.Next() == "" {
			return paths, nil
		}
		f.Cursor = page.Next()
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
