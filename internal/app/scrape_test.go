package app

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ruleFile has the alerts. Their metrics are what a recording keeps.
const ruleFile = "../../deploy/prometheus/postrider.rules.yml"

// Labels that no rule reads: their series are added up.
var unread = regexp.MustCompile(`(route|method|verb|type|event_type)="[^"]*",?`)

// buckets are the recorded buckets of commits: the rules ask only for 0.5 s.
var buckets = regexp.MustCompile(`le="(0\.5|1|\+Inf)"`)

// selector is a metric of a rule with the labels by which the rule selects series.
type selector struct {
	metric string
	labels map[string]*regexp.Regexp
	not    map[string]*regexp.Regexp
}

// selectors returns what the rules read.
func selectors(rules []byte) (all []selector) {
	label := regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	for _, found := range regexp.MustCompile(`\b(postrider_\w+)(?:\{([^}]*)\})?`).FindAllSubmatch(rules, -1) {
		s := selector{metric: string(found[1]), labels: map[string]*regexp.Regexp{}, not: map[string]*regexp.Regexp{}}
		for _, l := range label.FindAllSubmatch(found[2], -1) {
			pattern := string(l[3])
			if len(l[2]) == 1 || string(l[2]) == "!=" {
				pattern = regexp.QuoteMeta(pattern)
			}
			to := s.labels
			if l[2][0] == '!' {
				to = s.not
			}
			to[string(l[1])] = regexp.MustCompile("^(?:" + pattern + ")$")
		}
		all = append(all, s)
	}
	return all
}

// selects reports whether the selector selects a series.
func (s selector) selects(metric string, labels map[string]string) bool {
	if s.metric != metric {
		return false
	}
	for name, pattern := range s.labels {
		if !pattern.MatchString(labels[name]) {
			return false
		}
	}
	for name, pattern := range s.not {
		if pattern.MatchString(labels[name]) {
			return false
		}
	}
	return true
}

// recording is the series that the servers of an installation served, one sample in each interval.
type recording struct {
	kept   []selector
	begun  time.Time
	n      int                  // samples of each series so far
	series map[string][]float64 // NaN: the series was not there
}

func newRecording(rules []byte) *recording {
	return &recording{kept: selectors(rules), begun: time.Now(), series: map[string][]float64{}}
}

// scrape adds a sample of each server.
func (r *recording) scrape(in *installation) {
	now := map[string]float64{}
	for _, s := range in.servers {
		up := fmt.Sprintf(`up{instance=%q}`, s.name)
		now[up] = 0
		if a := s.now(); a != nil {
			now[up] = 1
			r.read(a.watchers.telemetry.Handler(), s.name, now)
		}
	}
	for name, value := range now {
		if r.series[name] == nil {
			r.series[name] = slices.Repeat([]float64{math.NaN()}, r.n)
		}
		r.series[name] = append(r.series[name], value)
	}
	r.n++
	for name, samples := range r.series {
		if len(samples) < r.n {
			r.series[name] = append(samples, math.NaN())
		}
	}
}

// read reads the metrics of a server that the rules use, and adds up what differs in labels that
// none reads. Times are counted from the begin of the recording.
func (r *recording) read(metrics http.Handler, instance string, now map[string]float64) {
	response := httptest.NewRecorder()
	metrics.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(response.Body.String()) {
		if !strings.HasPrefix(line, "postrider_") {
			continue
		}
		parts := sampleLine.FindStringSubmatch(line)
		if parts == nil || !r.keeps(parts[1], parts[2]) {
			continue
		}
		labels := strings.TrimSuffix(unread.ReplaceAllString(parts[2], ""), ",")
		if labels != "" {
			labels = ", " + strings.ReplaceAll(labels, `",`, `", `)
		}
		number, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			panic(line)
		}
		if strings.HasSuffix(parts[1], "_timestamp_seconds") {
			number = 60 * math.Round((number-float64(r.begun.Unix()))/60)
		}
		now[fmt.Sprintf(`%s{instance=%q%s}`, parts[1], instance, labels)] += number
	}
}

var (
	sampleLine = regexp.MustCompile(`^(postrider_\w+)(?:\{(.*)\})? (\S+)\n$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// keeps reports whether a rule reads the series.
func (r *recording) keeps(metric, text string) bool {
	if strings.HasSuffix(metric, "_bucket") && !buckets.MatchString(text) {
		return false
	}
	labels := map[string]string{}
	for _, l := range labelPair.FindAllStringSubmatch(text, -1) {
		labels[l[1]] = l[2]
	}
	return slices.ContainsFunc(r.kept, func(s selector) bool { return s.selects(metric, labels) })
}

// write writes the recording: a line of what it is, and one for each series, as promtool reads
// series.
func (r *recording) write(file, head string) error {
	var text strings.Builder
	fmt.Fprintln(&text, head)
	var names []string
	for name, samples := range r.series {
		if !pointless(name, samples) && !r.quick(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintln(&text, name, notation(round(name, r.series[name]), slack(name)))
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}

// quick reports whether the series is of commits, all of which took at most half a second.
func (r *recording) quick(name string) bool {
	within, found := strings.CutPrefix(name, "postrider_commit_seconds_bucket")
	within = regexp.MustCompile(`le="[^"]*"`).ReplaceAllString(within, `le="+Inf"`)
	all := r.series["postrider_commit_seconds_bucket"+within]
	half := r.series["postrider_commit_seconds_bucket"+strings.Replace(within, `"+Inf"`, `"0.5"`, 1)]
	return found && fmt.Sprint(all) == fmt.Sprint(half)
}

// counts reports whether a series is a counter.
func counts(name string) bool {
	return regexp.MustCompile(`_(total|count|bucket)\{`).MatchString(name)
}

// pointless reports whether a series is a counter that counts nothing, or a gauge that is never
// there or 0 and whose 0 no rule asks for. A rule adds attempts that were lost to settlements that
// were stale, and a sum needs both.
func pointless(name string, samples []float64) bool {
	if strings.HasPrefix(name, "postrider_attempts_lost_") || strings.HasPrefix(name, "postrider_settlements_stale_") {
		return false
	}
	var first, least, most float64
	for i, s := range slices.DeleteFunc(slices.Clone(samples), math.IsNaN) {
		if i == 0 {
			first, least, most = s, s, s
		}
		least, most = min(least, s), max(most, s)
	}
	if counts(name) {
		return first == most && least == most
	}
	// asked for by > alone
	return least == 0 && most == 0 &&
		regexp.MustCompile(`^postrider_(due_|queue_deliveries|queue_partial|lag|disk|notices|backup_failing|clock|circuits_opened)`).MatchString(name)
}

// round rounds the samples of a gauge to three digits, which keeps a recording short.
func round(name string, samples []float64) []float64 {
	if counts(name) || strings.Contains(name, "_timestamp_") {
		return samples
	}
	rounded := slices.Clone(samples)
	for i, s := range rounded {
		if !math.IsNaN(s) {
			rounded[i], _ = strconv.ParseFloat(strconv.FormatFloat(s, 'g', 3, 64), 64)
		}
	}
	return rounded
}

// slack is how far a recording may lag behind a counter, in intervals: the rules compare others
// with a hundredth of these two, so half an interval is nothing.
func slack(name string) float64 {
	if strings.HasPrefix(name, "postrider_store_call") && strings.Contains(name, `"ok"`) ||
		strings.HasPrefix(name, "postrider_api_response") && strings.Contains(name, `"2xx"`) {
		return .5
	}
	return 0
}

// notation writes samples as promtool reads them: 3x4 is 3 five times, 1+2x3 is 1 3 5 7, and _
// is none.
func notation(samples []float64, slack float64) string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	var out []string
	for i, gone := 0, true; i < len(samples); {
		run := i + 1
		if math.IsNaN(samples[i]) {
			for run < len(samples) && math.IsNaN(samples[run]) {
				run++
			}
			missing := run - i
			if !gone {
				out, missing = append(out, "stale"), missing-1
			}
			if missing > 0 {
				out = append(out, fmt.Sprint("_x", missing))
			}
			i, gone = run, true
			continue
		}
		gone = false
		step, n := line(samples[i:], slack)
		switch {
		case n == 0 || n == 1 && step != 0:
			out, n = append(out, number(samples[i])), 0
		case step == 0:
			out = append(out, number(samples[i])+"x"+strconv.Itoa(n))
		default:
			out = append(out, fmt.Sprintf("%s%sx%d", number(samples[i]), strings.Replace("+"+number(step), "+-", "-", 1), n))
		}
		i += n + 1
	}
	return strings.Join(out, " ")
}

// line returns how many samples after the first lie on a line from it, and the line's step. A line
// with slack lies nowhere above the samples, and at most so many steps below.
func line(samples []float64, slack float64) (step float64, n int) {
	if len(samples) == 1 || math.IsNaN(samples[1]) {
		return 0, 0
	}
	step = samples[1] - samples[0]
	if far := min(10, len(samples)-1); slack > 0 && !math.IsNaN(samples[far]) {
		step = math.Floor((samples[far] - samples[0]) / float64(far))
	}
	for n+1 < len(samples) && !math.IsNaN(samples[n+1]) {
		off := samples[n+1] - samples[0] - step*float64(n+1)
		if off < 0 || off > slack*step {
			break
		}
		n++
	}
	return step, n
}
