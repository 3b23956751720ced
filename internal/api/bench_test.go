package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

// instantly is a publisher that accepts every event without storing it.
type instantly struct{}

func (instantly) Publish(_ context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	return make([]postrider.Receipt, len(events)), nil
}

func (instantly) PublishTo(context.Context, postrider.Event, postrider.EndpointID) (postrider.Receipt, error) {
	return postrider.Receipt{}, nil
}

// nothing is a log writer that discards everything.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }

// bare is the least work that a server of net/http can do for a publish: it reads the body and
// responds with as many bytes as a receipt has.
func bare(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"id":"evt_01h455vb4pex5vsknk084sn02q","deliveries":0}`+"\n")
}

// BenchmarkPublish measures the API's own share of a publish of 1 KB over kept connections: key,
// body and response, without the commit. The result for bare is the lower bound. With -cpu 1 the
// time is that of server and client together; the client costs nearly nothing.
func BenchmarkPublish(b *testing.B) {
	w := newWorld(b)
	w.tenant("acme")
	deps := api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: instantly{}, Guard: guard{}, Verifier: new(receiver),
		Vault: vault{}, Notifier: deaf{}, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
	}
	event := `{"account":"acme","type":"order.created","idempotency_key":"order-42","data":{"lines":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"abc","quantity":1},`, 34), ",") + `]}}`
	batch := `{"events":[` + strings.TrimSuffix(strings.Repeat(event+",", 100), ",") + `]}`
	for _, bb := range []struct {
		name, route, body string
		handler           http.Handler
	}{
		{"bare", "/events", event, http.HandlerFunc(bare)},
		{"quiet", "/events", event, api.New(deps, api.Options{})},
		{"logged", "/events", event, api.New(deps, api.Options{Log: slog.New(slog.NewJSONHandler(new(nothing), nil))})},
		{"batch", "/events/batch", batch, api.New(deps, api.Options{BodyBudget: 1 << 30})},
	} {
		b.Run(bb.name, func(b *testing.B) {
			server := httptest.NewUnstartedServer(bb.handler)
			server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = 5*time.Second, 30*time.Second
			server.Config.IdleTimeout = 2 * time.Minute
			server.Start()
			b.Cleanup(server.Close)
			request := fmt.Appendf(nil, "POST /v1/webhooks%s HTTP/1.1\r\nHost: postrider\r\nUser-Agent: bench\r\n"+
				"Authorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				bb.route, w.admin, len(bb.body), bb.body)
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) { call(b, pb, server.Listener.Addr(), request) })
		})
	}
}

// discard is a response writer that keeps only the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// TestAPublishMakesFewAllocations limits the allocations of the API for a publish, without those of
// net/http. There are 20, and with the race detector 23, because pools then lose some buffers.
func TestAPublishMakesFewAllocations(t *testing.T) {
	w := newWorld(t)
	w.tenant("acme")
	handler := api.New(api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: instantly{}, Guard: guard{}, Verifier: w.receiver, Vault: vault{},
		Notifier: deaf{}, IDs: w.ids,
	}, api.Options{Log: slog.New(slog.NewJSONHandler(new(nothing), nil))})
	text := event(1 << 10)
	body := strings.NewReader(text)
	response := &discard{header: http.Header{}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/webhooks/events", io.NopCloser(body))
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = body.Size()
	request.Header.Set("Authorization", "Bearer "+w.admin)
	request.Header.Set("Content-Type", "application/json")

	n := testing.AllocsPerRun(1000, func() {
		body.Reset(text)
		handler.ServeHTTP(response, request)
	})
	if n > 24 || response.status != http.StatusAccepted {
		t.Errorf("a publish makes %v allocations and gets a %d, want at most 24 and a 202", n, response.status)
	}
}

// call sends the request again and again over one connection.
func call(b *testing.B, pb *testing.PB, to net.Addr, request []byte) {
	b.Helper()
	conn, err := net.Dial(to.Network(), to.String())
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	answer := make([]byte, 32<<10)
	for pb.Next() {
		if _, err := conn.Write(request); err != nil {
			b.Error(err)
			return
		}
		n := 0
		for !bytes.HasSuffix(answer[:n], []byte("}\n")) && !bytes.HasSuffix(answer[:n], []byte("0\r\n\r\n")) {
			more, err := conn.Read(answer[n:])
			if n += more; err != nil {
				b.Error(err)
				return
			}
		}
		if !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 202 ")) {
			b.Errorf("%s", answer[:n])
			return
		}
	}
}
