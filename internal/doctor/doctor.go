// Package doctor judges the set-up of a server: what a check found, whether that is right, and what
// to change.
//
// A check has a name, a status, a finding, and the setting or command that fixes the problem. Other
// packages supply the facts: the stores describe their databases as [Postgres] and [SQLite], and
// package app describes the settings and the machine. The functions here turn facts into checks.
// Apart from the facts, they read only the limits of this process and its disks, so a table of
// facts tests them.
//
// It promises:
//
//   - A check changes nothing permanently.
//   - [Run] returns when its time is over, even if a disk or a server never answers.
//   - A check contains no secret: callers mask the passwords of URLs.
package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Status says how serious a finding is.
type Status string

// The statuses of a check.
const (
	OK Status = "ok"
	// Warn: the server works, but it is slower, less safe or less useful than it could be.
	Warn Status = "warn"
	Fail Status = "fail" // the server does not start, loses events, or will stop working
)

// Check is the result of one check.
type Check struct {
	Name   Name   `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // what to change; empty: nothing
}

// Okay returns a check that found nothing wrong.
func Okay(name Name, format string, args ...any) Check {
	return Check{Name: name, Status: OK, Found: fmt.Sprintf(format, args...)}
}

// Warning returns a check that found something to improve.
func Warning(name Name, format string, args ...any) Check {
	return Check{Name: name, Status: Warn, Found: fmt.Sprintf(format, args...)}
}

// Failure returns a check that found something wrong.
func Failure(name Name, format string, args ...any) Check {
	return Check{Name: name, Status: Fail, Found: fmt.Sprintf(format, args...)}
}

// Change returns the check with a remedy.
func (c Check) Change(format string, args ...any) Check {
	c.Remedy = fmt.Sprintf(format, args...)
	return c
}

// Report is the result of all checks.
type Report struct {
	Version string  `json:"version"` // of this program
	Checks  []Check `json:"checks"`
	OK      int     `json:"ok"` // numbers of checks
	Warn    int     `json:"warn"`
	Fail    int     `json:"fail"`
}

// NewReport returns the report of the checks, with the numbers of each status.
func NewReport(version string, checks []Check) Report {
	r := Report{Version: version, Checks: checks}
	for i, c := range checks {
		// Found may have line breaks, from the text of a server or a file.
		r.Checks[i].Found = strings.Join(strings.Fields(c.Found), " ")
		switch c.Status {
		case OK:
			r.OK++
		case Warn:
			r.Warn++
		case Fail:
			r.Fail++
		}
	}
	return r
}

// Probe examines one part of the set-up.
type Probe struct {
	// Name is the check that is reported as failed if Look does not return in time.
	Name Name
	// Look returns its checks. It should return soon after ctx ends.
	Look func(ctx context.Context) []Check
}

// lateness is how long Run still waits for probes after their context has ended.
const lateness = 500 * time.Millisecond

// Run runs the probes at the same time, for at most within, and returns their checks in the order
// of the probes.
//
// No context ends a system call on a disk that hangs. Run leaves such a probe running in its
// goroutine, because the program ends soon.
func Run(ctx context.Context, within time.Duration, probes []Probe) []Check {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var looking sync.WaitGroup // nobody waits for it: see above
	found := make([]chan []Check, len(probes))
	for i, p := range probes {
		found[i] = make(chan []Check, 1)
		looking.Go(func() { found[i] <- p.Look(ctx) })
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lateness, func() { close(late) }) })
	defer stop()
	var checks []Check
	for i, p := range probes {
		select {
		case list := <-found[i]:
			checks = append(checks, list...)
			continue
		case <-late:
		}
		select { // both channels may have been ready
		case list := <-found[i]:
			checks = append(checks, list...)
		default:
			checks = append(checks, Failure(p.Name, "the check did not end within %s", within).
				Change("look for a disk or a server that does not answer, or allow more time with --timeout"))
		}
	}
	return checks
}

// count returns a number with its noun, such as "1 key".
func count(n int, noun, plural string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + plural
}
