package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/doctor/facts"
)

// doctorCmd is the command doctor. It has the settings of serve, so that it checks the same
// environment and file.
type doctorCmd struct {
	config.Config `embed:""`

	Timeout time.Duration `default:"10s" help:"Time for all checks together, at least 1s."`
	Nodes   int           `placeholder:"N" help:"Number of servers that will share the PostgreSQL database, for the number of its connections. Default: the servers that run now, at least one."`
	Resolve string        `default:"example.com" help:"Name that DNS is tested with. Name the host of a receiver if this network knows no public names."`
	Strict  bool          `help:"Exit with 1 for warnings, too."`
	JSON    bool          `name:"json" help:"Print the result as JSON."`
}

// Help returns the text above the flags in the help of the command.
func (doctorCmd) Help() string {
	return "Checks whether a server would run well here: its settings, the database or the data folder, the disk, clocks, DNS, addresses, " +
		"encryption keys and the limits of this machine. It starts no server and changes nothing, and it may run beside a server. " +
		"Run it with the flags, the environment and the file of serve, as the same user on the same machine:\n\n" +
		"    postrider doctor --config /etc/postrider/postrider.yaml\n\n" +
		"Each line is a check: ok, warn (the server works, but could be safer or faster) or fail (it does not start, or loses events), " +
		"with the setting or the command that mends it. docs/operate/doctor.md explains every check.\n\n" +
		"The exit code is 0 if no check failed; 1 if one failed or, with --strict, warned; and 2 if the command line is wrong."
}

// Run prints the report. A wrong setting is a failed check in the report, not a wrong command line.
func (c *doctorCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	switch {
	case c.Timeout < time.Second:
		return misused("--timeout: must be at least 1s")
	case c.Nodes < 0:
		return misused("--nodes: must not be less than 0")
	}
	report := facts.Examine(ctx, c.Config, sources.Check(c.Validate), facts.Checkup{
		Version: app.Version(), Within: c.Timeout, Nodes: c.Nodes, Resolve: c.Resolve,
	})
	print := printReport
	if c.JSON {
		print = func(w io.Writer, r doctor.Report) error { return printJSON(w, r) }
	}
	if err := print(t.out, report); err != nil {
		return err
	}
	switch {
	case report.Fail > 0:
		return fmt.Errorf("%d of %d checks failed", report.Fail, len(report.Checks))
	case c.Strict && report.Warn > 0:
		return fmt.Errorf("%d of %d checks warned, and --strict is set", report.Warn, len(report.Checks))
	}
	return nil
}

// printReport prints one line for each check. If there is something to change, a second line says
// what.
func printReport(w io.Writer, report doctor.Report) error {
	width := 0
	for _, c := range report.Checks {
		width = max(width, len(c.Name))
	}
	var text strings.Builder
	for _, c := range report.Checks {
		fmt.Fprintf(&text, "%-4s  %-*s  %s\n", c.Status, width, c.Name, oneLine(c.Found))
		if c.Remedy != "" {
			fmt.Fprintf(&text, "%*s-> %s\n", width+8, "", oneLine(c.Remedy))
		}
	}
	fmt.Fprintf(&text, "ok: %d, warn: %d, fail: %d\n", report.OK, report.Warn, report.Fail)
	_, err := io.WriteString(w, text.String())
	return err
}
