package deploy_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the table of faults anew")

// The recorded series of servers with faults, which make faults makes, and the table of which
// alerts they fire.
const (
	faultFolder = "faults"
	tableBegin  = "<!-- faults:begin -->\n\n"
	tableEnd    = "\n<!-- faults:end -->"
)

// fault is a recording of what servers served while something was wrong.
type fault struct {
	name   string // of its file, and the job of its series
	title  string
	sample time.Duration
	begin  time.Duration // of the fault, from the begin of the recording
	end    time.Duration // of the recording
	series []string      // as promtool reads them
	fires  []span
}

// span is for how long an alert fired.
type span struct {
	alert, severity string
	from, to        time.Duration // since the begin of the fault
	gaps            bool          // it did not fire all the time
}

// harmless reports whether the fault must fire nothing.
func (f *fault) harmless() bool { return strings.HasPrefix(f.name, "harmless-") }

var faultHead = regexp.MustCompile(`^# (.+); sample=(\S+) begin=(\S+)\n`)

func readFaults(t *testing.T) map[string]*fault {
	t.Helper()
	files, err := filepath.Glob(faultFolder + "/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d recordings of faults, %v", len(files), err)
	}
	all := map[string]*fault{}
	for _, file := range files {
		text := string(readFile(t, file))
		head := faultHead.FindStringSubmatch(text)
		if head == nil {
			t.Fatalf("%s does not say what it is", file)
		}
		f := &fault{name: strings.TrimSuffix(filepath.Base(file), ".txt"), title: head[1]}
		f.sample, _ = time.ParseDuration(head[2])
		f.begin, _ = time.ParseDuration(head[3])
		for line := range strings.Lines(text[len(head[0]):]) {
			name, values, _ := strings.Cut(strings.TrimSpace(line), "} ")
			if strings.HasPrefix(name, "up{") {
				f.end = f.sample * time.Duration(samplesOf(values)-1)
			}
			name = strings.Replace(name, "{", fmt.Sprintf("{job=%q, ", "postrider-"+f.name), 1)
			f.series = append(f.series, fmt.Sprintf("      - {series: '%s}', values: '%s'}\n", name, values))
		}
		all[f.name] = f
	}
	return all
}

// samplesOf returns how many samples a series has, in the notation of promtool.
func samplesOf(values string) (n int) {
	for token := range strings.FieldsSeq(values) {
		_, more, _ := strings.Cut(token, "x")
		times, _ := strconv.Atoi(more) // 0: there is no x
		n += times + 1
	}
	return n
}

// firing asks for the alerts of all faults that fire. promtool prints the query with what it
// finds, so the query has the number of the sample in it; a count is always greater.
const firing = `count by (alertname, severity, job) (ALERTS{alertstate="firing"}) > -%d`

// evaluate has promtool evaluate the rules over the recordings with one interval, as jobs of one
// Prometheus, and notes in each what fires. promtool says what it finds where it expects nothing.
func evaluate(t *testing.T, faults map[string]*fault, sample time.Duration) {
	t.Helper()
	rules, err := filepath.Abs(ruleFile)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var length time.Duration
	order := regexp.MustCompile(`(?m)^group_eval_order:.*$`).Find(readFile(t, ruleTests))
	fmt.Fprintf(&text, "rule_files: [%s]\nevaluation_interval: %v\n%s\ntests:\n  - interval: %v\n    input_series:\n", rules, sample, order,
		sample)
	for _, f := range faults {
		if f.sample == sample {
			length = max(length, f.end)
			text.WriteString(strings.Join(f.series, ""))
		}
	}
	text.WriteString("    promql_expr_test:\n")
	for n := range int(length/sample) + 1 {
		fmt.Fprintf(&text, "      - {expr: '"+firing+"', eval_time: %ds, exp_samples: []}\n", n+1, n*int(sample.Seconds()))
	}
	file := filepath.Join(t.TempDir(), "faults.yml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), "test", "rules", file).CombinedOutput()
	found := regexp.MustCompile(`> -(\d+)", time: .*\n +exp: nil\n +got: (.*)`).FindAllStringSubmatch(string(out), -1)
	if err == nil || len(found) == 0 || len(found) != strings.Count(string(out), "expr: ") {
		t.Fatalf("promtool: %v\n%.2000s", err, out)
	}
	for _, sampled := range found {
		n, _ := strconv.Atoi(sampled[1])
		for _, labels := range regexp.MustCompile(`\{([^}]*)\}`).FindAllStringSubmatch(sampled[2], -1) {
			label := func(name string) string {
				return strings.Join(regexp.MustCompile(`\b` + name + `="([^"]*)"`).FindStringSubmatch(labels[1])[1:], "")
			}
			f := faults[strings.TrimPrefix(label("job"), "postrider-")]
			f.note(label("alertname"), label("severity"), time.Duration(n-1)*sample)
		}
	}
}

// note notes that an alert fires at a time. Times are noted in their order.
func (f *fault) note(alert, severity string, at time.Duration) {
	if at > f.end { // its series have ended
		return
	}
	at -= f.begin
	i := slices.IndexFunc(f.fires, func(s span) bool { return s.alert == alert })
	if i < 0 {
		f.fires = append(f.fires, span{alert: alert, severity: severity, from: at, to: at})
		return
	}
	f.fires[i].gaps = f.fires[i].gaps || at > f.fires[i].to+f.sample
	f.fires[i].to = at
}

// row is the row of a fault in the table.
func (f *fault) row() string {
	cells := map[string][]string{}
	slices.SortFunc(f.fires, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), strings.Compare(a.alert, b.alert)) })
	for _, s := range f.fires {
		cell := fmt.Sprintf("%s %d–%d", strings.TrimPrefix(s.alert, "Postrider"), int(s.from.Minutes()), int(s.to.Minutes()))
		if s.gaps {
			cell += " with gaps"
		}
		cells[s.severity] = append(cells[s.severity], cell)
	}
	text := func(severity string) string {
		if len(cells[severity]) == 0 {
			return "none"
		}
		return strings.Join(cells[severity], ", ")
	}
	return fmt.Sprintf("| %s | %s | %s |\n", f.title, text("page"), text("warning"))
}

// TestFaultsFireAlerts has promtool evaluate the rules over the recorded faults, and compares what
// fires, and when, with the table of monitoring.md.
func TestFaultsFireAlerts(t *testing.T) {
	t.Parallel()
	faults := readFaults(t)
	for _, sample := range []time.Duration{time.Minute, 5 * time.Minute} {
		t.Run(sample.String(), func(t *testing.T) { evaluate(t, faults, sample) })
	}
	fired, rows := map[string]bool{}, map[bool]string{}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		f := faults[name]
		if f.harmless() && len(f.fires) > 0 {
			t.Errorf("%s fires %v, and nothing is wrong", f.title, f.fires)
		}
		rows[f.harmless()] += f.row()
		for _, s := range f.fires {
			fired[s.alert] = true
		}
	}
	table := "| fault | page | warning |\n|---|---|---|\n" + rows[false] + rows[true]
	page := string(readFile(t, monitoringPage))
	start, end := strings.Index(page, tableBegin)+len(tableBegin), strings.Index(page, tableEnd)
	switch {
	case *update:
		if err := os.WriteFile(monitoringPage, []byte(page[:start]+table+page[end:]), 0o600); err != nil {
			t.Fatal(err)
		}
	case page[start:end] != table:
		t.Errorf("the table of %s is\n%s, want\n%s", monitoringPage, page[start:end], table)
	}
	byHand := testedByHand(t)
	for _, r := range alerts(t) {
		if !fired[r.Alert] && !byHand[r.Alert] {
			t.Errorf("no recorded fault fires %s, and no test of %s", r.Alert, ruleTests)
		}
	}
}
