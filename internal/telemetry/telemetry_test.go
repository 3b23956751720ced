package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/telemetry"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// scraped is the result of a scrape: the type and the labels of each metric, and each sample by its
// name and labels as they are written.
type scraped struct {
	types   map[string]string
	labels  map[string][]string
	samples map[string]float64
}

var sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)

// scrape reads the metrics of this program as a scraper does.
func scrape(t testing.TB, m *telemetry.Metrics) scraped {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.Code != 200 {
		t.Fatalf("scrape: %d, %v\n%s", answer.Code, err, text)
	}
	s := scraped{map[string]string{}, map[string][]string{}, map[string]float64{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if named, ok := strings.CutPrefix(line, "# TYPE postrider_"); ok {
			name, kind, _ := strings.Cut(named, " ")
			s.types["postrider_"+name] = kind
		}
		part := sampleLine.FindStringSubmatch(line)
		if part == nil || !strings.HasPrefix(part[1], "postrider_") {
			continue
		}
		value, err := strconv.ParseFloat(part[3], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		s.samples[strings.TrimSuffix(line, " "+part[3])] = value
		name := part[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok && s.types[cut] == "histogram" {
				name = cut
			}
		}
		s.labels[name] = labelsOf(part[2])
	}
	return s
}

// labelsOf returns the names of a sample's labels, sorted, without the label of classic buckets.
func labelsOf(text string) (names []string) {
	for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(text, -1) {
		if label[1] != "le" {
			names = append(names, label[1])
		}
	}
	slices.Sort(names)
	return names
}

// want fails the test unless the samples have the values.
func (s scraped) want(t *testing.T, values map[string]float64) {
	t.Helper()
	for _, sample := range slices.Sorted(maps.Keys(values)) {
		if got, served := s.samples[sample]; !served || got != values[sample] {
			t.Errorf("%s = %v (served: %v), want %v", sample, got, served, values[sample])
		}
	}
}

// attempted returns a settled attempt. Its delivery was created two seconds before the attempt
// began.
func attempted(number int, outcome postrider.Outcome, to postrider.Status) observe.Settled {
	started := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := observe.Settled{
		Delivery: postrider.Claimed{
			ID: postrider.MakeID[postrider.DeliveryID](started.Add(-2*time.Second), [10]byte{1}), Endpoint: postrider.EndpointID{7},
		},
		Attempt: postrider.Attempt{Number: number, Outcome: outcome, StartedAt: started, Duration: 200 * time.Millisecond},
	}
	s.Transition.To = to
	if outcome == postrider.OutcomeAccepted || outcome == postrider.OutcomeRejected {
		s.Attempt.StatusCode = 500
		s.Attempt.Timing = postrider.Timing{
			DNS: time.Millisecond, Connect: 2 * time.Millisecond, TLS: 3 * time.Millisecond,
			FirstByte: 90 * time.Millisecond,
		}
	}
	if to == postrider.Dead {
		s.Transition.Reason = postrider.ReasonExhausted
	}
	return s
}

// used returns metrics that all have a value.
func used(t testing.TB) *telemetry.Metrics {
	t.Helper()
	m := telemetry.New(telemetry.Options{Version: "v1", Worst: 3, HookPanics: func() int64 { return 2 }})
	h := m.Hooks()
	h.Accepted.Call(observe.Accepted{Events: 5, Duplicates: 2, Bytes: 300})
	h.Committed.Call(observe.Committed{Events: 3, Deliveries: 7, Skipped: observe.Skipped{Full: 1}, Took: 3 * time.Millisecond})
	h.Committed.Call(observe.Committed{Deliveries: 1000, Took: time.Millisecond})
	h.Committed.Call(observe.Committed{Events: 1, Deliveries: 1, Err: postrider.ErrBusy})
	h.Responded.Call(observe.Responded{Route: "POST /v1/webhooks/events", Status: 429, Problem: "overloaded"})
	h.Responded.Call(observe.Responded{Route: "POST /v1/webhooks/events/batch", Status: 422, Problem: "invalid"})
	h.Responded.Call(observe.Responded{Route: "POST /v1/webhooks/endpoints", Status: 422, Problem: "invalid"})
	h.Responded.Call(observe.Responded{Route: "GET /v1/webhooks/events", Status: 200})
	h.Claimed.Call(observe.Claimed{Got: 4})
	h.Handed.Call(observe.Handed{Deliveries: 7, Refused: 2})
	for _, s := range []observe.Settled{
		attempted(1, postrider.OutcomeAccepted, postrider.Delivered),
		attempted(1, postrider.OutcomeRejected, postrider.Pending),
		attempted(2, postrider.OutcomeTimedOut, postrider.Pending),
		attempted(9, postrider.OutcomeRejected, postrider.Dead),
		attempted(1, postrider.OutcomeNone, postrider.Dead),
	} {
		h.Settled.Call(s)
	}
	stale := attempted(3, postrider.OutcomeAccepted, postrider.Delivered)
	stale.Stale = true
	h.Settled.Call(stale)
	h.AttemptsLost.Call(3)
	h.Ended.Call(observe.Ended{Status: postrider.Dead, Reason: postrider.ReasonExpired, N: 5})
	h.Ended.Call(observe.Ended{Status: postrider.Cancelled, Reason: postrider.ReasonCancelled, N: 1})
	h.Queue.Call(observe.Queue{OpenCircuits: 6, OpenedTogether: 4, Lanes: []observe.QueueLane{
		{Lane: postrider.LaneFirst, HeldBy: postrider.HeldByNothing, Waiting: 20, Due: 10, Oldest: 40 * time.Second, Newest: time.Second},
		{Lane: postrider.LaneRetry, HeldBy: postrider.HeldByCircuit, Waiting: 9, Due: 9, Oldest: time.Hour, Newest: time.Hour},
		{Lane: postrider.LaneFirst, HeldBy: postrider.HeldByPause, Waiting: 1000, Due: 1000, Oldest: time.Minute, Newest: time.Second},
	}})
	h.CircuitChanged.Call(postrider.Circuit{Status: postrider.CircuitOpen})
	h.HealthChanged.Call(postrider.EndpointHealth{Status: postrider.HealthWarned})
	h.HealthCounted.Call(observe.HealthCounts{Warned: 2, Disabled: 1})
	h.Lag.Call(250 * time.Millisecond)
	h.LoopLag.Call(time.Millisecond)
	h.Membership.Call(observe.Membership{Nodes: 3, Shards: 86})
	h.WokenUp.Call(observe.WakeUp{Verb: "new", Sent: true})
	h.WokenUp.Call(observe.WakeUp{Verb: "new", Sent: true, Err: postrider.ErrBusy})
	h.WokenUp.Call(observe.WakeUp{Verb: "look"})
	h.ChoreDone.Call(observe.ChoreDone{Name: "forget idempotency keys", Rows: 12})
	h.ChoreDone.Call(observe.ChoreDone{Name: "forget idempotency keys", Rows: 3, Err: postrider.ErrBusy})
	h.ChoreWorks.Call(observe.ChoreDone{Name: "forget events", Took: 90 * time.Second, Rows: 250_000})
	h.ChoreWorks.Call(observe.ChoreDone{Name: "forget bodies", Took: time.Second, Rows: 500})
	h.ChoreDone.Call(observe.ChoreDone{Name: "forget bodies", Took: 2 * time.Second, Rows: 700})
	h.StoreCalled.Call(observe.StoreCall{Verb: "Settle", Took: time.Millisecond})
	h.StoreCalled.Call(observe.StoreCall{Verb: "Publish", Err: fmt.Errorf("publish: %w", store.ErrMoved)})
	h.StoreCalled.Call(observe.StoreCall{Verb: "Publish", Err: errors.New("disk")})
	h.Backup.Call(observe.Backup{Kind: observe.BackupCopy, SucceededAt: time.UnixMilli(1_800_000_000_500)})
	h.Backup.Call(observe.Backup{Kind: observe.BackupLog, Failing: true})
	h.Postponed.Call(postrider.FailurePorts)
	h.Ready.Call(true)
	h.ClockOffset.Call(-1500 * time.Millisecond)
	h.Violated.Call("attempt_panicked")
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	h.SourceRead.Call(observe.SourceRead{Source: "shop", Rows: 10, Duplicates: 3, Rejected: 2, Took: time.Millisecond})
	h.SourceNoted.Call(observe.SourceNoted{Source: "shop", State: postrider.SourceState{
		At: now, Error: "away", Waiting: 7, Oldest: now.Add(-time.Minute), OpenSince: now.Add(time.Second), Rejected: 2, Missing: 5,
	}})
	h.SourceNoted.Call(observe.SourceNoted{Source: "left", State: postrider.SourceState{At: now}})
	h.SourceNoted.Call(observe.SourceNoted{Source: "left", Ended: true})
	return m
}

// What a server knows of a source is gone when another server reads it.
func TestSourcesAreCountedWhereTheyAreRead(t *testing.T) {
	t.Parallel()
	served := scrape(t, used(t))
	served.want(t, map[string]float64{
		`postrider_source_rows_total{result="published",source="shop"}`: 7,
		`postrider_source_rows_total{result="duplicate",source="shop"}`: 3,
		`postrider_source_rows_total{result="rejected",source="shop"}`:  2,
		`postrider_source_cycle_seconds_count{source="shop"}`:           1,
		`postrider_source_failing{source="shop"}`:                       1,
		`postrider_source_waiting_rows{source="shop"}`:                  7,
		`postrider_source_lag_seconds{source="shop"}`:                   60,
		`postrider_source_open_transaction_seconds{source="shop"}`:      0,
		`postrider_source_rejected_rows{source="shop"}`:                 2,
		`postrider_source_missing_events{source="shop"}`:                5,
	})
	if _, left := served.samples[`postrider_source_failing{source="left"}`]; left {
		t.Error("the state of a source is served that this server does not read")
	}
}

func TestHooksAreCounted(t *testing.T) {
	t.Parallel()
	scrape(t, used(t)).want(t, map[string]float64{
		`postrider_events_accepted_total`:                           3,
		`postrider_events_duplicate_total`:                          2,
		`postrider_event_bytes_total`:                               300,
		`postrider_publishes_refused_total{reason="overloaded"}`:    1,
		`postrider_publishes_refused_total{reason="invalid"}`:       1,
		`postrider_commit_seconds_count{result="ok"}`:               2,
		`postrider_commit_seconds_count{result="error"}`:            1,
		`postrider_commit_events_sum`:                               3,
		`postrider_commit_events_count`:                             1,
		`postrider_deliveries_created_total`:                        1007,
		`postrider_api_response_seconds_count{status="4xx"}`:        3,
		`postrider_api_response_seconds_count{status="2xx"}`:        1,
		`postrider_attempts_total{number="1",outcome="accepted"}`:   1,
		`postrider_attempts_total{number="3",outcome="accepted"}`:   0,
		`postrider_attempts_total{number="1",outcome="rejected"}`:   1,
		`postrider_attempts_total{number="2",outcome="timed_out"}`:  1,
		`postrider_attempts_total{number="5+",outcome="rejected"}`:  1,
		`postrider_attempts_lost_total`:                             3,
		`postrider_settlements_stale_total`:                         1,
		`postrider_deliveries_total{status="delivered"}`:            1,
		`postrider_deliveries_total{status="dead"}`:                 1 + 1 + 5,
		`postrider_deliveries_total{status="cancelled"}`:            1,
		`postrider_deliveries_total{status="skipped"}`:              1,
		`postrider_deliveries_skipped_total{reason="backlog_full"}`: 1,
		`postrider_dead_letters_total{reason="exhausted"}`:          2,
		`postrider_dead_letters_total{reason="expired"}`:            5,
		`postrider_delivery_seconds_sum`:                            2.2,
		`postrider_response_seconds_count`:                          3,
		`postrider_egress_phase_seconds_count{phase="tls"}`:         3,
		`postrider_egress_requests_total{connection="new"}`:         3,
		`postrider_egress_requests_total{connection="reused"}`:      0,
		`postrider_queue_deliveries{lane="first"}`:                  1020,
		`postrider_queue_deliveries{lane="bulk"}`:                   0,
		`postrider_queue_oldest_due_seconds{lane="retry"}`:          3600,
		`postrider_due_deliveries{held_by="nothing"}`:               10,
		`postrider_due_deliveries{held_by="pause"}`:                 1000,
		`postrider_due_oldest_seconds{held_by="nothing"}`:           40,
		`postrider_due_oldest_seconds{held_by="rate"}`:              0,
		`postrider_circuits_open`:                                   6,
		`postrider_circuits_opened_together`:                        4,
		`postrider_ready`:                                           1,
		`postrider_clock_offset_seconds`:                            -1.5,
		`postrider_circuit_changes_total{status="open"}`:            1,
		`postrider_health_changes_total{health="warned"}`:           1,
		`postrider_nodes`:                                            3,
		`postrider_shards_owned`:                                     86,
		`postrider_lag_seconds`:                                      0.25,
		`postrider_loop_lag_seconds_count`:                           1,
		`postrider_deliveries_claimed_total`:                         4,
		`postrider_deliveries_handed_total{result="ok"}`:             5,
		`postrider_wake_ups_total{direction="sent",verb="new"}`:      1,
		`postrider_wake_ups_total{direction="not_sent",verb="new"}`:  1,
		`postrider_wake_ups_total{direction="received",verb="look"}`: 1,

		`postrider_chore_runs_total{chore="forget_idempotency_keys",result="ok"}`:                1,
		`postrider_chore_runs_total{chore="forget_idempotency_keys",result="error"}`:             1,
		`postrider_chore_rows_total{chore="forget_idempotency_keys"}`:                            15,
		`postrider_chore_round_seconds{chore="forget_events"}`:                                   90,
		`postrider_chore_round_rows{chore="forget_events"}`:                                      250_000,
		`postrider_chore_round_seconds{chore="forget_bodies"}`:                                   0,
		`postrider_chore_round_rows{chore="forget_bodies"}`:                                      0,
		`postrider_chore_rows_total{chore="forget_bodies"}`:                                      700,
		`postrider_store_call_seconds_count{result="ok",verb="Settle"}`:                          1,
		`postrider_store_call_seconds_count{result="refused",verb="Publish"}`:                    1,
		`postrider_store_call_seconds_count{result="error",verb="Publish"}`:                      1,
		`postrider_backup_last_success_timestamp_seconds{kind="copy"}`:                           1_800_000_000.5,
		`postrider_backup_last_success_timestamp_seconds{kind="log"}`:                            0,
		`postrider_backup_failing{kind="copy"}`:                                                  0,
		`postrider_backup_failing{kind="log"}`:                                                   1,
		`postrider_attempts_postponed_total{failure="out_of_ports"}`:                             1,
		`postrider_attempts_postponed_total{failure="out_of_descriptors"}`:                       0,
		`postrider_invariants_violated_total{invariant="attempt_panicked"}`:                      1,
		`postrider_invariants_violated_total{invariant="request_panicked"}`:                      0,
		`postrider_hook_panics_total`:                                                            2,
		`postrider_worst_endpoint_failures{endpoint="` + postrider.EndpointID{7}.String() + `"}`: 3,
	})
}

// TestDeadLettersAndFailuresOfChoresAreCountedFromZero guards the alerts on dead letters and on the
// list of expunges: increase() ignores the first sample of a series.
func TestDeadLettersAndFailuresOfChoresAreCountedFromZero(t *testing.T) {
	t.Parallel()
	m := telemetry.New(telemetry.Options{})
	m.Hooks().ChoreDone.Call(observe.ChoreDone{Name: "roll up"})
	want := map[string]float64{`postrider_chore_runs_total{chore="roll_up",result="error"}`: 0}
	for _, reason := range []string{"exhausted", "gone", "client_error", "aborted_by_receiver", "expired", "filter_failed", "system"} {
		want[fmt.Sprintf("postrider_dead_letters_total{reason=%q}", reason)] = 0
	}
	scrape(t, m).want(t, want)
}

// TestTheAgesOfDueDeliveriesAreWeighed checks that held deliveries do not count. It also checks
// that one old delivery is the 99th percentile only among fewer than a hundred.
func TestTheAgesOfDueDeliveriesAreWeighed(t *testing.T) {
	t.Parallel()
	lane := func(hold postrider.HeldBy, due int, newest, oldest time.Duration) observe.QueueLane {
		return observe.QueueLane{Lane: postrider.LaneFirst, HeldBy: hold, Due: due, Waiting: due, Newest: newest, Oldest: oldest}
	}
	for _, tt := range []struct {
		name  string
		lanes []observe.QueueLane
		want  float64
	}{
		{"nothing is due", nil, 0},
		{"what is held does not count", []observe.QueueLane{lane(postrider.HeldByCircuit, 900, time.Hour, time.Hour)}, 0},
		{"one delivery", []observe.QueueLane{lane(postrider.HeldByNothing, 1, 30*time.Second, 30*time.Second)}, 30},
		{"a backlog of a hundred seconds", []observe.QueueLane{lane(postrider.HeldByNothing, 1000, 0, 100*time.Second)}, 99},
		{"one in a thousand is old", []observe.QueueLane{
			lane(postrider.HeldByNothing, 1, time.Hour, time.Hour), lane(postrider.HeldByNothing, 999, time.Second, time.Second),
		}, 1},
		{"one in ten is old", []observe.QueueLane{
			lane(postrider.HeldByNothing, 1, time.Hour, time.Hour), lane(postrider.HeldByNothing, 9, time.Second, time.Second),
		}, 3600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := telemetry.New(telemetry.Options{})
			m.Hooks().Queue.Call(observe.Queue{Lanes: tt.lanes})
			got := scrape(t, m).samples["postrider_due_p99_seconds"]
			if off := got - tt.want; off > 0.5 || off < -0.5 {
				t.Errorf("postrider_due_p99_seconds = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTheWorstEndpointsAreNamedWhileTheyFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.New(telemetry.Options{Worst: 2})
		fail := func(endpoint byte, times int) {
			s := attempted(1, postrider.OutcomeTimedOut, postrider.Pending)
			s.Delivery.Endpoint = postrider.EndpointID{endpoint}
			for range times {
				m.Hooks().Settled.Call(s)
			}
		}
		want := func(when string, failures map[byte]float64) {
			t.Helper()
			named, got := map[string]float64{}, map[string]float64{}
			for endpoint, n := range failures {
				named[fmt.Sprintf(`postrider_worst_endpoint_failures{endpoint="%s"}`, postrider.EndpointID{endpoint})] = n
			}
			for sample, value := range scrape(t, m).samples {
				if strings.HasPrefix(sample, "postrider_worst_") {
					got[sample] = value
				}
			}
			if diff := cmp.Diff(named, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		fail(1, 3)
		fail(2, 1)
		fail(3, 2)
		want("at first", map[byte]float64{1: 3, 3: 2})
		time.Sleep(6 * time.Minute)
		fail(2, 4)
		want("after six minutes", map[byte]float64{1: 3, 2: 5})
		time.Sleep(5 * time.Minute)
		want("after eleven minutes", map[byte]float64{2: 4})
		time.Sleep(11 * time.Minute)
		want("when none fails any more", map[byte]float64{})
	})
}

// counted is a store that has dead letters, or does not respond.
type counted struct {
	mu  sync.Mutex
	n   int
	err error
}

func (c *counted) Backlog(context.Context, store.BacklogQuery) (store.Backlog, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return store.Backlog{DeadLetters: c.n}, c.err
}

func TestWhatOnlyTheStoreKnowsIsReadEvery15Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.New(telemetry.Options{})
		m.Hooks().HealthCounted.Call(observe.HealthCounts{Warned: 2, Disabled: 1})
		s := &counted{n: 4}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = m.Run(ctx, s, func() int { return 10 }) })
		synctest.Wait()
		values := map[string]float64{
			"postrider_dead_letters_unresolved": 4, `postrider_endpoints{health="healthy"}`: 7,
			`postrider_endpoints{health="warned"}`: 2, `postrider_endpoints{health="disabled"}`: 1,
		}
		scrape(t, m).want(t, values)
		s.mu.Lock()
		s.n, s.err = 0, postrider.ErrBusy
		s.mu.Unlock()
		time.Sleep(time.Minute)
		scrape(t, m).want(t, values)
		s.mu.Lock()
		s.n, s.err = 9, nil
		s.mu.Unlock()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		scrape(t, m).want(t, map[string]float64{"postrider_dead_letters_unresolved": 9})
		cancel()
		running.Wait()
	})
}

var pageRow = regexp.MustCompile("(?m)^\\| `(postrider_\\w+)` \\| (\\w+) \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")

// TestThePageHasEveryMetric compares the names, types and labels in docs/operate/metrics.md with
// the served metrics.
func TestThePageHasEveryMetric(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	type metric struct {
		Type   string
		Labels []string
	}
	documented, served := map[string]metric{}, map[string]metric{}
	for _, row := range pageRow.FindAllStringSubmatch(string(page), -1) {
		var labels []string
		for _, label := range regexp.MustCompile("`(\\w+)`(?: \\([^)]*\\))?").FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, label[1])
		}
		slices.Sort(labels)
		documented[row[1]] = metric{row[2], labels}
		if strings.TrimSpace(row[4]) == "" {
			t.Errorf("%s has no meaning", row[1])
		}
	}
	s := scrape(t, used(t))
	for name, kind := range s.types {
		served[name] = metric{kind, s.labels[name]}
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("docs/operate/metrics.md (-) and what is served (+) differ:\n%s", diff)
	}
	if len(served) < 40 {
		t.Errorf("only %d metrics are served", len(served))
	}
}
