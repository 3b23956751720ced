// Package traffic shows the figures and charts of a range of time. The overview, the page of an
// account and the page of an endpoint contain them.
package traffic

import (
	"context"
	"embed"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// Templates has the partial "traffic", whose dot is a [Traffic].
//
//go:embed *.html
var Templates embed.FS

// Traffic is what happened in a range of time, as the overview and the page of an
// endpoint show it.
type Traffic struct {
	Range  string   // of TrafficRanges
	UTC    bool     // the days are UTC days, and the person has another zone
	Ranges []string // all of them
	Stats  apitypes.Stats
	Charts []chart
	Scope  string // query that filters lists by what the numbers are of; empty: everything
}

// trafficRange is a range of time that ends now, with the step of its charts.
type trafficRange struct {
	Name   string
	length time.Duration
	step   string
	size   time.Duration // of a step
}

// TrafficRanges are the ranges that a person can choose. The second is the default.
var TrafficRanges = []trafficRange{
	{"1h", time.Hour, "minute", time.Minute},
	{"24h", 24 * time.Hour, "hour", time.Hour},
	{"7d", 7 * 24 * time.Hour, "hour", time.Hour},
	{"30d", 30 * 24 * time.Hour, "day", 24 * time.Hour},
	{"1y", 365 * 24 * time.Hour, "day", 24 * time.Hour},
}

// hoursKept is less than the time for which the API keeps hours. Days of zones other than UTC are
// made of hours.
const hoursKept = 80 * 24 * time.Hour

// Read returns the numbers and charts of the range in the URL, from the stats that ask returns.
// The times are whole minutes, so that pages in the same second make the same call. The current
// minute is in the range, and so is an hour that begins with it. scope is a query that filters
// lists to the objects that the numbers are about; empty: everything.
func Read(v *page.Visit, scope string, ask func(context.Context, client.StatsQuery) (apitypes.Stats, error)) (*Traffic, error) {
	chosen := TrafficRanges[1]
	t := &Traffic{Scope: scope}
	for _, r := range TrafficRanges {
		t.Ranges = append(t.Ranges, r.Name)
		if r.Name == v.Query("range") {
			chosen = r
		}
	}
	t.Range = chosen.Name
	minute := v.Now.Truncate(time.Minute)
	q := client.StatsQuery{From: minute.Add(-chosen.length), To: minute.Add(time.Minute), Step: chosen.step}
	zone := v.Zone
	if chosen.step == "day" {
		if chosen.length > hoursKept {
			zone = time.UTC
		}
		q.TZ, t.UTC = zone.String(), zone.String() != v.Zone.String()
	}
	stats, err := ask(v.Context, q)
	if err != nil {
		return nil, err
	}
	t.Stats = stats
	at, points := steps(stats, chosen, zone)
	empty := plot{at: at, step: chosen.size, link: createdIn(v, scope, chosen)}
	t.Charts = []chart{outcomeChart(v, empty, points), latencyChart(v, empty, points)}
	if n := stats.Now.Pending; n > 0 {
		t.Charts[0].Empty = v.T("chart.empty_pending", "n", n)
	}
	return t, nil
}

// createdIn returns the function that gives the page of the deliveries that were created in
// a step.
func createdIn(v *page.Visit, scope string, r trafficRange) func(time.Time) string {
	return func(at time.Time) string {
		end := at.Add(r.size)
		if r.step == "day" {
			end = at.AddDate(0, 0, 1)
		}
		query, _ := url.ParseQuery(strings.TrimPrefix(scope, "?")) // of this program
		query.Set("from", at.In(v.Zone).Format(page.LocalTime))
		query.Set("to", end.In(v.Zone).Format(page.LocalTime))
		return v.Path("deliveries") + "?" + query.Encode()
	}
}

// steps returns the time of every step of the range, in the zone, and its numbers. The numbers
// are nil for a step without attempts and deliveries, because the API leaves such steps out.
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
func outcomeChart(v *page.Visit, p plot, points []*apitypes.StatsNumbers) chart {
	p.id, p.title, p.bars, p.show = "outcomes", v.T("chart.outcomes"), true, v.Text.Decimal
	p.names = []string{v.T("stats.delivered"), v.T("stats.failed_attempts"), v.T("stats.dead")}
	p.classes, p.values = []string{"series-0", "series-2", "series-1"}, make([][]float64, 3)
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
	p.desc = v.T("chart.outcomes.desc", "delivered", delivered, "failed", failed, "dead", dead)
	return p.draw()
}

// latencyChart draws the percentiles of the response time.
func latencyChart(v *page.Visit, p plot, points []*apitypes.StatsNumbers) chart {
	p.id, p.title, p.desc, p.area = "latency", v.T("chart.latency"), v.T("chart.latency.desc"), true
	p.names, p.classes = []string{"p50", "p95", "p99"}, []string{"series-0", "series-5", "series-2"}
	p.values = make([][]float64, 3)
	p.show = func(ms float64) string { return v.Text.Duration(time.Duration(ms * float64(time.Millisecond))) }
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
