package doctor

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The limits of latencies, clocks and disks.
const (
	slowSync      = 20 * time.Millisecond // of one sync; every publish waits for a sync
	slowRoundTrip = 5 * time.Millisecond

	// ClockWarned is the offset between two clocks above which servers warn.
	ClockWarned = 30 * time.Second
	// ClockLimit is the offset above which a server is not ready. Receivers accept
	// timestamps up to five minutes old; an offset beyond that means that the machine's
	// clock is broken.
	ClockLimit = 5 * time.Minute

	fullDisk   = 80 // percent in use
	fullerDisk = 90
)

// Latency has the median and the longest of several durations.
type Latency struct{ Median, Longest time.Duration }

// LatencyOf returns the latency of the durations. It sorts them.
func LatencyOf(times []time.Duration) Latency {
	if len(times) == 0 {
		return Latency{}
	}
	slices.Sort(times)
	return Latency{Median: times[len(times)/2], Longest: times[len(times)-1]}
}

// String returns the median and the longest, rounded.
func (l Latency) String() string {
	return fmt.Sprintf("%s (median; longest %s)", shown(l.Median), shown(l.Longest))
}

// shown rounds a duration to a precision that people can compare.
func shown(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// Space is the space of a disk.
type Space struct{ Used, Free uint64 } // bytes

// SpaceOf returns the space of the disk with the path.
func SpaceOf(path string) (Space, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(path, &disk); err != nil {
		return Space{}, fmt.Errorf("find the disk of %s: %w", path, err)
	}
	block := uint64(disk.Bsize)
	return Space{Used: (disk.Blocks - disk.Bfree) * block, Free: uint64(disk.Bavail) * block}, nil //nolint:unconvert // signed on some systems
}

// SameDisk reports whether two paths are on one file system.
func SameDisk(a, b string) (bool, error) {
	var of [2]syscall.Stat_t
	for i, path := range []string{a, b} {
		if err := syscall.Stat(path, &of[i]); err != nil {
			return false, fmt.Errorf("find the file system of %s: %w", path, err)
		}
	}
	return of[0].Dev == of[1].Dev, nil
}

// Ratio returns the used part of the disk, 0 to 1, of the space that this user can use.
func (s Space) Ratio() float64 { return float64(s.Used) / float64(max(1, s.Used+s.Free)) }

// percent returns the used part in per cent, as df prints it.
func (s Space) percent() int {
	return int(math.Ceil(s.Ratio() * 100))
}

// Check judges the disk of a store.
func (s Space) Check(name Name, where string) Check {
	free := size(int64(s.Free)) //nolint:gosec // no disk is that large
	found := fmt.Sprintf("%d %% of the disk of %s is in use, %s are free", s.percent(), where, free)
	switch {
	case s.percent() > fullerDisk:
		return Failure(name, "%s", found).Change("free space or give the store a larger disk now: nothing can be accepted when it is full")
	case s.percent() > fullDisk:
		return Warning(name, "%s", found).Change("plan for a larger disk, or free space on this one")
	}
	return Okay(name, "%s", found)
}

// size prints a number of bytes in the units of PostgreSQL's settings.
func size(bytes int64) string {
	switch {
	case bytes >= 10<<30 || bytes >= 1<<30 && bytes%(1<<30) == 0:
		return strconv.FormatInt(bytes>>30, 10) + " GB"
	case bytes >= 1<<20:
		return strconv.FormatInt(bytes>>20, 10) + " MB"
	}
	return strconv.FormatInt(bytes>>10, 10) + " kB"
}

// sparedFiles is how many files a server opens besides its connections to receivers: connections of
// its API and its pages, the database, the log.
const sparedFiles = 512

// idleConnections is how many connections to receivers a server keeps without a request
// in flight.
const idleConnections = 1024

// OpenFileLimit returns how many files a process of this user may open. Go raises the limit of its
// own process to the hard limit.
func OpenFileLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return uint64(limit.Cur), nil //nolint:unconvert // signed on some systems
}

// CheckOpenFiles judges the limit of open files for a server. A server has at most five times as
// many attempts in flight as its concurrency. With fewer files, it has fewer slots for endpoints
// that hang.
func CheckOpenFiles(limit uint64, concurrency int) Check {
	least := uint64(concurrency + sparedFiles)                    //nolint:gosec // neither is negative
	need := uint64(5*concurrency + sparedFiles + idleConnections) //nolint:gosec // likewise
	found := fmt.Sprintf("a process started here may open %d files; %d attempts in flight, most of them to endpoints that hang, need up to %d",
		limit, 5*concurrency, need)
	remedy := fmt.Sprintf("raise the limit: ulimit -n %d, LimitNOFILE=%d in systemd, or nofile of the container; or lower --concurrency",
		2*need, 2*need)
	switch {
	case limit < least:
		return Failure(OpenFiles, "%s", found).Change("%s", remedy)
	case limit < need:
		return Warning(OpenFiles, "%s", found).Change("%s", remedy)
	}
	return Okay(OpenFiles, "%s", found)
}

// The memory that a server needs besides the bodies of requests, in bytes. docs/operate/README.md
// has the same numbers.
const (
	baseMemory     = 40 << 20
	garbageMemory  = 96 << 20
	endpointMemory = 1434
)

// MemoryUse has the numbers from which need computes the memory of a server.
type MemoryUse struct {
	Bodies    int64 // bytes of request bodies: --body-budget
	Endpoints int   // -1: unknown
	GoLimit   int64 // GOMEMLIMIT in bytes; [math.MaxInt64]: no limit
}

// need returns the needed memory in bytes. Garbage takes up to half of the memory in use, and at
// least garbageMemory.
func (u MemoryUse) need() int64 {
	used := baseMemory + endpointMemory*int64(max(0, u.Endpoints))
	return used + max(garbageMemory, used/2) + u.Bodies
}

// MemoryLimit returns the lowest memory limit of the control groups of this process, of version 1
// or 2. Without a limit it returns the memory of the machine; 0 if neither can be read. root is the
// root of the file system.
func MemoryLimit(root fs.FS) (limit int64, of string) {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // missing on systems other than Linux
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		top, file := "sys/fs/cgroup", "memory.max"
		if controllers != "" {
			top, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		if controllers != "" && controllers != "memory" {
			continue
		}
		// A container may see its own group at the top. The limit of a group binds the groups below
		// it.
		for at := path.Join(top, group); ; at = path.Dir(at) {
			text, err := fs.ReadFile(root, path.Join(at, file))
			n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			// Version 1 writes "no limit" as a huge number.
			if err == nil && bad == nil && n < 1<<60 && (limit == 0 || n < limit) {
				limit, of = n, "this control group (container)"
			}
			if len(at) <= len(top) {
				break
			}
		}
	}
	if limit > 0 {
		return limit, of
	}
	text, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, "this machine"
		}
	}
	return 0, ""
}

// CheckMemory judges the limit that [MemoryLimit] returned.
func CheckMemory(limit int64, of string, use MemoryUse) Check {
	if limit == 0 {
		return Okay(Memory, "the limit cannot be read here; a server needs up to %s", size(use.need()))
	}
	endpoints := "an unknown number of endpoints"
	if use.Endpoints >= 0 {
		endpoints = count(use.Endpoints, "endpoint", "endpoints")
	}
	found := fmt.Sprintf("%s has %s; a server with %s needs up to %s", of, size(limit), endpoints, size(use.need()))
	switch {
	case use.GoLimit < math.MaxInt64 && use.GoLimit > limit:
		return Warning(Memory, "GOMEMLIMIT is %s, and %s has %s", size(use.GoLimit), of, size(limit)).
			Change("set GOMEMLIMIT to at most 90 %% of the limit, or unset it")
	case use.need() > limit:
		return Warning(Memory, "%s", found).Change("allow %s, or lower --body-budget", size(use.need()))
	}
	return Okay(Memory, "%s", found)
}

// CheckFIPS says whether the program runs in FIPS 140-3 mode, and with which version of the
// cryptographic module. Neither is a fault; users who must use the mode find it here.
func CheckFIPS(on bool, module string) Check {
	if !on {
		return Okay(FIPS, "FIPS 140-3 mode is off")
	}
	return Okay(FIPS, "FIPS 140-3 mode is on, module %s", module)
}
