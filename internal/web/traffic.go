package web

import (
	"context"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// traffic is what happened in a range of time, as the overview and the page of an
// endpoint show it.
type traffic struct {
	Range  string   // of trafficRanges
	UTC    bool     // the days are UTC days, and the person has another zone
	Ranges []string // all of them
	Stats  apitypes.Stats
	Charts []chart
	Scope  string // query that filters lists by what the numbers are of; empty: everything
}

// trafficRange is a range of time that ends now, with the step of its charts.
type trafficRange struct {
	name   string
	length time.Duration
	step   string
	size   time.Duration // of a step
}

// trafficRanges are the ranges that a person can choose. The second is the default.
var trafficRanges = []trafficRange{
	{"1h", time.Hour, "minute", time.Minute},
	{"24h", 24 * time.Hour, "hour", time.Hour},
	{"7d", 7 * 24 * time.Hour, "hour", time.Hour},
	{"30d", 30 * 24 * time.Hour, "day", 24 * time.Hour},
	{"1y", 365 * 24 * time.Hour, "day", 24 * time.Hour},
}

// hoursKept is less than the time for which the API keeps hours, of which the days of
// other zones than UTC are made.
const hoursKept = 80 * 24 * time.Hour

// traffic returns the numbers and charts of the range of the URL, from the stats that ask
// returns. Its times are whole minutes, so that pages of one second make the same call. The
// current minute is in the range, and so is an hour that begins with it. scope is a query that
// filters lists by what the numbers are of; empty: everything.
func (v *visit) traffic(scope string, ask func(context.Context, client.StatsQuery) (apitypes.Stats, error)) (*traffic, error) {
	chosen := trafficRanges[1]
	t := &traffic{Scope: scope}
	for _, r := range trafficRanges {
		t.Ranges = append(t.Ranges, r.name)
		if r.name == v.query("range") {
			chosen = r
		}
	}
	t.Range = chosen.name
	q := client.StatsQuery{From: v.now.Add(-chosen.length).Truncate(time.Minute), To: v.now.Truncate(time.Minute).Add(time.Minute), Step: chosen.step}
	zone := v.zone
	if chosen.step == "day" {
		if chosen.length > hoursKept {
			zone = time.UTC
		}
		q.TZ, t.UTC = zone.String(), zone.String() != v.zone.String()
	}
	stats, err := ask(v.ctx, q)
	if err != nil {
		return nil, err
	}
	t.Stats = stats
	at, points := steps(stats, chosen, zone)
	link := v.createdIn(scope, chosen)
	t.Charts = []chart{v.outcomeChart(at, points, chosen, link), v.latencyChart(at, points, chosen, link)}
	if n := stats.Now.Pending; n > 0 {
		t.Charts[0].Empty = v.t("chart.empty_pending", "n", n)
	}
	return t, nil
}

// createdIn returns the function that gives the page of the deliveries that were created in
// a step.
func (v *visit) createdIn(scope string, r trafficRange) func(time.Time) string {
	return func(at time.Time) string {
		end := at.Add(r.size)
		if r.step == "day" {
			end = at.AddDate(0, 0, 1)
		}
		query, _ := url.ParseQuery(strings.TrimPrefix(scope, "?")) // of this program
		query.Set("from", at.In(v.zone).Format(localTime))
		query.Set("to", end.In(v.zone).Format(localTime))
		return v.path("deliveries") + "?" + query.Encode()
	}
}

// steps returns the time of every step of the range, in the zone, and its numbers. They are
// nil for a step without attempts and deliveries, which the API leaves out.
func steps(stats apitypes.Stats, r trafficRange, zone *time.Location) ([]time.Time, []*apitypes.StatsNumbers) {
	found := map[int64]*apitypes.StatsNumbers{}
	for i := range stats.Points {
		found[stats.Points[i].At.Unix()] = &stats.Points[i].StatsNumbers
	}
	var at []time.Time
	var points []*apitypes.StatsNumbers
	for next := stats.From.Time; next.Before(stats.To.Time) && len(at) < 1000; {
		at, points = append(at, next.In(zone)), append(points, found[next.Unix()])
		if r.step == "day" { // one with a change of the clock is longer or shorter
			next = next.In(zone).AddDate(0, 0, 1)
		} else {
			next = next.Add(r.size)
		}
	}
	return at, points
}

// outcomeChart draws how deliveries ended and how many attempts failed, stacked.
func (v *visit) outcomeChart(at []time.Time, points []*apitypes.StatsNumbers, r trafficRange, link func(time.Time) string) chart {
	p := plot{
		id: "outcomes", title: v.t("chart.outcomes"), at: at, step: r.size, link: link, bars: true,
		names:   []string{v.t("stats.delivered"), v.t("stats.failed_attempts"), v.t("stats.dead")},
		classes: []string{"series-0", "series-2", "series-1"},
		values:  make([][]float64, 3), show: func(n float64) string { return v.text.decimal(n) },
	}
	var delivered, failed, dead int64
	for _, n := range points {
		if n == nil {
			n = &apitypes.StatsNumbers{}
		}
		retried := n.Attempts.Total - n.Attempts.Accepted
		delivered, failed, dead = delivered+n.Deliveries.Delivered, failed+retried, dead+n.Deliveries.Dead
		for i, count := range []int64{n.Deliveries.Delivered, retried, n.Deliveries.Dead} {
			p.values[i] = append(p.values[i], float64(count))
		}
	}
	p.desc = v.t("chart.outcomes.desc", "delivered", delivered, "failed", failed, "dead", dead)
	return p.draw()
}

// latencyChart draws the percentiles of the response time.
func (v *visit) latencyChart(at []time.Time, points []*apitypes.StatsNumbers, r trafficRange, link func(time.Time) string) chart {
	p := plot{
		id: "latency", title: v.t("chart.latency"), desc: v.t("chart.latency.desc"), at: at, step: r.size, link: link, area: true,
		names: []string{"p50", "p95", "p99"}, classes: []string{"series-0", "series-5", "series-2"}, values: make([][]float64, 3),
		show: func(ms float64) string { return v.text.duration(time.Duration(ms * float64(time.Millisecond))) },
	}
	number := func(ms *int64) float64 {
		if ms == nil {
			return math.NaN()
		}
		return float64(*ms)
	}
	for _, n := range points {
		if n == nil {
			n = &apitypes.StatsNumbers{}
		}
		for i, ms := range []*int64{n.ResponseTime.P50MS, n.ResponseTime.P95MS, n.ResponseTime.P99MS} {
			p.values[i] = append(p.values[i], number(ms))
		}
	}
	return p.draw()
}
