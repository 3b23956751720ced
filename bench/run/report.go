package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/bench/internal/lab"
)

// report collects the figures of all rounds.
type report struct {
	opts   options
	server string // version of PostgreSQL
	raws   []raws
	thrown int // measurements that were repeated because of stolen time
	rows   []*row
	said   map[string][]string // what servers said in the last round, by title
	cross  map[string]cross    // by title
	faults error
}

// row is one figure of a scenario on a store.
type row struct {
	name   string // name of the scenario
	store  string
	figure string
	format string
	goal   *goal
	values []float64 // one value for each round
}

func newReport(o options) *report {
	return &report{opts: o, said: map[string][]string{}, cross: map[string]cross{}}
}

func (rep *report) addRaw(r raws) { rep.raws = append(rep.raws, r) }

// add adds the figures of one run of a scenario.
func (rep *report) add(c chosen, figures []figure) {
	goals := c.goals
	if c.store == sqlite {
		goals = c.goalsOn
	}
	for _, f := range figures {
		r := rep.row(c.title(), c.store, f)
		if g, ok := goals[f.name]; ok {
			r.goal = &g
		}
		if f.name == ofPlain && c.variant.share < 1 {
			r.goal = new(atLeast(0.97))
		}
		if f.name == notArrived {
			r.goal = new(atMost(0))
		}
		r.values = append(r.values, f.value)
	}
}

// title returns the name of the scenario on its store, and the variant.
func (c chosen) title() string {
	name := c.name
	if c.store == sqlite && c.onSQLite != "" {
		name = c.onSQLite
	}
	if c.variant.name != plain {
		name += " (" + c.variant.name + ")"
	}
	return name
}

// say adds the lines of the log and the metrics that show the troubles, and the scenario's further table.
func (rep *report) say(c chosen, s shown) {
	title := c.title() + ", " + c.store
	rep.said[title], rep.cross[title] = nil, c.cross
	for _, st := range c.setups {
		for _, p := range st.phases {
			for _, line := range s.readings[p.name].said {
				rep.said[title] = append(rep.said[title], p.name+": `"+line+"`")
			}
		}
	}
}

func (rep *report) row(name, store string, f figure) *row {
	for _, r := range rep.rows {
		if r.name == name && r.store == store && r.figure == f.name {
			return r
		}
	}
	r := &row{name: name, store: store, figure: f.name, format: f.format}
	rep.rows = append(rep.rows, r)
	return r
}

// write writes the report to a file, or to standard output.
func (rep *report) write(path string) error {
	if path == "" {
		_, err := os.Stdout.WriteString(rep.markdown())
		return err
	}
	if err := os.WriteFile(path, []byte(rep.markdown()), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (rep *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results\n\n%s\n\n    %s\n\n", machine(), command())
	if rep.server != "" {
		fmt.Fprintf(&b, "PostgreSQL %s with %s, the rest as installed: fsync and synchronous_commit are on.\n",
			rep.server, strings.Join(lab.Settings, ", "))
	}
	fmt.Fprintf(&b, "%d run(s) of each scenario, on fresh stores; README.md says what the figures are.\n", rep.opts.runs)
	if rep.opts.quick {
		b.WriteString("With -quick: the numbers mean nothing.\n")
	}
	if rep.faults != nil {
		b.WriteString("\nNot measured:\n\n")
		for line := range strings.Lines(rep.faults.Error()) {
			b.WriteString("    " + line)
		}
		b.WriteString("\n")
	}
	if rep.thrown > 0 {
		fmt.Fprintf(&b, "\n%d measurement(s) were thrown away and repeated: over a tenth of the machine's time was stolen meanwhile.\n",
			rep.thrown)
	}
	b.WriteString("\nRaw, from load to sink without a server, 64 connections, requests/s:\n\n| client | median | least to greatest |\n|---|--:|--:|\n")
	var lean, std []float64
	for _, r := range rep.raws {
		lean, std = append(lean, r.lean.Rate()), append(std, r.std.Rate())
	}
	for _, r := range []row{{figure: "net/http", values: std}, {figure: "lean, as in bench/load", values: lean}} {
		if len(r.values) > 0 {
			fmt.Fprintf(&b, "| %s | %.0f | %.0f to %.0f |\n", r.figure, median(r.values), slices.Min(r.values), slices.Max(r.values))
		}
	}
	b.WriteString("\n## Goals\n\n| scenario | figure | goal | median | least to greatest | reached |\n|---|---|--:|--:|--:|---|\n")
	for _, r := range rep.rows {
		if r.goal != nil {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r.title(), r.cells(), rep.verdict(r))
		}
	}
	rep.writeScenarios(&b)
	return b.String()
}

// writeScenarios writes the table of each scenario, and the lines from its servers.
func (rep *report) writeScenarios(b *strings.Builder) {
	var titles []string
	of := map[string][]*row{}
	for _, r := range rep.rows {
		if of[r.title()] == nil {
			titles = append(titles, r.title())
		}
		of[r.title()] = append(of[r.title()], r)
	}
	for _, title := range titles {
		fmt.Fprintf(b, "\n## %s\n\n| figure | goal | median | least to greatest |\n|---|--:|--:|--:|\n", title)
		for _, r := range of[title] {
			fmt.Fprintf(b, "| %s |\n", r.cells())
		}
		rep.cross[title].write(b, of[title])
		if said := rep.said[title]; len(said) > 0 {
			b.WriteString("\nWhat the servers said, in the last round:\n\n")
		}
		for _, line := range rep.said[title] {
			fmt.Fprintf(b, "- %s\n", line)
		}
	}
}

// cross is a table of the medians of a scenario: the cell of a row and a column is the figure with the
// name "row: column".
type cross struct{ rows, columns []string }

func (c cross) write(b *strings.Builder, figures []*row) {
	if len(c.rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| | %s |\n|---%s|\n", strings.Join(c.columns, " | "), strings.Repeat("|--:", len(c.columns)))
	for _, name := range c.rows {
		fmt.Fprintf(b, "| %s |", name)
		for _, column := range c.columns {
			cell := ""
			for _, r := range figures {
				if r.figure == name+": "+column {
					cell = fmt.Sprintf(r.format, median(r.values))
				}
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteString("\n")
	}
}

// verdict says whether the median of a row reaches its goal.
func (rep *report) verdict(r *row) string {
	if r.goal.reached(median(r.values)) {
		return "yes"
	}
	for _, other := range rep.rows {
		instead := other.title() == r.title() && other.figure == r.goal.or
		if instead && other.goal != nil && other.goal.reached(median(other.values)) {
			return "by its alternative"
		}
	}
	return "**no**"
}

// title returns the name of the scenario and its store.
func (r *row) title() string { return r.name + ", " + r.store }

// cells returns the figure, its goal, the median and the spread.
func (r *row) cells() string {
	show := func(value float64) string { return fmt.Sprintf(r.format, value) }
	wanted, spread := "", ""
	if r.goal != nil {
		wanted = r.goal.sign() + " " + show(r.goal.bound)
	}
	if len(r.values) > 1 {
		spread = show(slices.Min(r.values)) + " to " + show(slices.Max(r.values))
	}
	return strings.Join([]string{r.figure, wanted, show(median(r.values)), spread}, " | ")
}

// command returns the command line of this program.
func command() string {
	words := []string{"go run ./bench/run"}
	for _, word := range os.Args[1:] {
		if strings.Contains(word, " ") {
			word = strconv.Quote(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// machine describes the machine of the measurement.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			model = strings.Trim(line, "\t :")
		}
	}
	return fmt.Sprintf("%s, %d cores (%s), %s, %s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), model,
		runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
}
