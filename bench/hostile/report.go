package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// The goals: how much memory may grow, and how long after its deadline an attempt may end.
const (
	goalGrowth = 64 << 20
	goalBeyond = time.Second
)

// report has the measured numbers.
type report struct {
	opts          options
	before, after usage
	back          time.Duration // time until goroutines and files were as few as before
	took          time.Duration
	rows          []*tally
}

// write writes the report. It returns an error if an attempt was wrong or a goal was missed.
func (rep report) write() error {
	var text bytes.Buffer
	err := rep.totals(&text)
	fmt.Fprint(&text,
		"\n| group | what it does | rows | attempts | outcomes | longest beyond the deadline | raised the peak by |\n|---|---|---|---|---|---|---|\n")
	for _, t := range rep.rows {
		beyond := "-"
		if t.beyond > 0 {
			beyond = t.beyond.Round(time.Millisecond).String()
		}
		name := strings.NewReplacer("<", "&lt;", "|", "\\|").Replace(t.hostile.Name)
		raised := "-"
		if t.raised >= 1<<20 {
			raised = fmt.Sprintf("%.0f MiB", mib(t.raised))
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %d | %s | %s | %s |\n",
			t.hostile.Group, name, t.hostile.Rows, t.requests, t.seen(), beyond, raised)
		if t.wrong > 0 || t.again > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %d attempts wrong, such as: %w; %d over unfit connections", t.hostile.Name, t.wrong, t.first,
				t.again))
		}
	}
	if rep.opts.out == "" {
		_, failed := os.Stdout.Write(text.Bytes())
		return errors.Join(err, failed)
	}
	return errors.Join(err, os.WriteFile(rep.opts.out, text.Bytes(), 0o644))
}

func (rep report) totals(text *bytes.Buffer) error {
	var requests, wrong, again int
	beyond := rep.rows[0].beyond
	for _, t := range rep.rows {
		requests, wrong, again = requests+t.requests, wrong+t.wrong, again+t.again
		beyond = max(beyond, t.beyond)
	}
	growth := rep.after.peak - rep.before.resident
	o := rep.opts
	fmt.Fprintf(text, "# Hostile receivers\n\n%s, %s\n\n    go run ./bench/hostile %s\n\n", time.Now().UTC().Format(time.DateOnly), machine(),
		strings.Join(os.Args[1:], " "))
	fmt.Fprintf(text, "%d misbehaviours, %d receivers of each at once, up to %d attempts at each receiver, with a deadline of %v: "+
		"%d attempts in %v. Those that hold on get %d at a time each, the others one; one of the former and one of the latter are played at once.\n\n",
		len(rep.rows), o.receivers, o.requests, o.deadline, requests, rep.took.Round(time.Second), o.slots)
	fmt.Fprint(text, "| of the sender | goal | measured |\n|---|---|---|\n")
	fmt.Fprintf(text, "| growth of resident memory, at its peak | 64 MiB | %.1f MiB (%.1f before) |\n", mib(growth), mib(rep.before.resident))
	fmt.Fprintf(text, "| goroutines before and after | back in 60 s | %d and %d |\n", rep.before.goroutines, rep.after.goroutines)
	fmt.Fprintf(text, "| files before and after | back in 60 s | %d and %d, after %v |\n", rep.before.files, rep.after.files,
		rep.back.Round(100*time.Millisecond))
	fmt.Fprintf(text, "| longest attempt beyond its deadline | 1 s | %v |\n", max(0, beyond).Round(time.Millisecond))
	fmt.Fprintf(text, "| attempts not classified as they must be | 0 | %d |\n", wrong)
	fmt.Fprintf(text, "| requests over a connection that was not fit for one | 0 | %d |\n", again)
	switch {
	case growth > goalGrowth:
		return errors.New("memory grew too much")
	case beyond > goalBeyond:
		return errors.New("an attempt took too long")
	case rep.after.goroutines > rep.before.goroutines || rep.after.files > rep.before.files:
		return errors.New("goroutines or files are left")
	}
	return nil
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

// machine describes the machine of the measurement.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, _ := strings.Cut(string(text), "model name\t: ")
		model, _, _ = strings.Cut(rest, "\n")
	}
	return fmt.Sprintf("%d cores (%s), %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
