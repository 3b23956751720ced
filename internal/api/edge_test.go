package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/api/rest"
)

// edge is an API behind a server of net/http, in a synctest bubble: connections
// are pipes, and deadlines pass in virtual time.
type edge struct {
	*world
	handler *api.Handler
	dialed  chan net.Conn
	publish func(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error)
}

func newEdge(t *testing.T, opts api.Options) *edge {
	t.Helper()
	w := newWorld(t)
	e := &edge{world: w, dialed: make(chan net.Conn), publish: instantly{}.Publish}
	e.handler = api.New(api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: e, Guard: guard{}, Verifier: w.receiver, Vault: vault{}, Notifier: deaf{},
		IDs: w.ids,
	}, opts)
	server := &http.Server{Handler: e.handler, ReadTimeout: rest.RequestTime}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(pipes{e.dialed, make(chan struct{})}) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return e
}

func (e *edge) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	return e.publish(ctx, events)
}

func (e *edge) PublishTo(context.Context, postrider.Event, postrider.EndpointID) (postrider.Receipt, error) {
	return postrider.Receipt{}, nil
}

// pipes is a listener.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// exchange is a request whose body the test sends piece by piece.
type exchange struct {
	net.Conn

	began   time.Time
	writing sync.WaitGroup
	answer  *http.Response
	text    string
	took    time.Duration // until the answer
	closed  time.Duration // until the connection was closed
	left    bool          // the server answered and kept the connection
}

// begin sends the head of a request. If length is below zero, the head has no Content-Length.
func (e *edge) begin(key, route string, length int, headers ...string) *exchange {
	e.Helper()
	client, server := net.Pipe()
	e.dialed <- server
	c := &exchange{Conn: client, began: time.Now()}
	method, path, _ := strings.Cut(route, " ")
	head := fmt.Sprintf("%s /v1/webhooks%s HTTP/1.1\r\nHost: x\r\n", method, path)
	if length >= 0 {
		head += fmt.Sprintf("Content-Length: %d\r\n", length)
	}
	if key != "" {
		head += "Authorization: Bearer " + key + "\r\n"
	}
	for _, h := range append([]string{"Content-Type: application/json"}, headers...) {
		head += h + "\r\n"
	}
	if _, err := io.WriteString(client, head+"\r\n"); err != nil {
		e.Fatal(err)
	}
	return c
}

// send writes size bytes of the body after each wait. It stops when the whole body is sent, when
// the server reads no more, or after n writes.
func (c *exchange) send(body string, size, n int, wait time.Duration) *exchange {
	c.writing.Go(func() {
		for range n {
			piece := body[:min(size, len(body))]
			if _, err := io.WriteString(c.Conn, piece); err != nil || len(piece) == len(body) {
				return
			}
			body = body[len(piece):]
			time.Sleep(wait)
		}
	})
	return c
}

// wait reads the responses of all calls. Then it waits until the server closes the connections, for
// at most five seconds.
func wait(t *testing.T, calls ...*exchange) {
	t.Helper()
	var waiting sync.WaitGroup
	for _, c := range calls {
		waiting.Go(func() { c.wait(t) })
	}
	waiting.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (c *exchange) wait(t *testing.T) {
	t.Helper()
	reader := bufio.NewReader(c.Conn)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return
	}
	c.took = time.Since(c.began)
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	c.answer, c.text = answer, string(text)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err = reader.ReadByte()
	c.left = !errors.Is(err, io.EOF)
	c.closed = time.Since(c.began)
	c.Conn.Close()
	c.writing.Wait()
}

// event returns a publish of size bytes.
func event(size int) string {
	const head, tail = `{"account":"acme","type":"a","data":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// batchOf returns a batch of size bytes, about.
func batchOf(size int) string {
	one := event(64 << 10)
	return `{"events":[` + strings.TrimSuffix(strings.Repeat(one+",", size/len(one)), ",") + `]}`
}

func TestABodyThatIsSlowIsGivenUpAfterTenSeconds(t *testing.T) {
	t.Parallel()
	const second = time.Second
	batch := batchOf(2 << 20)
	for _, tt := range []struct {
		name    string
		size, n int // bytes at a time, and how often
		wait    time.Duration
		status  int
		took    time.Duration // at most
	}{
		{"stalls at once", 1, 0, 0, 408, 10 * second},
		{"stalls after a byte", 1, 1, 0, 408, 10 * second},
		{"drips", 1, 1000, second, 408, 11 * second},
		{"drips four times a second", 8 << 10, 1000, second / 4, 408, 20 * second},
		{"stalls after a fast beginning", 1 << 20, 1, 0, 408, 10 * second},
		{"is as fast as it must be", 16 << 10, 1000, second / 4, 202, 33 * second},
		{"stands still for nine seconds", 1 << 20, 1000, 9 * second, 202, 20 * second},
		{"is fast", 4 << 20, 1, 0, 202, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEdge(t, api.Options{})
				e.tenant("acme")
				c := e.begin(e.admin, "POST /events/batch", len(batch)).send(batch, tt.size, tt.n, tt.wait)
				wait(t, c)
				if c.answer.StatusCode != tt.status || c.took > tt.took || c.left != (tt.status == 202) {
					t.Errorf("%d %s after %v, the connection is kept: %t; want %d after at most %v",
						c.answer.StatusCode, c.text, c.took, c.left, tt.status, tt.took)
				}
				if tt.status == 408 && (c.answer.Header.Get("Connection") != "close" && !c.answer.Close || c.closed > c.took+second) {
					t.Errorf("the connection of a 408 is closed %v after the answer", c.closed-c.took)
				}
			})
		})
	}
}

func TestMalformedChunksAreRefused(t *testing.T) {
	t.Parallel()
	for body, status := range map[string]int{
		"-1\r\n":                400,
		"FFFFFFFFFFFFFFFFF\r\n": 400,
		"1;" + strings.Repeat("x", 20<<10) + "\r\n": 400,
		"2\r\n{}x\r\n":         400,
		"2\r\n{}\r\n0\r\n\r\n": 422, // an event without fields
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEdge(t, api.Options{})
			c := e.begin(e.admin, "POST /events", -1, "Transfer-Encoding: chunked").send(body, len(body), 1, 0)
			wait(t, c)
			if c.answer.StatusCode != status {
				t.Errorf("chunks %.20q = %d %s, want %d", body, c.answer.StatusCode, c.text, status)
			}
		})
	}
}

func TestABodyThatNobodyReadsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, key, route string
		headers          []string
		length, status   int
	}{
		{"no key", "", "POST /events", nil, 1000, 401},
		{"no such key", "pr_x", "POST /events", nil, 1000, 401},
		{"too large", "admin", "POST /events", nil, 10 << 20, 413},
		{"encoded", "admin", "POST /events", []string{"Content-Encoding: gzip"}, 1000, 415},
		{"no route", "admin", "POST /nothing", nil, 1000, 404},
		{"no method", "admin", "PUT /events", nil, 1000, 405},
		{"a list", "admin", "GET /events", nil, 1000, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEdge(t, api.Options{})
				if tt.key == "admin" {
					tt.key = e.admin
				}
				c := e.begin(tt.key, tt.route, tt.length, tt.headers...).send("{", 1, 1, 0)
				wait(t, c)
				if c.answer.StatusCode != tt.status || c.closed > 2*time.Second || c.left {
					t.Errorf("%d %s; the connection was closed after %v", c.answer.StatusCode, c.text, c.closed)
				}
			})
		})
	}
}

func TestAnAnswerThatIsNotReceivedIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, api.Options{})
		c := e.begin(e.admin, "GET /openapi.json", 0)
		if _, err := c.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the answer has less than 30 s at 64 KiB a second
		_, err := io.Copy(io.Discard, c)
		if n := time.Since(c.began); err != nil || n != time.Minute {
			t.Errorf("the rest ends with %v after %v, want the end of the connection at once", err, n)
		}
		c.Close()
	})
}

func TestTheEndOfTheServerCutsBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, api.Options{})
		var calls []*exchange
		begin := func(n int) {
			for range n {
				calls = append(calls, e.begin(e.admin, "POST /events", 1000).send("{", 1, 1, 0))
				calls = append(calls, e.begin(e.admin, "POST /events/batch", 2<<20).send("{", 1, 1, 0))
			}
		}
		begin(150)
		synctest.Wait()
		e.handler.EndBodies()
		begin(1)
		wait(t, calls...)
		for _, c := range calls {
			if c.answer.StatusCode != 503 || c.answer.Header.Get("Retry-After") == "" || c.closed > 0 || c.left {
				t.Fatalf("%d %s after %v, closed after %v; want 503 and the end of the connection at once",
					c.answer.StatusCode, c.text, c.took, c.closed)
			}
		}
	})
}

// gate makes the publisher wait until the test calls open.
func (e *edge) gate() (open func()) {
	gate := make(chan struct{})
	e.publish = func(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
		select {
		case <-gate:
			return make([]postrider.Receipt, len(events)), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return func() { close(gate) }
}

func TestBodiesHaveABudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, api.Options{MaxBatch: 1 << 20, BodyBudget: 16 << 20}) // 4 MiB for a key
		e.tenant("acme")
		other := e.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeEventsWrite}})
		batch := batchOf(15 << 16)
		var calls []*exchange
		open := e.gate()
		for range 20 {
			calls = append(calls, e.begin(e.admin, "POST /events/batch", len(batch)).send(batch, len(batch), 1, 0))
			synctest.Wait()
		}
		for range 100 {
			calls = append(calls, e.begin(other, "POST /events", 1000).send(event(1000), 1000, 1, 0))
		}
		synctest.Wait()
		open()
		answers := map[string]int{}
		wait(t, calls...)
		for i, c := range calls {
			status := c.answer.StatusCode
			answers[fmt.Sprint(i >= 20, status)]++
			if status == 429 && (c.answer.Header.Get("Retry-After") != "1" || c.took > 0) {
				t.Errorf("429 after %v, Retry-After %q", c.took, c.answer.Header.Get("Retry-After"))
			}
		}
		if answers["false 202"] != 4 || answers["false 429"] != 16 || answers["true 202"] != 100 {
			t.Errorf("one key fills its share, another publishes 1 KB: %v; want 4 and 100 accepted, 16 times 429", answers)
		}
		c := e.begin(e.admin, "POST /events/batch", len(batch)).send(batch, len(batch), 1, 0)
		wait(t, c)
		if c.answer.StatusCode != 202 {
			t.Errorf("after all were answered: %d %s", c.answer.StatusCode, c.text)
		}
	})
}

func TestKeysWithLittleHaveRoomWhenOthersFillTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, api.Options{MaxBatch: 1 << 20, BodyBudget: 16 << 20})
		e.tenant("acme")
		batch := batchOf(15 << 16)
		var calls []*exchange
		open := e.gate()
		for range 8 {
			key := e.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeEventsWrite}})
			for range 4 {
				calls = append(calls, e.begin(key, "POST /events/batch", len(batch)).send(batch, len(batch), 1, 0))
				synctest.Wait()
			}
		}
		small := e.begin(e.admin, "POST /events", 1000).send(event(1000), 1000, 1, 0)
		synctest.Wait()
		open()
		accepted := 0
		wait(t, append(calls, small)...)
		for _, c := range calls {
			if c.answer.StatusCode == 202 {
				accepted++
			}
		}
		if status := small.answer.StatusCode; accepted < 12 || accepted > 16 || status != 202 {
			t.Errorf("%d batches of 1 MiB were in 16 MiB, and beside them 1 KB = %d; want 12 to 16, and 202", accepted, status)
		}
	})
}

func TestWhatIsOnlyAnnouncedHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, api.Options{MaxBatch: 1 << 20, BodyBudget: 16 << 20})
		e.tenant("acme")
		var slow []*exchange
		for range 300 {
			slow = append(slow, e.begin(e.admin, "POST /events/batch", 1<<20).send("{", 1, 1, 0))
		}
		synctest.Wait()
		batch := batchOf(15 << 16)
		c := e.begin(e.admin, "POST /events/batch", len(batch)).send(batch, len(batch), 1, 0)
		wait(t, c)
		if c.answer.StatusCode != 202 {
			t.Errorf("beside 300 bodies of which a byte arrived: %d %s", c.answer.StatusCode, c.text)
		}
		wait(t, slow...)
	})
}

func TestOfBodiesThatShareTooLittleRoomSomeArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, api.Options{MaxBatch: 1 << 20, BodyBudget: 16 << 20})
		e.tenant("acme")
		batch := batchOf(15 << 16)
		var calls []*exchange
		for range 100 { // all at the same pace: 100 MiB want into 4 MiB
			calls = append(calls, e.begin(e.admin, "POST /events/batch", len(batch)).send(batch, 32<<10, 1000, time.Millisecond))
		}
		accepted := 0
		wait(t, calls...)
		for _, c := range calls {
			if c.answer.StatusCode == 202 {
				accepted++
			}
		}
		if accepted == 0 {
			t.Error("none of 100 bodies arrived that were sent at the same time")
		}
	})
}

// TestAStoreThatHangsIsAnsweredInTime has a time limit that is shorter than the read deadline of a
// body, and one that is longer. The read deadline must not end a request whose body has arrived.
func TestAStoreThatHangsIsAnsweredInTime(t *testing.T) {
	t.Parallel()
	for _, within := range []time.Duration{rest.RequestTime / 2, rest.RequestTime * 2} {
		synctest.Test(t, func(t *testing.T) {
			e := newEdge(t, api.Options{AnswerTime: within})
			e.tenant("acme")
			e.gate()
			body := event(40 << 10)
			there := e.begin(e.admin, "POST /events", len(body)).send(body, len(body), 1, 0)
			slow := e.begin(e.admin, "POST /events", len(body)).send(body, 8<<10, 5, time.Second)
			wait(t, there, slow)
			for name, c := range map[string]*exchange{"a body that is there": there, "a slow body": slow} {
				retry := c.answer.Header.Get("Retry-After")
				if c.answer.StatusCode != 503 || retry == "" || !strings.Contains(c.text, "the same idempotency key") {
					t.Errorf("%s: %d %s, want 503 that says to repeat it", name, c.answer.StatusCode, c.text)
				}
				if c.took < within || c.took > within+5*time.Second {
					t.Errorf("%s: answered after %v, the time limit is %v", name, c.took, within)
				}
			}
		})
	}
}

func TestABodyGrowsWithWhatArrives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for _, size := range []int{1000, 4095, 4096, 4097, 5000, 16 << 10, 16<<10 + 1, 100_000, 200_001} {
		for _, announced := range []bool{true, false} {
			r := w.body(w.admin, "POST /events", strings.NewReader(event(size)))
			if announced {
				r.ContentLength = int64(size)
			}
			if got := w.send(r); got.status != 202 {
				t.Fatalf("%d bytes, announced %t: %d %s", size, announced, got.status, got.text)
			}
			id := w.do(w.admin, "GET /events?limit=1", "").data()[0]["id"].(string)
			text := w.do(w.admin, "GET /events/"+id, "").text
			if n := bytes.Count([]byte(text), []byte("x")); n < size-60 {
				t.Errorf("%d bytes, announced %t: %d of its data", size, announced, n)
			}
		}
	}
}
