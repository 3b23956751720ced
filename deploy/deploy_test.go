// Package deploy_test checks what deploy has for those who run Postrider: the alerts by
// Prometheus' own promtool, the dashboard by a real Prometheus that scrapes the real program,
// and the chart by helm's own library. It is a module of its own, so that the program does not
// depend on helm and Kubernetes.
package deploy_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// ruleFile and dashboardFile are what the tests check, beside the chart.
const (
	ruleFile       = "prometheus/postrider.rules.yml"
	ruleTests      = "prometheus/postrider_test.yml"
	dashboardFile  = "grafana/postrider.json"
	runbooks       = "../docs/operate/runbooks.md"
	monitoringPage = "../docs/operate/monitoring.md"
)

// rules are a file of rules, as Prometheus reads it.
type rules struct {
	Groups []struct {
		Name     string `json:"name"`
		Interval string `json:"interval"`
		Rules    []rule `json:"rules"`
	} `json:"groups"`
}

// rule is an alert or a recorded series.
type rule struct {
	Alert       string            `json:"alert"`
	Record      string            `json:"record"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// readRules returns the rules; a field that Prometheus does not know fails the test.
func readRules(t *testing.T) (all []rule) {
	t.Helper()
	var file rules
	if err := yaml.UnmarshalStrict(readFile(t, ruleFile), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	return slices.DeleteFunc(readRules(t), func(r rule) bool { return r.Alert == "" })
}

// tool returns the path of a program that make setup installs. A test that needs one which is
// missing fails.
func tool(t *testing.T, name string) string {
	t.Helper()
	found, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: make setup installs it", err)
	}
	return found
}

var (
	pageRow    = regexp.MustCompile("(?m)^\\| `(postrider_\\w+)` \\| (\\w+) \\|([^|]*)\\|")
	pageLabel  = regexp.MustCompile("`(\\w+)`(?: \\([^)]*\\))?")
	usedMetric = regexp.MustCompile(`(:?)\b(postrider_\w+)(?:\{([^}]*)\})?`)
	usedLabel  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
)

// documented returns the series of docs/operate/metrics.md with the labels of each. A
// histogram has three, and the label of its buckets.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	series := map[string][]string{}
	for _, row := range pageRow.FindAllStringSubmatch(string(readFile(t, "../docs/operate/metrics.md")), -1) {
		labels := []string{"job", "namespace", "instance"}
		for _, label := range pageLabel.FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, label[1])
		}
		if row[2] != "histogram" {
			series[row[1]] = labels
			continue
		}
		series[row[1]+"_sum"], series[row[1]+"_count"] = labels, labels
		series[row[1]+"_bucket"] = append(slices.Clone(labels), "le")
	}
	if len(series) < 40 {
		t.Fatalf("docs/operate/metrics.md has only %d series", len(series))
	}
	return series
}

// checkMetrics fails the test for each metric of the query, and each label that it selects
// by, that the documentation does not have. Recorded series have a colon and are left out.
func checkMetrics(t *testing.T, what, query string, known map[string][]string) {
	t.Helper()
	for _, used := range usedMetric.FindAllStringSubmatch(query, -1) {
		if used[1] == ":" {
			continue
		}
		labels, ok := known[used[2]]
		if !ok {
			t.Errorf("%s: docs/operate/metrics.md has no series %s", what, used[2])
			continue
		}
		for _, label := range usedLabel.FindAllStringSubmatch(used[3], -1) {
			if !slices.Contains(labels, label[1]) {
				t.Errorf("%s: %s has no label %s", what, used[2], label[1])
			}
		}
	}
}

// TestChecksCanFail gives checkMetrics faults: a check that finds nothing anywhere checks
// nothing.
func TestChecksCanFail(t *testing.T) {
	t.Parallel()
	known := documented(t)
	for query, series := range map[string]int{
		`sum(rate(postrider_attempts_total{number="1"}[5m])) / job:postrider_anything:sum`: 1,
		`postrider_commit_seconds_bucket{le="1"}`:                                          1,
		`postrider_commit_seconds`:                                                         0, // a histogram is no series
	} {
		found := 0
		for _, used := range usedMetric.FindAllStringSubmatch(query, -1) {
			if _, ok := known[used[2]]; ok && used[1] == "" {
				found++
			}
		}
		if found != series {
			t.Errorf("%d documented series in %s, want %d", found, query, series)
		}
	}
	if strings.Contains(strings.Join(known["postrider_commit_seconds_sum"], " "), "le") {
		t.Error("a sum has the label of buckets")
	}
}
