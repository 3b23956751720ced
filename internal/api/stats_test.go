package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// happened adds a delivered delivery of the tenant's endpoint to the statistics for each time. Each
// has a response time of 30 ms and a latency of two seconds.
func (w *world) happened(of tenant, eventType string, times ...time.Time) {
	w.Helper()
	account, _ := postrider.ParseID[postrider.AccountID](of.account)
	endpoint, _ := postrider.ParseID[postrider.EndpointID](of.endpoint)
	var all []store.Seen
	for _, at := range times {
		s := store.Seen{DeltaKey: store.DeltaKey{Account: account, Endpoint: endpoint, Type: eventType}, At: at}
		s.Record(postrider.OutcomeRejected, 1, postrider.Pending)
		s.Record(postrider.OutcomeAccepted, 2, postrider.Delivered)
		s.Responses.Add(30 * time.Millisecond)
		s.Latencies.Add(2 * time.Second)
		all = append(all, s)
	}
	if _, err := w.store.FoldRollups(w.Context(), store.Fold{Seen: all}); err != nil {
		w.Fatal(err)
	}
}

// stats requests statistics. The pairs are names and values of parameters.
func (w *world) stats(path string, pairs ...string) (s apitypes.Stats) {
	w.Helper()
	text := w.want(200, "GET "+path+parameters(pairs), "").text
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		w.Fatal(err)
	}
	return s
}

func parameters(pairs []string) string {
	values := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		values.Set(pair[0], pair[1])
	}
	return "?" + values.Encode()
}

// inWinter runs a test in a bubble whose clock shows noon of 2026-01-15.
func inWinter(t *testing.T, test func(*testing.T, time.Time)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(noon))
		test(t, noon)
	})
}

func TestStatsAreThoseOfTheScope(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme, other := w.tenant("acme"), w.tenant("other")
		w.happened(acme, "order.created", noon.Add(-90*time.Minute), noon.Add(-80*time.Minute))
		w.happened(acme, "order.paid", noon.Add(-5*time.Minute))
		w.happened(other, "order.created", noon.Add(-5*time.Minute))
		for path, want := range map[string][2]int64{
			"/stats": {4, 3}, "/accounts/acme/stats": {3, 2}, "/accounts/" + acme.account + "/stats": {3, 2},
			"/endpoints/" + acme.endpoint + "/stats": {3, 2}, "/endpoints/" + other.endpoint + "/stats": {1, 1},
		} {
			if got := w.stats(path).Total.Deliveries.Delivered; got != want[0] {
				t.Errorf("%s: %d delivered, want %d", path, got, want[0])
			}
			if got := w.stats(path, "type", "order.created").Total.Deliveries.Delivered; got != want[1] {
				t.Errorf("%s of a type: %d delivered, want %d", path, got, want[1])
			}
		}
	})
}

func TestStatsHaveNumbersForEachStep(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme := w.tenant("acme")
		w.happened(acme, "order.created", noon.Add(-90*time.Minute), noon.Add(-80*time.Minute), noon.Add(-25*time.Hour), noon)
		s := w.stats("/stats")
		number, rate, none := func(n int64) *int64 { return &n }, func(f float64) *float64 { return &f }, 0.0
		numbers := func(n int64) apitypes.StatsNumbers {
			return apitypes.StatsNumbers{
				Deliveries: apitypes.StatsDeliveries{Delivered: n}, Attempts: apitypes.StatsAttempts{Total: 2 * n, Accepted: n, Rejected: n},
				AttemptsByNumber: []int64{n, n}, SuccessRate: rate(1), FirstSuccessRate: &none,
				ResponseTime:    apitypes.StatsQuantiles{Count: n, P50MS: number(30), P95MS: number(30), P99MS: number(30)},
				DeliveryLatency: s.Total.DeliveryLatency,
			}
		}
		want := apitypes.Stats{
			From: apitypes.Time{Time: noon.Add(-24 * time.Hour)}, To: apitypes.Time{Time: noon.Add(time.Hour)}, Step: "hour", TZ: "UTC",
			DaysFit: true,
			Total:   numbers(3), Now: s.Now,
			Points: []apitypes.StatsPoint{
				{At: apitypes.Time{Time: noon.Add(-2 * time.Hour)}, StatsNumbers: numbers(2)},
				{At: apitypes.Time{Time: noon}, StatsNumbers: numbers(1)},
			},
		}
		for i := range want.Points {
			want.Points[i].DeliveryLatency = s.Points[i].DeliveryLatency
		}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("stats (-want +got):\n%s", diff)
		}
		if p50 := *s.Total.DeliveryLatency.P50MS; p50 < 1980 || p50 > 2020 {
			t.Errorf("latency p50 = %d ms, want 2,000 within 1 %%", p50)
		}
		for step, want := range map[string]string{"minute": "12:00:00 of 1", "day": "00:00:00 of 1, 00:00:00 of 3"} {
			if got := deliveredBy(w.stats("/stats", "step", step)); got != want {
				t.Errorf("by %s: %s, want %s", step, got, want)
			}
		}
	})
}

// deliveredBy writes the time of each point and its number of deliveries.
func deliveredBy(s apitypes.Stats) string {
	var texts []string
	for _, p := range s.Points {
		texts = append(texts, fmt.Sprintf("%s of %d", p.At.Format(time.TimeOnly), p.Deliveries.Delivered))
	}
	return strings.Join(texts, ", ")
}

func TestDaysOfAnotherZoneAreMadeOfHours(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme := w.tenant("acme")
		midnight := noon.Truncate(24 * time.Hour)
		w.happened(acme, "order.created", midnight.Add(-90*time.Minute), midnight.Add(-30*time.Minute), midnight.Add(-61*time.Minute),
			midnight.Add(30*time.Minute), midnight.Add(-5*time.Hour-15*time.Minute))
		for _, tt := range []struct {
			zone, want string
			fits       bool
		}{
			{"UTC", "00:00:00 of 4, 00:00:00 of 1", true},
			{"Europe/Berlin", "23:00:00 of 3, 23:00:00 of 2", true}, // a day begins at 23:00 UTC
			{"Asia/Kolkata", "18:30:00 of 5", false},                // at 18:30: the hour of 18:00 belongs to it
		} {
			s := w.stats("/stats", "step", "day", "tz", tt.zone, "from", noon.Add(-48*time.Hour).Format(time.RFC3339))
			if got := deliveredBy(s); got != tt.want || s.DaysFit != tt.fits || s.TZ != tt.zone {
				t.Errorf("days of %s = %s, fit: %v, of %s; want %s, %v", tt.zone, got, s.DaysFit, s.TZ, tt.want, tt.fits)
			}
		}
	})
}

// TestDaysMayHave23Hours checks that steps are whole days even if a day has 23 or 25 hours.
func TestDaysMayHave23Hours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
		time.Sleep(time.Until(noon))
		w := newWorld(t)
		var hours []time.Time
		for at := time.Date(2026, 3, 27, 23, 0, 0, 0, time.UTC); at.Before(noon); at = at.Add(time.Hour) {
			hours = append(hours, at)
		}
		w.happened(w.tenant("acme"), "order.created", hours...)
		got := deliveredBy(w.stats("/stats", "step", "day", "tz", "Europe/Berlin", "from", "2026-03-28T00:00:00Z", "to", "2026-03-30T12:00:00Z"))
		if want := "23:00:00 of 24, 23:00:00 of 23, 22:00:00 of 14"; got != want {
			t.Errorf("days = %s, want %s", got, want)
		}
	})
}

func TestStatsRefuseWhatIsNotKept(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		ago := func(days int) string { return noon.AddDate(0, 0, -days).Format(time.RFC3339) }
		for _, tt := range []struct {
			field  string
			status int
			pairs  []string
		}{
			{"step", 422, []string{"step", "minute", "from", ago(3)}},
			{"", 200, []string{"step", "minute", "from", ago(2)}},
			{"step", 422, []string{"step", "hour", "from", ago(91)}},
			{"", 200, []string{"step", "hour", "from", ago(90)}},
			{"from", 422, []string{"step", "day", "from", ago(732)}},
			{"", 200, []string{"step", "day", "from", ago(730)}},
			{"tz", 422, []string{"step", "day", "from", ago(100), "tz", "Europe/Berlin"}},
			{"tz", 422, []string{"step", "hour", "tz", "Europe/Berlin"}},
			{"tz", 422, []string{"step", "day", "tz", "Europe/Nowhere"}},
			{"tz", 422, []string{"step", "day", "tz", "../etc/passwd"}},
			{"tz", 422, []string{"step", "day", "tz", "Local"}},
			{"step", 422, []string{"step", "week"}},
			{"from", 422, []string{"from", ago(1), "to", ago(2)}},
			{"from", 422, []string{"from", ago(1), "to", ago(1)}},
			{"from", 422, []string{"from", ago(-1)}},
			{"", 200, []string{"step", "day", "to", "9999-12-31T23:59:59Z"}},
			{"", 200, []string{"step", "day", "to", "9999-12-31T23:59:59Z", "tz", "Europe/Berlin"}},
			{"type", 422, []string{"type", "order.*"}},
			{"to", 422, []string{"to", "yesterday"}},
		} {
			got := w.do(w.admin, "GET /stats"+parameters(tt.pairs), "")
			if got.status != tt.status || tt.field != "" && !strings.Contains(got.text, `"field":"`+tt.field+`"`) {
				t.Errorf("%v = %d %s, want %d with a fault of %q", tt.pairs, got.status, got.text, tt.status, tt.field)
			}
		}
	})
}

func TestAKeyOfAnAccountSeesItsOwnStatsAlone(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme, other := w.tenant("acme"), w.tenant("other")
		w.happened(acme, "order.created", noon)
		w.happened(other, "order.created", noon, noon)
		key := w.bound(acme)
		for path, want := range map[string]int{
			"/stats": 200, "/accounts/acme/stats": 200, "/endpoints/" + acme.endpoint + "/stats": 200,
			"/accounts/other/stats": 404, "/accounts/" + other.account + "/stats": 404, "/endpoints/" + other.endpoint + "/stats": 404,
		} {
			got := w.do(key, "GET "+path, "")
			if got.status != want {
				t.Errorf("%s = %d %s, want %d", path, got.status, got.text, want)
			}
			if want == 200 && !strings.Contains(got.text, `"delivered":1,`) {
				t.Errorf("%s = %s, want one delivery", path, got.text)
			}
		}
	})
}

func TestStatsSayWhatWaitsNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme") // with one pending delivery
	s := w.stats("/endpoints/" + acme.endpoint + "/stats")
	if s.Now.Pending != 1 || s.Now.OldestDueMS == nil || s.Now.DeadLetters != 0 || s.Now.Partial {
		t.Errorf("now = %+v, want one pending delivery that is due", s.Now)
	}
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	if s := w.stats("/accounts/acme/stats"); s.Now.Pending != 0 || s.Now.OldestDueMS != nil || s.Now.DeadLetters != 1 {
		t.Errorf("now = %+v, want one dead letter", s.Now)
	}
}

// leaveOut stores events that no endpoint gets.
func (w *world) leaveOut(of tenant, eventType string, n int) {
	w.Helper()
	account, err := postrider.ParseID[postrider.AccountID](of.account)
	if err != nil {
		w.Fatal(err)
	}
	changes, err := w.store.Changes(w.Context(), 0, 1000)
	if err != nil {
		w.Fatal(err)
	}
	var batch store.Batch
	for range n {
		e := postrider.Event{ID: store.NewID[postrider.EventID](w.ids), Account: account, Type: eventType, Data: []byte(`{}`)}
		e.CreatedAt = e.ID.Time()
		batch = append(batch, store.NewEvent{Event: e})
	}
	batch[0].Event.ID = postrider.TestEventID(batch[0].Event.ID) // of another endpoint: it is not counted
	if _, err := w.store.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{batch}}); err != nil {
		w.Fatal(err)
	}
}

func TestEventsThatAFilterLeftOutAreCounted(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme := w.tenant("acme")
		path, at := "/endpoints/"+acme.endpoint, func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
		leftOut := func(what string, want apitypes.LeftOut, pairs ...string) {
			t.Helper()
			got := w.stats(path+"/stats", append(pairs, "left_out", "true")...).LeftOut
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		hours := func(from, to int) []string {
			return []string{"from", at(from).Format(time.RFC3339), "to", at(to).Format(time.RFC3339)}
		}
		time.Sleep(time.Until(at(1)))
		w.leaveOut(acme, "order.created", 4)
		w.leaveOut(acme, "user.created", 3)
		w.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": {}}`)
		time.Sleep(time.Until(at(2)))
		from := apitypes.Time{Time: at(1)}
		leftOut("a whole hour", apitypes.LeftOut{Count: 3, Events: 4, From: from}, hours(1, 2)...)
		leftOut("a type", apitypes.LeftOut{Count: 0, Events: 1, From: from}, append(hours(1, 2), "type", "order.paid")...)
		leftOut("with the present hour", apitypes.LeftOut{Count: 3, Events: 4, From: from, About: true}, hours(1, 3)...)
		early := apitypes.Time{Time: at(-1)}
		leftOut("with the time before the endpoint", apitypes.LeftOut{Count: 3, Events: 5, From: early, About: true}, hours(-1, 2)...)
		w.want(200, "PATCH "+path, `{"filter": {"data": {"total": [5]}}}`)
		w.leaveOut(acme, "order.created", 2)
		time.Sleep(time.Until(at(3)))
		leftOut("the hour before the change", apitypes.LeftOut{Count: 3, Events: 4, From: from}, hours(1, 2)...)
		leftOut("the hours around the change", apitypes.LeftOut{Count: 4, Events: 5, From: from, About: true}, hours(1, 3)...)
		leftOut("the hour after the change", apitypes.LeftOut{Count: 1, Events: 1, From: apitypes.Time{Time: at(2)}}, hours(2, 3)...)
		if s := w.stats(path + "/stats"); s.LeftOut != nil {
			t.Errorf("not asked for: %+v", s.LeftOut)
		}
	})
}

func TestOfManyEventsTheNewestAreCounted(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme := w.tenant("acme")
		time.Sleep(time.Until(noon.Add(time.Hour)))
		w.leaveOut(acme, "order.created", 4000)
		time.Sleep(time.Minute)
		w.leaveOut(acme, "order.created", 4000)
		time.Sleep(time.Hour)
		begin := noon.Add(time.Hour)
		got := w.stats("/endpoints/"+acme.endpoint+"/stats", "from", begin.Format(time.RFC3339), "to", begin.Add(time.Hour).Format(time.RFC3339),
			"left_out", "true").LeftOut
		if !got.About || got.Count != got.Events || got.Count < 3999 || got.Count > 5000 || !got.From.After(begin) {
			t.Errorf("%+v, want about 4000 to 5000 events from a later time than %s", got, begin)
		}
	})
}
