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

// reserveMade is the use of the disk below which the reserve is made. It is so low that the reserve
// does not raise the use above [postrider.DiskRefuses].
const reserveMade = .92

const (
	diskEvery = time.Second // time between two measurements
	// fullFor is the time for which publishes are refused after the store found its disk full.
	fullFor   = 5 * time.Second
	diskRetry = 30 * time.Second // Retry-After of publishes that are refused because of DiskRefuses
	// reserveBytes is the size of the reserve. The reserve takes at most the 50th part of the disk
	// (reservePart). The records of 1,024 attempts in flight need about 2 MiB, and SQLite writes
	// them twice: into its log and into its file.
	reserveBytes = 16 << 20
	reservePart  = 50
)

// Disk keeps accepted events safe when the disk fills up. It measures the file system of the SQLite
// store every second.
//
//	below 90 %   the reserve is made: a file of up to 16 MiB that nothing reads
//	above 90 %   /readyz, the log and the metrics say so, and operators get a notice
//	above 95 %   publishes are refused before anything is stored, and jobs that make
//	             deliveries (replays, large fan-outs) stop. Deliveries continue, because
//	             their records fit into the rest of the disk. Retention and expunges
//	             continue too
//	full         another program has filled the rest: the reserve is deleted, so that the
//	             deliveries in flight can be recorded
//	below 95 %   publishes are accepted again, and jobs continue. Below 92 % the reserve
//	             is made again
//
// With PostgreSQL this process cannot measure the disk. If the store refuses a write because its
// disk is full, publishes and jobs wait for fullFor before one of them tries again. This also holds
// for SQLite.
type Disk struct {
	// Measure measures the disk. Only simulations replace it, before Run.
	Measure func(dir string) (doctor.Space, error)

	dir  string // folder of the SQLite store; empty: PostgreSQL
	tell func(used float64)
	log  *slog.Logger

	used  atomic.Int64 // used part of the disk, in millionths; 0: unknown
	above atomic.Bool  // publishes are refused because used is above DiskRefuses
	// fullTill is the time until which publishes are refused because a write found the disk full,
	// as UnixNano.
	fullTill atomic.Int64
}

// NewDisk returns a disk that has not been measured. dir is the folder of a SQLite store; empty:
// the store is PostgreSQL. tell is called with the used part of the disk after each measurement,
// from 0 to 1.
func NewDisk(dir string, tell func(used float64), log *slog.Logger) *Disk {
	return &Disk{dir: dir, Measure: doctor.SpaceOf, tell: tell, log: log}
}

// Room returns an error if no event and no delivery of a job can be stored now; nil: there is room.
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

// Note returns the text about the disk in /readyz; empty: there is none.
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

// Use returns the used part of the disk.
func (d *Disk) Use() postrider.DiskUse { return postrider.DiskUse(d.used.Load()) / 1e6 }

// Folder returns the path of the folder whose disk is measured, to show to people; empty: no disk
// is measured.
func (d *Disk) Folder() string {
	folder, err := filepath.Abs(d.dir)
	if d.dir == "" || err != nil { // or the working directory no longer exists
		return d.dir
	}
	return folder
}

// Run measures the disk until ctx ends. It keeps the reserve for the next start.
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

// measured notes a measurement, and makes or deletes the reserve.
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

// giveBack deletes the reserve. The next measurement counts its space as free.
func (d *Disk) giveBack(ctx context.Context) {
	if err := os.Remove(d.reserve()); err != nil {
		d.log.ErrorContext(ctx, "the reserve of the disk was not given back", "error", err)
		return
	}
	d.log.WarnContext(ctx, "the disk is full: the reserve was given back, so that deliveries can be recorded")
}

// makeReserve makes the reserve under another name and then renames it, so that an incomplete
// reserve is never used. If the file system cannot allocate the space, makeReserve writes random
// bytes, because some file systems store no zeros.
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

// say logs the state of the disk if it differs from the state said. It returns the new state.
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
