package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// variant is another way to observe a server while a scenario runs, or another server.
type variant struct {
	name    string
	program string // of another commit; empty: the server of this tree
	scraped bool   // a Prometheus reads /metrics every five seconds
	// share is the part of the events that are traced, for a collector in this process. 0: none.
	share float64
}

// plain is the variant with which the others are compared.
const plain = "plain"

var allVariants = []variant{
	{name: plain},
	{name: "metrics", scraped: true},
	{name: "traces1", scraped: true, share: 0.01},
	{name: "traces100", scraped: true, share: 1},
}

// variantsOf returns the variants that -variants names.
func variantsOf(names string) (chosen []variant, err error) {
	if names == "" {
		names = plain
	}
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(allVariants, func(v variant) bool { return v.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-variants: there is no variant %q", name)
		}
		chosen = append(chosen, allVariants[at])
	}
	return chosen, nil
}

// withBase adds the server of another commit to each scenario with the plain variant.
func withBase(wanted []chosen, commit, program string) (both []chosen) {
	for _, c := range wanted {
		both = append(both, c)
		if c.variant.name == plain {
			c.variant = variant{name: commit, program: program}
			both = append(both, c)
		}
	}
	return both
}

// inOrder returns the order of a round. Every second round has the opposite order, so that a
// machine that becomes slower favours no variant.
func inOrder(wanted []chosen, round int) []chosen {
	wanted = slices.Clone(wanted)
	if round%2 == 1 {
		slices.Reverse(wanted)
	}
	return wanted
}

// measured has the results of a scenario in a round.
type measured struct {
	chosen
	shown shown
}

// Names of figures that are compared with the plain variant.
const (
	ofPlain    = perSecond + " ÷ plain"
	costServer = "CPU/delivery, server"
)

// against compares a variant with the plain one in the same round.
func (m measured) against(done []measured) (figures []figure) {
	at := slices.IndexFunc(done, func(p measured) bool {
		return p.variant.name == plain && p.name == m.name && p.store == m.store
	})
	if m.variant.name == plain || at < 0 {
		return nil
	}
	value := func(of measured, name string) float64 {
		for _, f := range of.figures(of.shown) {
			if f.name == name {
				return f.value
			}
		}
		return 0
	}
	if m.variant.program != "" { // for another commit, the ratio is this tree to that commit
		for _, f := range m.figures(m.shown) {
			if now := value(done[at], f.name); f.value > 0 && now > 0 {
				figures = append(figures, ratio("this tree ÷ "+m.variant.name+": "+f.name, now, f.value))
			}
		}
		return figures
	}
	for _, name := range []string{perSecond, costServer} {
		if base := value(done[at], name); base > 0 {
			figures = append(figures, ratio(name+" ÷ plain", value(m, name), base))
		}
	}
	if m.variant.share > 0 {
		dropped := 0.0
		for _, r := range m.shown.readings {
			dropped = max(dropped, r.dropped)
		}
		figures = append(figures, count("spans that the collector got", m.shown.spans.Load()),
			figure{"spans dropped, at the last look", "%.0f", dropped})
	}
	return figures
}

// startVariant starts the collector of the variant, and returns the flags of its server.
func (w *environment) startVariant(ctx context.Context) (flags []string, err error) {
	if w.variant.share == 0 {
		return nil, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a collector: %w", err)
	}
	c := &collector{spans: w.spans}
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // until it is closed
	w.closers = append(w.closers, func() error {
		err := server.Close()
		serving.Wait()
		return err
	})
	return []string{"--otlp-url", "http://" + listener.Addr().String(), "--trace-sample", fmt.Sprint(w.variant.share)}, nil
}

// collector receives OTLP over HTTP. It counts spans and keeps none, because only the sending
// server is measured.
type collector struct{ spans *atomic.Int64 }

// ServeHTTP implements [http.Handler].
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	// The fields are TracesData.resource_spans, ResourceSpans.scope_spans and ScopeSpans.spans.
	n, ok := spansOf(body, 1, 2, 2)
	if err != nil || !ok || r.URL.Path != "/v1/traces" {
		http.Error(w, "this is no request of OTLP", http.StatusBadRequest)
		return
	}
	c.spans.Add(n)
	// An empty body is a response without errors.
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// spansOf counts the messages at the end of a path of field numbers. ok is false if it cannot read
// the message.
func spansOf(message []byte, path ...protowire.Number) (n int64, ok bool) {
	if len(path) == 0 {
		return 1, true
	}
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return 0, false
		}
		message = message[length:]
		if number == path[0] && kind == protowire.BytesType {
			inner, length := protowire.ConsumeBytes(message)
			if length < 0 {
				return 0, false
			}
			within, ok := spansOf(inner, path[1:]...)
			if !ok {
				return 0, false
			}
			n, message = n+within, message[length:]
			continue
		}
		if length = protowire.ConsumeFieldValue(number, kind, message); length < 0 {
			return 0, false
		}
		message = message[length:]
	}
	return n, true
}

// scraped does first, unless it is nil. At the same time it reads the metrics of each node every
// five seconds, as a Prometheus does.
func scraped(first action) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		var scraping sync.WaitGroup
		var err error
		scraping.Go(func() { err = w.scrape(ctx, r) })
		var firstErr error
		if first != nil {
			firstErr = first(ctx, w, r)
		}
		scraping.Wait()
		return errors.Join(firstErr, err)
	}
}

func (w *environment) scrape(ctx context.Context, r *reading) error {
	for began := time.Now(); time.Since(began) < r.phase.lasts && ctx.Err() == nil; pause(ctx, 5*time.Second) {
		r.dropped = 0
		for _, node := range w.nodes {
			metrics, err := node.Metrics(ctx)
			if err != nil {
				return err
			}
			r.dropped += metrics.Sum("postrider_trace_spans_dropped_total")
		}
	}
	return nil
}
