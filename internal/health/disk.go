package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// reserveMade is the mark below which the reserve is made, so that it does not lift the disk
// over [postrider.DiskRefuses].
const reserveMade = .92

const (
	diskEvery = time.Second      // between two measurements
	fullFor   = 5 * time.Second  // for how long publishes are refused after the store said that its disk is full
	diskRetry = 30 * time.Second // the Retry-After of publishes that are refused because of the mark
	// The size of the reserve, and the part of the disk that it is at most. What 1,024
	// attempts in flight record has about 2 MiB, and SQLite writes it twice: into its log
	// and into its file.
	reserveBytes = 16 << 20
	reservePart  = 50
)

// Disk keeps a full disk from losing what was accepted. It measures the file system of the
// SQLite store each second.
//
//	below 90 %   the reserve is made: a file of up to 16 MiB that nothing reads
//	above 90 %   /readyz, the log and the metrics say so, and operators get a notice
//	above 95 %   publishes are refused, before anything is stored, and jobs that make
//	             deliveries (replays, large fan-outs) stop. Deliveries go on: what they record
//	             fits into the rest of the disk. So does what deletes: retention, expunges
//	full         another program has filled the rest: the reserve is deleted, so that the
//	             deliveries under way can be recorded
//	below 95 %   publishes are accepted again, and jobs go on; below 92 % the reserve is made
//	             again
//
// With PostgreSQL this process sees no disk. There, and with SQLite, a write that the store
// refused because its disk is full makes publishes and jobs wait for fullFor; then one tries
// again.
type Disk struct {
	// Measure finds the space of the disk. Only a simulation replaces it, before Run.
	Measure func(dir string) (doctor.Space, error)

	dir  string // of the SQLite store; empty: PostgreSQL
	tell func(used float64)
	log  *slog.Logger

	used     atomic.Int64 // of the disk, in millionths; 0: it is not known
	above    atomic.Bool  // publishes are refused because of the mark
	fullTill atomic.Int64 // until when they are because of a write; UnixNano
}

// NewDisk returns a disk that has not been measured. dir is the folder of a SQLite store;
// empty: the store is PostgreSQL. tell gets each measurement, from 0 to 1.
func NewDisk(dir string, tell func(used float64), log *slog.Logger) *Disk {
	return &Disk{dir: dir, Measure: doctor.SpaceOf, tell: tell, log: log}
}

// Room returns why no event, and no delivery of a job, can be stored now; nil: there is room.
func (d *Disk) Room() error {
	if left := time.Until(time.Unix(0, d.fullTill.Load())); left > 0 {
		return &postrider.FullError{RetryAfter: left}
	}
	if d.above.Load() {
		return &postrider.FullError{RetryAfter: diskRetry}
	}
	return nil
}

// Committed notes a commit that the store refused because its disk is full.
func (d *Disk) Committed(c observe.Committed) {
	if errors.Is(c.Err, store.ErrFull) {
		d.fullTill.Store(time.Now().Add(fullFor).UnixNano())
	}
}

// Note returns what /readyz says of the disk; empty: nothing.
func (d *Disk) Note() string {
	used := d.Use()
	switch {
	case d.Room() != nil && used == 0:
		return "the disk of the database is full: publishes are refused"
	case d.Room() != nil:
		return fmt.Sprintf("%.1f %% of the disk is in use: publishes are refused", used*100)
	case used > postrider.DiskWarned:
		return fmt.Sprintf("%.1f %% of the disk is in use; above %.0f %% publishes are refused", used*100, postrider.DiskRefuses*100)
	}
	return ""
}

// Use returns which part of the disk is in use.
func (d *Disk) Use() postrider.DiskUse { return postrider.DiskUse(d.used.Load()) / 1e6 }

// Folder returns the folder whose disk is measured, for people; empty: none is.
func (d *Disk) Folder() string {
	folder, err := filepath.Abs(d.dir)
	if d.dir == "" || err != nil { // or the working directory is gone
		return d.dir
	}
	return folder
}

// Run measures the disk until ctx ends. The reserve stays: the next start finds it.
func (d *Disk) Run(ctx context.Context) error {
	if d.dir == "" {
		<-ctx.Done()
		return nil
	}
	said := ""
	for {
		if space, err := d.Measure(d.dir); err == nil {
			d.measured(ctx, space)
		} else {
			d.log.WarnContext(ctx, "the disk of the store was not measured", "error", err)
		}
		said = d.say(ctx, said)
		if !batch.Sleep(ctx, diskEvery) {
			return nil
		}
	}
}

// measured acts on a measurement.
func (d *Disk) measured(ctx context.Context, space doctor.Space) {
	used := space.Ratio()
	d.used.Store(int64(used * 1e6))
	d.above.Store(d.Use() > postrider.DiskRefuses)
	d.tell(used)
	size := min(reserveBytes, (space.Used+space.Free)/reservePart)
	_, err := os.Stat(d.reserve())
	switch {
	case err == nil && space.Free < size/2:
		d.giveBack(ctx)
	case errors.Is(err, fs.ErrNotExist) && used < reserveMade:
		if err := d.makeReserve(int64(size)); err != nil { //nolint:gosec // at most reserveBytes
			d.log.WarnContext(ctx, "the reserve of the disk was not made", "error", err)
		}
	}
}

func (d *Disk) reserve() string { return filepath.Join(d.dir, "postrider.reserve") }

// giveBack deletes the reserve. The next measurement sees the space.
func (d *Disk) giveBack(ctx context.Context) {
	if err := os.Remove(d.reserve()); err != nil {
		d.log.ErrorContext(ctx, "the reserve of the disk was not given back", "error", err)
		return
	}
	d.log.WarnContext(ctx, "the disk is full: the reserve was given back, so that deliveries can be recorded")
}

// makeReserve writes the reserve under another name first, so that one that is not whole is
// never taken for it. Where it must be written, the bytes are random: some file systems keep
// no zeros.
func (d *Disk) makeReserve(size int64) (err error) {
	part := d.reserve() + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make the reserve: %w", err)
	}
	if allocate(file, size) != nil {
		_, err = io.CopyN(file, rand.NewChaCha8([32]byte{}), size)
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(part, d.reserve())
	}
	if err != nil {
		return fmt.Errorf("make the reserve: %w", errors.Join(err, os.Remove(part)))
	}
	return nil
}

// say logs what Note says when its kind changes, and returns it.
func (d *Disk) say(ctx context.Context, said string) string {
	state := ""
	switch note := d.Note(); {
	case d.above.Load():
		if state = "refuses"; said != state {
			d.log.ErrorContext(ctx, "the disk is nearly full", "note", note)
		}
	case note != "":
		if state = "warned"; said != state {
			d.log.WarnContext(ctx, "the disk fills", "note", note)
		}
	case said != "":
		d.log.InfoContext(ctx, "the disk has room again")
	}
	return state
}
