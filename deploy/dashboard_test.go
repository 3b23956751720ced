package deploy_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// dashboard is what Grafana needs of a dashboard (schema version 39), and no more: a field that
// is not here fails the test.
type dashboard struct {
	Title, UID, Description, Timezone, Refresh, WeekStart      string
	Tags                                                       []string
	SchemaVersion, Version, GraphTooltip, FiscalYearStartMonth int
	Editable                                                   bool
	Time                                                       struct{ From, To string }
	Annotations                                                struct{ List []any }
	Links                                                      []any
	Templating                                                 struct{ List []variable }
	Panels                                                     []panel
}

type source struct{ Type, UID string }

// variable is a choice above the panels.
type variable struct {
	Name, Label, Type, Definition, Regex, AllValue string
	Query, Current                                 any
	Datasource                                     *source
	Refresh, Sort, Hide                            int
	Multi, IncludeAll                              bool
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Collapsed                bool
	Panels                   []any
	Datasource               *source
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Min        *float64
			Custom     map[string]any
			Thresholds *struct {
				Mode  string
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
		Overrides []any
	}
	Options map[string]any
	Targets []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
		Range                     bool
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(readFile(t, dashboardFile)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboardIsWellFormed checks what Grafana refuses or shows wrongly: ids, places, units,
// sources and thresholds.
func TestDashboardIsWellFormed(t *testing.T) {
	t.Parallel()
	d, known := readDashboard(t), documented(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion != 39 || d.Time.From == "" {
		t.Errorf("the dashboard lacks a title, a uid, a version of the schema or a time: %+v", d)
	}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	if want := []string{"datasource", "job", "instance"}; !slices.Equal(names, want) {
		t.Errorf("the variables are %q, want %q", names, want)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s has the id %d, which is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("%s is outside of the 24 columns: %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s covers %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		p.check(t, known)
	}
}

// check checks a panel by itself.
func (p *panel) check(t *testing.T, known map[string][]string) {
	t.Helper()
	if p.Type == "row" {
		if p.Title == "" || len(p.Targets) > 0 {
			t.Errorf("row %d: %+v", p.ID, p)
		}
		return
	}
	units := []string{"short", "s", "ops", "bytes", "percentunit"}
	switch {
	case p.Type != "stat" && p.Type != "timeseries":
		t.Errorf("%s is a %s", p.Title, p.Type)
	case p.Title == "" || p.Description == "" || len(p.Options) == 0 || len(p.Targets) == 0:
		t.Errorf("panel %d (%s) lacks a title, a description, options or queries", p.ID, p.Title)
	case !slices.Contains(units, p.FieldConfig.Defaults.Unit):
		t.Errorf("%s has the unit %q", p.Title, p.FieldConfig.Defaults.Unit)
	case p.Datasource == nil || p.Datasource.UID != "${datasource}":
		t.Errorf("%s reads %v", p.Title, p.Datasource)
	}
	if steps := p.FieldConfig.Defaults.Thresholds; steps != nil && (len(steps.Steps) == 0 || steps.Steps[0].Value != nil) {
		t.Errorf("%s: the first threshold must have no value", p.Title)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if refs[target.RefID] || target.RefID == "" || target.Datasource != *p.Datasource {
			t.Errorf("%s: query %q is named twice, or reads %v", p.Title, target.RefID, target.Datasource)
		}
		refs[target.RefID] = true
		checkMetrics(t, p.Title, target.Expr, known)
	}
}

// silent are parts of queries that have no series on one server that works. The server of the test has a
// source whose database is away, so no rows are read.
var silent = []string{`result!="ok"`, `result="error"`, "wake_ups_total", "postrider_source_rows_total", "postrider_source_cycle_seconds"}

// TestQueriesAreAnswered asks a real Prometheus, which scrapes a real server, every query of
// the dashboard and its variables, and looks at the rules that it evaluates. A query with a
// wrong name is answered by nothing, so each must have a series.
func TestQueriesAreAnswered(t *testing.T) {
	t.Parallel()
	p := startPrometheus(t, startPostrider(t))
	wait(t, "four scrapes, the first measurement, the settlement of a delivery and the backup", func() bool {
		n, err := p.series(t,
			`count_over_time(postrider_queue_measured_timestamp_seconds[1m]) >= 4 and on () postrider_queue_measured_timestamp_seconds > 0 `+
				`and on () count_over_time(postrider_dead_letters_total[1m]) >= 4 and on () postrider_backup_last_success_timestamp_seconds > 0`)
		return err == nil && n > 0
	})
	variables := strings.NewReplacer("$job", "postrider", "$instance", ".*", "$__rate_interval", "1m", "$__range", "1h")
	for _, panel := range readDashboard(t).Panels {
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			n, err := p.series(t, query)
			quiet := slices.ContainsFunc(silent, func(part string) bool { return strings.Contains(query, part) })
			if err != nil || n == 0 && !quiet {
				t.Errorf("%s: %d series, %v: %s", panel.Title, n, err, query)
			}
		}
	}
	var jobs []string
	if err := p.get(t, "/api/v1/label/job/values", url.Values{"match[]": {"postrider_build_info"}}, &jobs); err != nil ||
		!slices.Equal(jobs, []string{"postrider"}) {
		t.Errorf("the variable job has %q, %v", jobs, err)
	}
	checkEvaluated(t, p)
}

// checkEvaluated checks that Prometheus evaluates every rule without an error, and that none
// fires for a server that works.
func checkEvaluated(t *testing.T, p prometheus) {
	t.Helper()
	type state struct{ Name, Health, LastError, State string }
	states := func() (all []state) {
		var data struct{ Groups []struct{ Rules []state } }
		if err := p.get(t, "/api/v1/rules", nil, &data); err != nil {
			t.Fatal(err)
		}
		for _, group := range data.Groups {
			all = append(all, group.Rules...)
		}
		return all
	}
	wait(t, "an evaluation of every rule", func() bool {
		return !slices.ContainsFunc(states(), func(s state) bool { return s.Health == "unknown" })
	})
	if got, want := len(states()), len(readRules(t)); got != want {
		t.Errorf("Prometheus has %d rules, want %d", got, want)
	}
	for _, s := range states() {
		if s.Health != "ok" || s.State == "firing" {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
}
