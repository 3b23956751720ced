package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// metrics returns what /metrics of the listener for operators serves.
func (r *running) metrics(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.app.OpsAddr().String()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("scrape: %d, %v", answer.StatusCode, err)
	}
	return string(text)
}

// sample returns the value of a sample; -1: it is not served.
func sample(text, name string) float64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err == nil {
				return n
			}
		}
	}
	return -1
}

// TestMetricsOfWhatAServerDid delivers one event at once and one at its second attempt, and lets
// one delivery become a dead letter. Then it compares the numbers, and compares the names with
// docs/operate/metrics.md.
func TestMetricsOfWhatAServerDid(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	codes := []int{200, 500, 200, 400}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(codes[0])
		codes = codes[1:]
	}))
	t.Cleanup(receiver.Close)
	r := startWith(t, t.TempDir(), map[string]string{"POSTRIDER_METRICS_WORST": "1"})
	if _, err := r.api.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme"}); err != nil {
		t.Fatal(err)
	}
	e, err := r.api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{
		Account: "acme", URL: receiver.URL, EventTypes: []string{"*"}, Policy: apitypes.Policy{
			Retry:        apitypes.Of(apitypes.Retry{DelaysMS: []int64{0, 1000}, Jitter: "none"}),
			ClientErrors: apitypes.Of(postrider.DeadLetterClientErrors),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []postrider.Status{postrider.Delivered, postrider.Delivered, postrider.Dead} {
		event := r.publish(t)
		eventually(t, string(want), func() bool {
			page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
			return err == nil && len(page.Data) == 1 && page.Data[0].Status == want
		})
	}
	_, err = r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "not a type", Data: json.RawMessage(`{}`)})
	if err == nil {
		t.Fatal("a wrong type was accepted")
	}

	eventually(t, "the refusal is counted, which is after its response", func() bool {
		return sample(r.metrics(t), `postrider_publishes_refused_total{reason="invalid"}`) == 1
	})
	eventually(t, "the worst endpoint is named", func() bool {
		return sample(r.metrics(t), `postrider_worst_endpoint_failures{endpoint="`+e.ID.String()+`"}`) == 2
	})
	counts := map[string]float64{
		`postrider_events_accepted_total`:                          3,
		`postrider_deliveries_created_total`:                       3,
		`postrider_attempts_total{number="1",outcome="accepted"}`:  1,
		`postrider_attempts_total{number="1",outcome="rejected"}`:  2,
		`postrider_attempts_total{number="2",outcome="accepted"}`:  1,
		`postrider_deliveries_total{status="delivered"}`:           2,
		`postrider_deliveries_total{status="dead"}`:                1,
		`postrider_dead_letters_total{reason="client_error"}`:      1,
		`postrider_delivery_seconds_count`:                         2,
		`postrider_response_seconds_count`:                         4,
		`postrider_egress_phase_seconds_count{phase="first_byte"}`: 4,
		`postrider_nodes`:             1,
		`postrider_ready`:             1,
		`postrider_shards_owned`:      256,
		`postrider_hook_panics_total`: 0,
		`postrider_invariants_violated_total{invariant="attempt_panicked"}`:  0,
		`postrider_chore_runs_total{chore="make_partitions",result="ok"}`:    1,
		`postrider_store_call_seconds_count{result="ok",verb="PutEndpoint"}`: 1,
		`postrider_store_call_seconds_count{result="ok",verb="PutAccount"}`:  1,
	}
	text := r.counted(t, counts)
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if got := sample(text, name); got <= 0 {
			t.Errorf("%s = %v, want more than 0", name, got)
		}
	}
	documented(t, text)
}

// counted waits until /metrics has the samples, which are counted after the commits that the API
// shows, and returns all of it.
func (r *running) counted(t *testing.T, want map[string]float64) (text string) {
	t.Helper()
	var wrong []string
	defer func() {
		for _, line := range wrong {
			t.Error(line)
		}
	}()
	eventually(t, "all is counted", func() bool {
		text, wrong = r.metrics(t), nil
		for name, n := range want {
			if got := sample(text, name); got != n {
				wrong = append(wrong, fmt.Sprintf("%s = %v, want %v", name, got, n))
			}
		}
		return len(wrong) == 0
	})
	return text
}

// documented fails the test unless docs/operate/metrics.md has each metric that is served.
func documented(t *testing.T, text string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, served := range regexp.MustCompile(`(?m)^# TYPE (postrider_\w+) (\w+)$`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(page), "| `"+served[1]+"` | "+served[2]+" |") {
			t.Errorf("docs/operate/metrics.md has no %s %s", served[2], served[1])
		}
	}
}
