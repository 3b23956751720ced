package health

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// TestTheMarksOfADisk measures disks of 100 MB, so that the reserve has 2 MB.
func TestTheMarksOfADisk(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := NewDisk(t.TempDir(), func(float64) {}, slog.New(slog.NewTextHandler(&log, nil)))
	said := ""
	for _, step := range []struct {
		used    uint64 // MB
		refuses bool
		note    string // part of it; empty: there is none
		reserve bool   // it is there afterwards
		logged  string // empty: nothing
	}{
		{93, false, "93.0 %", false, "the disk fills"},
		{93, false, "93.0 %", false, ""},
		{50, false, "", true, "the disk has room again"},
		{91, false, "above 95 % publishes are refused", true, "the disk fills"},
		{95, false, "95.0 %", true, ""},
		{96, true, "96.0 % of the disk is in use: publishes are refused", true, "the disk is nearly full"},
		{98, true, "98.0 %", true, ""},
		{100, true, "100.0 %", false, "the reserve was given back"},
		{98, true, "98.0 %", false, ""},
		{94, false, "94.0 %", false, "the disk fills"},
		{91, false, "91.0 %", true, ""},
		{89, false, "", true, "the disk has room again"},
	} {
		log.Reset()
		d.measured(t.Context(), doctor.Space{Used: step.used * 1e6, Free: (100 - step.used) * 1e6})
		said = d.say(t.Context(), said)
		full, refuses := errors.AsType[*postrider.FullError](d.Room())
		if refuses != step.refuses || refuses && full.RetryAfter != diskRetry {
			t.Errorf("at %d %%: room = %v, refuses should be %v", step.used, d.Room(), step.refuses)
		}
		if note := d.Note(); (note == "") != (step.note == "") || !strings.Contains(note, step.note) {
			t.Errorf("at %d %%: note = %q, want %q", step.used, note, step.note)
		}
		stat, err := os.Stat(filepath.Join(d.dir, "postrider.reserve"))
		if (err == nil) != step.reserve || err == nil && stat.Size() != 2e6 {
			t.Errorf("at %d %%: reserve = %v, %v, want it: %v", step.used, stat, err, step.reserve)
		}
		if (log.Len() == 0) != (step.logged == "") || !strings.Contains(log.String(), step.logged) {
			t.Errorf("at %d %%: log = %q, want %q", step.used, log.String(), step.logged)
		}
	}
}

// TestAFullDatabaseIsTriedAgain uses no disk: PostgreSQL reports that its own disk is full.
func TestAFullDatabaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk("", func(float64) {}, slog.New(slog.DiscardHandler))
		d.Committed(observe.Committed{Err: postrider.ErrBusy})
		if err := d.Room(); err != nil {
			t.Fatalf("room after another error = %v", err)
		}
		d.Committed(observe.Committed{Err: errors.Join(errors.New("publish"), store.ErrFull)})
		time.Sleep(2 * time.Second)
		if full, ok := errors.AsType[*postrider.FullError](d.Room()); !ok || full.RetryAfter != 3*time.Second {
			t.Errorf("room 2 s after a full disk = %v, want none for 3 s", d.Room())
		}
		if note := d.Note(); note != "the disk of the database is full: publishes are refused" {
			t.Errorf("note = %q", note)
		}
		time.Sleep(3 * time.Second)
		if err := d.Room(); err != nil {
			t.Errorf("room after 5 s = %v", err)
		}
	})
}
