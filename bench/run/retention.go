package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/bench/internal/lab"
)

// extentOfHistory is how many rows of each kind B17 stores.
type extentOfHistory struct {
	days int // days of attempts; events are kept for a third of them
	rows int // rows of a day
	full int // events, attempts and bodies, each, of a day that is deleted
}

// events returns how many days events are kept.
func (h extentOfHistory) events() int { return max(2, h.days/3) }

// archivedKinds are the kinds of rows that are archived. Each has a chore of its own.
var archivedKinds = []string{"events", "attempts", "bodies"}

// hours returns a number of days as a value of a retention setting.
func hours(days int) string { return strconv.Itoa(24*days) + "h" }

// retentionAtFullLoad measures B5 twice: while a full day of events, attempts and bodies is
// archived and deleted, and while another full day is deleted without an archive. Events are kept
// for a third as many days as attempts, as by default.
func retentionAtFullLoad(e extent) scenario {
	groups, loads := healthyAndSick()
	h, ignored := e.history, []string{sickClass}
	events, attempts := h.events(), h.days // kept days; two full days, ten days apart, are older
	keep := func(longer int) []string {
		return []string{
			"--keep-events", hours(events + longer), "--keep-bodies", hours(events + longer), "--keep-attempts",
			hours(attempts + longer),
		}
	}
	const bound = 30 * time.Minute
	var lock dayLock
	sweep := phase{lasts: bound, loads: loads, ignored: ignored, ends: true}
	archived, dropped := sweep, sweep
	archived.name, archived.before, archived.during = "archive", archiving(keep(10)), untilSwept("archive")
	dropped.name, dropped.before, dropped.during = "drop", inTurn(lock.take, restarted(nil, keep(0)...)),
		inTurn(untilSwept("forget"), lock.wait)
	return scenario{
		name: "B17 retention at full load",
		setups: []setup{{
			groups: groups,
			phases: []phase{
				{
					name: "without", lasts: e.lasting(60 * time.Second), loads: loads, answers: hanging, ignored: ignored,
					before: restarted(filled(func(ctx context.Context, w *environment, f lab.Fill) error {
						return w.fillRetention(ctx, f, h)
					}), keep(20)...),
				},
				archived, dropped,
			},
		}},
		figures: func(s shown) []figure {
			figures := isolation("healthy", pair{"without", "archive"}, pair{"without", "drop"})(s)
			return append(append(figures, s.swept("archive", h.full)...), s.swept("drop", h.full)...)
		},
		goals: goals{
			"archive: p99 ÷ without": atMost(1.25), "drop: p99 ÷ without": atMost(1.25), "archive: not archived": atMost(0),
			"archive: work of deleting a day": atMost(1000), "drop: work of deleting a day": atMost(1000),
		},
		goalsOn: goals{"archive: p99 ÷ without": atMost(1.25), "drop: p99 ÷ without": atMost(1.25), "archive: not archived": atMost(0)},
	}
}

// days are n days, each with the same number of rows. The first was that many days ago.
type days struct{ ago, n, rows int }

// fillRetention makes the kept days and two full days. The older full day is archived, and the
// younger one is deleted without an archive.
func (w *environment) fillRetention(ctx context.Context, f lab.Fill, h extentOfHistory) error {
	events, attempts := h.events(), h.days
	var err error
	for _, d := range []days{{events + 11, 1, h.full}, {events + 1, 1, h.full}, {events, events, h.rows}} {
		err = errors.Join(err, w.fillDays(ctx, f, "events", d))
		if d.rows == h.full {
			err = errors.Join(err, w.fillDays(ctx, f, "attempt_bodies", d))
		}
	}
	for _, d := range []days{{attempts + 11, 1, h.full}, {attempts + 1, 1, h.full}, {attempts, attempts, h.rows}} {
		err = errors.Join(err, w.fillDays(ctx, f, "attempts", d))
	}
	return err
}

// fillDays makes rows of one table, spread evenly over days of the past.
func (w *environment) fillDays(ctx context.Context, f lab.Fill, table string, d days) error {
	begin := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -d.ago)
	// A second less, so that the last row belongs to the last day.
	span := time.Duration(d.n)*24*time.Hour - time.Second
	ms := fmt.Sprintf("%d + i * %d / %d", begin.UnixMilli(), span.Milliseconds(), d.n*d.rows)
	event, delivery := f.ID(ms, "i"), f.ID(ms, "100000000 + i")
	var err error
	if w.nodes[0].OnPostgres() {
		for i := range d.n {
			err = errors.Join(err, f.Do(ctx, oneDaySQL(table, begin.AddDate(0, 0, i))))
		}
	}
	series := f.Series(d.n*d.rows, 1)
	switch table {
	case "events":
		return errors.Join(err, f.Copy(ctx, lab.Copies{
			Table: table, Which: "true", Source: series,
			Overrides: map[string]string{
				"id": event, "created_at": f.At(ms), "idempotency_key": "null",
				"data": f.Bytes([]byte(`{"order_id":42,"items":[{"sku":"A-1","count":2}],"note":"of some day in the past"}`)),
			},
		}))
	case "attempts":
		return errors.Join(err, f.Copy(ctx, lab.Copies{
			Table: table, Which: "outcome = 'accepted'", Source: series,
			Overrides: map[string]string{"delivery": delivery, "event": event, "named_event": event, "started_at": f.At(ms)},
		}))
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\nX-Request-Id: 0123456789abcdef\r\n"
	return errors.Join(err,
		f.Do(ctx,
			fmt.Sprintf("insert into attempt_bodies (delivery, number, request_head, response_head, response_body) select %s, 1, %s, %[2]s, %s from %s",
				delivery, f.Bytes([]byte(head)), f.Bytes([]byte(`{"status":"accepted"}`)), series)))
}

// oneDaySQL makes the partition of one table for a day. It makes none for the other tables: events
// are kept for fewer days than attempts, and an empty partition would be dropped like a full one.
func oneDaySQL(table string, day time.Time) string {
	name := table + day.Format("_20060102")
	return fmt.Sprintf("create table if not exists %s partition of %s for values from (postrider_id_floor('%s')) to (postrider_id_floor('%s'))",
		name, table, day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339))
}

// archiving starts the server again, with an archive in a new folder.
func archiving(args []string) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		dir, err := w.lab.Folder("archive")
		if err != nil {
			return err
		}
		r.swept.archive = dir
		return restarted(nil, append(args, "--archive", "file://"+dir)...)(ctx, w, r)
	}
}

// dayLock is a reader of the partitioned tables that prevents the deletion of a day, as a backup
// may do. It reads only on PostgreSQL.
type dayLock struct {
	holding sync.WaitGroup
	err     error // read it only after holding
}

// lockTime is how long the reader reads. That is longer than a restart of the server takes.
const lockTime = 25 * time.Second

func (l *dayLock) take(ctx context.Context, w *environment, _ *reading) error {
	if server := w.nodes[0]; server.OnPostgres() {
		l.holding.Go(func() {
			_,
				l.err = w.lab.SQL(ctx, server,
				fmt.Sprintf("begin; lock table events, attempts, attempt_bodies in access share mode; select pg_sleep(%d); commit;",
					int(lockTime.Seconds())))
		})
	}
	return nil
}

func (l *dayLock) wait(context.Context, *environment, *reading) error {
	l.holding.Wait()
	return l.err
}

// swept is the work of retention in a phase.
type swept struct {
	archive string        // folder of the archive; empty: none
	took    time.Duration // from the server's start until all kinds were deleted
	deleted time.Duration // time in the store's DeleteOld
	failed  float64       // rounds of chores that failed and were repeated
	parts   int64         // parts of the archive
	rows    int64         // rows in the parts
	bytes   int64
}

// pollEvery is the time between two reads of the server's metrics. Each read takes the server a few
// milliseconds, during which a delivery waits. The p99 must not show this wait.
const pollEvery = 2 * time.Second

// untilSwept waits until the chores of all kinds have done a round. The names of the chores begin
// with chore: archive or forget.
func untilSwept(chore string) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		ctx, cancel := context.WithTimeout(ctx, r.phase.lasts)
		defer cancel()
		for {
			metrics, err := w.nodes[0].Metrics(ctx)
			if err != nil {
				return fmt.Errorf("wait for retention: %w", err)
			}
			done := 0
			for _, kind := range archivedKinds {
				done += len(metrics.Lines(fmt.Sprintf(`postrider_chore_last_success_timestamp_seconds{chore="%s_%s"}`, chore, kind)))
			}
			if done == len(archivedKinds) {
				r.swept.took = time.Since(w.started)
				r.swept.deleted = time.Duration(metrics.Sum(`postrider_store_call_seconds_sum{result="ok",verb="DeleteOld"}`) * float64(time.Second))
				for _, kind := range archivedKinds {
					lines := metrics.Lines(fmt.Sprintf(`postrider_chore_runs_total{chore="%s_%s",result="error"}`, chore, kind))
					r.said = append(r.said, lines...)
					r.swept.failed += metrics.Sum(fmt.Sprintf(`postrider_chore_runs_total{chore="%s_%s",result="error"}`, chore, kind))
				}
				if line, err := w.nodes[0].Process().LastLine("chore failed"); err == nil && r.swept.failed > 0 {
					r.said = append(r.said, "log: "+line)
				}
				return r.swept.readArchive()
			}
			pause(ctx, pollEvery)
		}
	}
}

// readArchive adds up the numbers in the manifests of the archive.
func (s *swept) readArchive() error {
	if s.archive == "" {
		return nil
	}
	err := filepath.WalkDir(s.archive, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var manifest struct{ Rows, Bytes int64 }
		if err := json.Unmarshal(text, &manifest); err != nil {
			return err
		}
		s.parts, s.rows, s.bytes = s.parts+1, s.rows+manifest.Rows, s.bytes+manifest.Bytes
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	return nil
}

// swept returns the figures of retention in a phase that deletes a full day of three kinds.
func (s shown) swept(phase string, full int) []figure {
	did := s.readings[phase].swept
	kinds := float64(len(archivedKinds))
	figures := []figure{
		{phase + ": took", "%.1f s", did.took.Seconds()},
		millis(phase+": work of deleting a day", int64(float64(did.deleted.Microseconds())/kinds)),
		{phase + ": rounds that failed and were repeated", "%.0f", did.failed},
	}
	if did.archive != "" {
		figures = append(figures, figure{phase + ": rows/s", "%.0f", kinds * float64(full) / did.took.Seconds()},
			count(phase+": parts", did.parts), count(phase+": not archived", int64(full)*int64(len(archivedKinds))-did.rows),
			figure{phase + ": bytes of a row", "%.1f B", float64(did.bytes) / float64(max(1, did.rows))})
	}
	return figures
}
