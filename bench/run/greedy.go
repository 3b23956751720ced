package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
)

// greedyRows is how many deliveries each account of greedyReaders has. A page of 250 is some 80 KB.
const greedyRows = 400

// greedyReaders measures B4 while other accounts read as much as they can.
func greedyReaders(e extent) scenario {
	lasts := e.lasting(30 * time.Second)
	loads := []load{ofB4}
	few, many := min(50, e.many(1000)), min(500, e.many(12_500))
	phases := []phase{{name: "without", lasts: lasts, loads: loads, before: greedyAccounts(10)}}
	figures, goals := []string{}, goals{}
	for _, p := range []struct {
		name     string
		readers  int
		accounts int
		kinds    []string
	}{
		{"50 lists", few, 1, []string{"list"}},
		{"500 lists", many, 10, []string{"list"}},
		{"500 of all kinds", many, 10, readKinds},
	} {
		phases = append(phases, phase{name: p.name, lasts: lasts, loads: loads, during: readGreedily(p.readers, p.accounts, p.kinds)})
		figures = append(figures, p.name)
		for _, of := range []string{": publish p99", ": delivery p99"} {
			goals[p.name+of+" ÷ without"] = atMost(1.25).orElse(p.name + of + " − without")
			goals[p.name+of+" − without"] = atMost(2).orElse(p.name + of + " ÷ without")
		}
	}
	return scenario{
		name:    "B20 greedy readers",
		setups:  []setup{{groups: []group{{class: good, endpoints: 1}}, phases: phases}},
		figures: func(s shown) []figure { return s.besideReaders("without", figures) },
		goals:   goals, goalsOn: goals,
	}
}

// readKinds are the kinds of reads. The kinds of the portal have a session. The last two never read
// their response.
var readKinds = []string{"list", "search", "statistics", "page", "portal list", "download", "tail", "unread list", "unread document"}

// greedyAccount is an account whose readers read.
type greedyAccount struct {
	key     string
	browser *http.Client // with a session of the portal
	event   string
}

// readStats counts the responses to the readers.
type readStats struct{ served, refused, failed atomic.Int64 }

// greedyAccounts creates accounts with a key, a session of the portal and deliveries.
func greedyAccounts(n int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		if len(w.greedy) > 0 { // already created
			return nil
		}
		for i := range n {
			made, err := w.makeGreedy(ctx, fmt.Sprintf("greedy%d", i))
			if err != nil {
				return fmt.Errorf("make a reader: %w", err)
			}
			w.greedy = append(w.greedy, made)
		}
		have, err := w.arrivals(ctx, "greedy", int64(n*greedyRows))
		if err == nil && have < int64(n*greedyRows) {
			err = errors.New("the deliveries of the readers did not arrive")
		}
		return err
	}
}

// makeGreedy creates one account.
func (w *environment) makeGreedy(ctx context.Context, uid string) (made greedyAccount, err error) {
	c := w.nodes[0].Client()
	if err := w.makeAccount(ctx, uid, "greedy"); err != nil {
		return made, err
	}
	events := make([]apitypes.EventCreate, greedyRows)
	for i := range events {
		events[i] = apitypes.EventCreate{
			Account: uid, Type: "greedy.made",
			Data: json.RawMessage(`{"text": "` + strings.Repeat("x", 8<<10) + `"}`),
		}
	}
	receipts, err := c.PublishBatch(ctx, events)
	if err != nil {
		return made, err
	}
	made.event = receipts[0].ID.String()
	key, err := c.CreateKey(ctx, apitypes.KeyCreate{Name: uid, Account: uid, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	if err != nil {
		return made, err
	}
	made.key = key.Key
	link, err := c.CreatePortalSession(ctx, apitypes.PortalSessionCreate{Account: uid})
	if err != nil {
		return made, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return made, err
	}
	made.browser = &http.Client{Jar: jar, Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, link.URL, http.NoBody)
	if err != nil {
		return made, err
	}
	response, err := made.browser.Do(request)
	if err == nil {
		err = response.Body.Close()
	}
	return made, err
}

// makeAccount creates an account with an endpoint, which gets all events of a class.
func (w *environment) makeAccount(ctx context.Context, uid, class string) error {
	c := w.nodes[0].Client()
	if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: uid, Name: "Another"}); err != nil {
		return err
	}
	_, err := c.CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: uid, URL: "http://127.0.0.1:" + w.sink.Port() + "/" + class, EventTypes: []string{class + ".*"},
	})
	return err
}

// readGreedily runs readers of the accounts. The kinds are assigned in turn. Each reader sends one
// request after the other, whatever the response.
func readGreedily(readers, accounts int, kinds []string) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		ctx, cancel := context.WithTimeout(ctx, r.phase.lasts)
		defer cancel()
		programs := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: readers}}
		defer programs.CloseIdleConnections()
		r.reads = &readStats{}
		var reading sync.WaitGroup
		for i := range readers {
			from, kind := w.greedy[i%accounts], kinds[i/accounts%len(kinds)]
			reading.Go(func() {
				for ctx.Err() == nil {
					w.readOnce(ctx, r.reads, programs, readerOf{from, kind})
				}
			})
		}
		reading.Wait()
		return nil
	}
}

// readerOf is a reader of one account and one kind.
type readerOf struct {
	greedyAccount
	kind string
}

// readOnce makes one request and reads the response. The unread kinds keep it unread until ctx
// ends.
func (w *environment) readOnce(ctx context.Context, stats *readStats, programs *http.Client, from readerOf) {
	const api = "/v1/webhooks"
	path, by := api+"/deliveries?limit=250", programs
	switch from.kind {
	case "search":
		path = api + "/search?q=greedy"
	case "statistics":
		path = api + "/stats"
	case "page":
		path, by = "/portal", from.browser
	case "portal list":
		path, by = "/portal/deliveries", from.browser
	case "download":
		path, by = "/portal/events/"+from.event+"/data", from.browser
	case "tail":
		path, by = "/portal/live/tail", from.browser
	case "unread list":
		w.leaveUnread(ctx, path, from.key)
		return
	case "unread document":
		w.leaveUnread(ctx, api+"/openapi.json", "")
		return
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.nodes[0].URL()+path, http.NoBody)
	if err != nil {
		stats.failed.Add(1)
		return
	}
	if by == programs {
		request.Header.Set("Authorization", "Bearer "+from.key)
	}
	response, err := by.Do(request)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
	case err == nil && response.StatusCode == http.StatusOK:
		stats.served.Add(1)
	case err == nil && response.StatusCode == http.StatusTooManyRequests:
		stats.refused.Add(1)
	default:
		stats.failed.Add(1)
	}
}

// leaveUnread sends a request and does not read the response. The connection has a small buffer, so
// the server cannot write the whole response.
func (w *environment) leaveUnread(ctx context.Context, path, key string) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.nodes[0].Address())
	if err != nil {
		return
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", path, key)
	pause(ctx, time.Minute)
}

// besideReaders returns how much the readers of each phase slow publishes and deliveries.
func (s shown) besideReaders(without string, phases []string) []figure {
	base := s.readings[without]
	figures := []figure{
		millis(without+": publish p50", base.loads[good].P50), millis(without+": publish p99", base.loads[good].P99),
		millis(without+": delivery p50", base.sinks[good].P50), millis(without+": delivery p99", base.sinks[good].P99),
	}
	for _, name := range phases {
		r := s.readings[name]
		figures = append(figures, besideOne(name+": publish", lab.SinkStats{P50: base.loads[good].P50, P99: base.loads[good].P99},
			r.loads[good].P50, r.loads[good].P99)...)
		figures = append(figures, besideOne(name+": delivery", base.sinks[good], r.sinks[good].P50, r.sinks[good].P99)...)
		figures = append(figures,
			figure{name + ": reads/s", "%.0f", float64(r.reads.served.Load()) / r.phase.lasts.Seconds()},
			figure{name + ": 429/s", "%.0f", float64(r.reads.refused.Load()) / r.phase.lasts.Seconds()},
			count(name+": reads that failed", r.reads.failed.Load()))
	}
	return figures
}

// besideOne returns the times of a phase, and compares the 99th percentile with the phase without
// readers.
func besideOne(name string, without lab.SinkStats, p50, p99 int64) []figure {
	return []figure{
		millis(name+" p50", p50), millis(name+" p99", p99),
		ratio(name+" p99 ÷ without", float64(p99), float64(without.P99)), millis(name+" p99 − without", p99-without.P99),
	}
}
