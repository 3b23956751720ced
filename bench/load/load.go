package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// result is the output of load. lab.LoadStats reads it.
type result struct {
	Accepted int64     `json:"accepted"`
	Refused  int64     `json:"refused"` // events of publishes whose answer was not 2xx
	Broken   int64     `json:"broken"`  // events of publishes without an answer
	FirstAt  time.Time `json:"first_at"`
	LastAt   time.Time `json:"last_at"`
	P50      int64     `json:"p50_us"`
	P99      int64     `json:"p99_us"`
}

// publisher is one connection.
type publisher struct {
	plan      *plan
	place     int           // its number among the publishers
	turn      *atomic.Int64 // shared: the number of the next event
	client    *http.Client  // shared; used only with std
	start     time.Time
	result    result
	latencies []int32 // of accepted publishes, in microseconds
	body      []byte
}

// publish runs the plan's connections until they end, and adds up their results.
func publish(ctx context.Context, p plan) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.duration)
	defer cancel()
	var turn atomic.Int64
	client := newClient(p.connections)
	defer client.CloseIdleConnections()
	start := time.Now()
	publishers := make([]*publisher, p.connections)
	errs := make([]error, p.connections)
	var publishing sync.WaitGroup
	for i := range publishers {
		publishers[i] = &publisher{plan: &p, place: i, turn: &turn, client: client, start: start}
		publishing.Go(func() { errs[i] = publishers[i].run(ctx) })
	}
	publishing.Wait()
	if err := errors.Join(errs...); err != nil {
		return result{}, err
	}
	total := result{FirstAt: start, LastAt: time.Now()}
	var latencies []int32
	for _, one := range publishers {
		total.Accepted += one.result.Accepted
		total.Refused += one.result.Refused
		total.Broken += one.result.Broken
		latencies = append(latencies, one.latencies...)
	}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		total.P50 = int64(latencies[(len(latencies)-1)/2])
		total.P99 = int64(latencies[(len(latencies)-1)*99/100])
	}
	return total, nil
}

// run publishes one event after the other. A connection that breaks is made again, so the load
// continues when a server restarts. If the first connection cannot be made, run returns an error.
func (p *publisher) run(ctx context.Context) error {
	out, err := p.poster(ctx)
	if err != nil {
		return err
	}
	defer out.close()
	for {
		n := p.turn.Add(p.plan.batch) - p.plan.batch
		if p.plan.count > 0 && n >= p.plan.count || !p.await(ctx, n) {
			return nil
		}
		for answered := false; !answered && ctx.Err() == nil; {
			if answered, err = p.publish(ctx, out, n); err != nil {
				return err
			}
		}
	}
}

func (p *publisher) poster(ctx context.Context) (poster, error) {
	if p.plan.std {
		return &std{plan: p.plan, turn: p.place, client: p.client}, nil
	}
	return newConn(ctx, p.plan, p.place)
}

// publish publishes event n, or the batch that begins with it, once. done reports whether the publisher
// goes on to the next event.
func (p *publisher) publish(ctx context.Context, out poster, n int64) (done bool, err error) {
	sent := time.Now()
	status, answer, err := out.post(ctx, p.content(n))
	switch {
	case err != nil:
		p.result.Broken += p.plan.batch
		out.next()
		pause(ctx, 5*time.Millisecond)
		return !p.plan.keyed, nil //nolint:nilerr // the result counts it
	case status >= 200 && status <= 299:
		p.result.Accepted += p.plan.batch
		p.latencies = append(p.latencies, int32(time.Since(sent).Microseconds()))
	default:
		p.result.Refused += p.plan.batch
		if status != 429 && status != 503 {
			return true, fmt.Errorf("publish: the server answers %d: %s", status, answer)
		}
		pause(ctx, 100*time.Millisecond)
	}
	return true, nil
}

// await waits until event n is due, and returns false if the time is over. A late publish does not
// delay the due times of later events.
func (p *publisher) await(ctx context.Context, n int64) bool {
	if p.plan.rate > 0 {
		due := p.start.Add(time.Duration(float64(n) / p.plan.rate * float64(time.Second)))
		pause(ctx, time.Until(due))
	}
	return ctx.Err() == nil
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// path returns the path to which events are posted.
func (p *plan) path() string {
	if p.raw != "" {
		return p.raw
	}
	if p.batch > 1 {
		return "/v1/webhooks/events/batch"
	}
	return "/v1/webhooks/events"
}

// content returns the body of the publish of event n, or of the batch that begins with it.
func (p *publisher) content(n int64) []byte {
	if p.plan.batch == 1 {
		p.body = p.appendEvent(p.body[:0], n)
		return p.body
	}
	p.body = append(p.body[:0], `{"events":[`...)
	for i := range p.plan.batch {
		if i > 0 {
			p.body = append(p.body, ',')
		}
		p.body = p.appendEvent(p.body, n+i)
	}
	p.body = append(p.body, "]}"...)
	return p.body
}

// appendEvent appends event n.
func (p *publisher) appendEvent(b []byte, n int64) []byte {
	account := p.plan.account
	if p.plan.accounts > 0 {
		account += strconv.FormatInt(n%int64(p.plan.accounts), 10)
	}
	b = fmt.Appendf(b, `{"account":%q,"type":"%s.t%d","data":{"n":%d,"of":[%d,%d,%d,%d],"fill":"`,
		account, p.plan.prefix, n%int64(max(1, p.plan.types)), n, n/2, n/3, n/5, n/7)
	for rest := p.plan.size - len(`{"n":1234567,"of":[123456,123456,123456,123456],"fill":""}`); rest > 0; rest -= len(filler) {
		b = append(b, filler[:min(rest, len(filler))]...)
	}
	if p.plan.keyed {
		return fmt.Appendf(b, `"},"idempotency_key":"%d-%d"}`, p.start.UnixNano(), n)
	}
	return append(b, `"}}`...)
}

var filler = strings.Repeat("abcdefghijklmnopqrstuvwxyz012345", 128)
