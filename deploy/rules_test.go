package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPromtool checks the rules and the configuration by Prometheus' own tool, and runs the
// tests of the rules.
func TestPromtool(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", ruleFile},
		{"check", "config", "prometheus/prometheus.yml"},
		{"test", "rules", ruleTests},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), args...).CombinedOutput()
			if err != nil {
				t.Errorf("promtool %v: %v\n%s", args, err, out)
			}
			if args[0] == "check" && args[1] == "rules" && !strings.Contains(string(out), "rules found") {
				t.Errorf("promtool found no rules:\n%s", out)
			}
		})
	}
}

// TestTheDocumentedScrapeConfigurationIsValid has Debian's promtool read the example of
// metrics.md: people copy it.
func TestTheDocumentedScrapeConfigurationIsValid(t *testing.T) {
	t.Parallel()
	example := regexp.MustCompile(`(?m)^    scrape_configs:\n(?:    .*\n)+`).Find(readFile(t, "../docs/operate/metrics.md"))
	if example == nil {
		t.Fatal("metrics.md has no scrape configuration")
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	body := strings.ReplaceAll(string(example), "\n    ", "\n")
	if err := os.WriteFile(file, []byte(strings.TrimPrefix(body, "    ")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), tool(t, "promtool"), "check", "config", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func TestRulesUseDocumentedMetrics(t *testing.T) {
	t.Parallel()
	known, recorded := documented(t), map[string]bool{}
	for _, r := range readRules(t) {
		checkMetrics(t, r.Alert+r.Record, r.Expr, known)
		recorded[r.Record] = true
		for _, used := range regexp.MustCompile(`\bjob:\w+:\w+`).FindAllString(r.Expr, -1) {
			if !recorded[used] {
				t.Errorf("%s: %s is not recorded before it", r.Alert+r.Record, used)
			}
		}
	}
}

// TestWorriesHaveAnAlert checks that each metric of metrics.md with a "when to worry" names the
// alert that does, which uses it, or says why there is none.
func TestWorriesHaveAnAlert(t *testing.T) {
	t.Parallel()
	uses := map[string]string{} // expressions by alert or record, those of its records included
	for _, r := range readRules(t) {
		expr := r.Expr
		for _, record := range regexp.MustCompile(`\bjob:\w+:\w+`).FindAllString(r.Expr, -1) {
			expr += uses[record]
		}
		uses[r.Alert+r.Record] = expr
	}
	row := regexp.MustCompile("(?m)^\\| `(postrider_\\w+)` \\|.*\\| ([^|]*) \\|$")
	rows := row.FindAllStringSubmatch(string(readFile(t, "../docs/operate/metrics.md")), -1)
	if len(rows) < 40 {
		t.Fatalf("docs/operate/metrics.md has %d rows with a worry", len(rows))
	}
	for _, r := range rows {
		named := regexp.MustCompile(`\[(Postrider\w+)\]`).FindStringSubmatch(r[2])
		switch {
		case named == nil && !strings.Contains(r[2], "No alert"):
			t.Errorf("%s has no alert, and no word why", r[1])
		case named != nil && !regexp.MustCompile(`\b`+r[1]+`(_bucket|_count)?\b`).MatchString(uses[named[1]]):
			t.Errorf("%s: the alert %s does not use it", r[1], named[1])
		}
	}
}

// TestTheDocumentedInhibitionsNameAlerts checks the example of monitoring.md: while the store is
// away, the alerts that follow from it are silent, and one of its own cause is not.
func TestTheDocumentedInhibitionsNameAlerts(t *testing.T) {
	t.Parallel()
	silent, known := map[string]*regexp.Regexp{}, map[string]bool{}
	for _, r := range alerts(t) {
		known[r.Alert] = true
	}
	rule := regexp.MustCompile(`source_matchers: \[alertname="(\w+)"\]\s+target_matchers: \[alertname=~"([^"]+)"`)
	for _, r := range rule.FindAllStringSubmatch(string(readFile(t, monitoringPage)), -1) {
		silent[r[1]] = regexp.MustCompile("^(?:" + r[2] + ")$")
		if !known[r[1]] || silent[r[1]].MatchString(r[1]) && r[1] != "PostriderDown" {
			t.Errorf("%s is no alert, or inhibits itself", r[1])
		}
		for name := range strings.FieldsFuncSeq(strings.TrimPrefix(r[2], "Postrider"),
			func(r rune) bool { return strings.ContainsRune("(|)", r) }) {
			if !known["Postrider"+name] && name != ".*" {
				t.Errorf("%s inhibits %s, which is no alert", r[1], name)
			}
		}
	}
	away := silent["PostriderStoreAway"]
	if away == nil {
		t.Fatal("monitoring.md has no inhibition by PostriderStoreAway")
	}
	for name, want := range map[string]bool{
		"PostriderAPIErrors": true, "PostriderPublishesRefused": true, "PostriderStoreErrors": true, "PostriderRetentionFails": true,
		"PostriderChoreFails": true, "PostriderNotReady": true, "PostriderCircuitsOpen": false, "PostriderDiskNearlyFull": false,
	} {
		if away.MatchString(name) != want {
			t.Errorf("while the store is away, %s is silent: %v, want %v", name, !want, want)
		}
	}
}

// TestAlertsSayWhatToDo checks the labels and annotations of each alert.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	const page = "https://github.com/postrider/postrider/blob/main/docs/operate/runbooks.md#"
	for _, r := range alerts(t) {
		if severity := r.Labels["severity"]; severity != "page" && severity != "warning" {
			t.Errorf("%s has the severity %q", r.Alert, severity)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", r.Alert)
		}
		if got, want := r.Annotations["runbook_url"], page+strings.ToLower(r.Alert); got != want {
			t.Errorf("the runbook of %s is %s, want %s", r.Alert, got, want)
		}
	}
}

// TestAlertsHaveRunbooks compares the alerts with the entries of the page, and checks the
// parts of each entry.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	parts := []string{"Meaning", "Customers notice", "Run first", "What heals it", "Wake someone"}
	var named, described []string
	for _, r := range alerts(t) {
		named = append(named, r.Alert)
	}
	for entry := range strings.SplitSeq(string(readFile(t, runbooks)), "\n## ") {
		alert, text, _ := strings.Cut(entry, "\n")
		if !strings.HasPrefix(alert, "Postrider") {
			continue
		}
		described = append(described, alert)
		var got []string
		for _, part := range regexp.MustCompile(`(?m)^\*\*([^*]+):\*\*`).FindAllStringSubmatch(text, -1) {
			got = append(got, part[1])
		}
		if !slices.Equal(got, parts) {
			t.Errorf("%s has the parts %q, want %q", alert, got, parts)
		}
		_, first, _ := strings.Cut(text, "**Run first:**")
		first, _, _ = strings.Cut(first, "**What heals it:**")
		if commands := strings.Count(first, "\n    "); commands != 3 {
			t.Errorf("%s has %d commands to run first, want 3", alert, commands)
		}
	}
	slices.Sort(named)
	slices.Sort(described)
	if !slices.Equal(named, described) {
		t.Errorf("the alerts are %q,\nthe page has %q", named, described)
	}
}

// ruleTestFile is the part of a test file of promtool that the test reads.
type ruleTestFile struct {
	Tests []struct {
		Name  string `json:"name"`
		Input []struct {
			Series string `json:"series"`
		} `json:"input_series"`
		Checks []struct {
			Expr    string `json:"expr"`
			Samples []struct {
				Labels string `json:"labels"`
			} `json:"exp_samples"`
		} `json:"promql_expr_test"`
	} `json:"tests"`
}

var jobLabel = regexp.MustCompile(`job="([^"]+)"`)

// testedByHand returns the alerts that have a test in which they fire for one job, and for another
// job that has the same series do not.
func testedByHand(t *testing.T) map[string]bool {
	t.Helper()
	var file ruleTestFile
	if err := yaml.Unmarshal(readFile(t, ruleTests), &file); err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, test := range file.Tests {
		fires := map[string][]string{} // jobs by alert
		for _, check := range test.Checks {
			if !strings.Contains(check.Expr, `ALERTS{alertstate="firing"}`) {
				t.Errorf("%s does not look at all alerts", test.Name)
			}
			for _, sample := range check.Samples {
				alert := regexp.MustCompile(`alertname="(\w+)"`).FindStringSubmatch(sample.Labels)[1]
				fires[alert] = append(fires[alert], strings.Join(jobLabel.FindStringSubmatch(sample.Labels), ""))
			}
		}
		for alert, jobs := range fires {
			for _, input := range test.Input {
				job := strings.Join(jobLabel.FindStringSubmatch(input.Series), "")
				if strings.HasPrefix(test.Name, alert+" ") && !slices.Contains(jobs, job) && strings.Contains(job, "postrider-") {
					tested[alert] = true
				}
			}
		}
	}
	return tested
}
