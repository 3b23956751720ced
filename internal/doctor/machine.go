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
	slowSync      = 20 * time.Millisecond // of one sync: every publish waits for one
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

// Latency is the median and the longest of some durations.
type Latency struct{ Median, Longest time.Duration }

// LatencyOf returns the latency of measurements, which it sorts.
func LatencyOf(times []time.Duration) Latency {
	if len(times) == 0 {
		return Latency{}
	}
	slices.Sort(times)
	return Latency{Median: times[len(times)/2], Longest: times[len(times)-1]}
}

// String returns both, rounded.
func (l Latency) String() string {
	return fmt.Sprintf("%s (median; longest %s)", shown(l.Median), shown(l.Longest))
}

// shown rounds a duration to what a person compares.
func shown(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// Space is a disk.
type Space struct{ Used, Free uint64 } // bytes

// SpaceOf returns the disk on which a path is.
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

// Ratio returns which part of the disk is in use, 0 to 1: of what this user could use.
func (s Space) Ratio() float64 { return float64(s.Used) / float64(max(1, s.Used+s.Free)) }

// percent returns how much is in use, as df prints it.
func (s Space) percent() int {
	return int(math.Ceil(s.Ratio() * 100))
}

// Check judges the disk on which a store is.
func (s Space) Check(name Name, where string) Check {
	found := fmt.Sprintf("%d %% of the disk of %s is in use, %s are free", s.percent(), where, size(int64(s.Free))) //nolint:gosec // no disk is that large
	switch {
	case s.percent() > fullerDisk:
		return Failure(name, "%s", found).Change("free space or give the store a larger disk now: nothing can be accepted when it is full")
	case s.percent() > fullDisk:
		return Warning(name, "%s", found).Change("plan for a larger disk, or free space on this one")
	}
	return Okay(name, "%s", found)
}

// size prints a number of bytes in the unit that PostgreSQL's settings have.
func size(bytes int64) string {
	switch {
	case bytes >= 10<<30 || bytes >= 1<<30 && bytes%(1<<30) == 0:
		return strconv.FormatInt(bytes>>30, 10) + " GB"
	case bytes >= 1<<20:
		return strconv.FormatInt(bytes>>20, 10) + " MB"
	}
	return strconv.FormatInt(bytes>>10, 10) + " kB"
}

// sparedFiles is what a server opens besides connections to receivers: connections of
// its API and of its pages, the database, the log.
const sparedFiles = 512

// idleConnections is how many connections to receivers a server keeps without a request
// in flight.
const idleConnections = 1024

// OpenFileLimit returns how many files a process of this user may open. Go raises the
// limit of its own process to the hard one.
func OpenFileLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return uint64(limit.Cur), nil //nolint:unconvert // signed on some systems
}

// CheckOpenFiles judges the limit for a server. Five times as many attempts as its concurrency
// are in flight at most; with fewer files there are fewer slots for endpoints that hang.
func CheckOpenFiles(limit uint64, concurrency int) Check {
	least := uint64(concurrency + sparedFiles)                    //nolint:gosec // neither is negative
	need := uint64(5*concurrency + sparedFiles + idleConnections) //nolint:gosec // likewise
	found := fmt.Sprintf("a process started here may open %d files; %d attempts in flight, most of them to endpoints that hang, need up to %d", limit, 5*concurrency, need)
	remedy := fmt.Sprintf("raise the limit: ulimit -n %d, LimitNOFILE=%d in systemd, or nofile of the container; or lower --concurrency", 2*need, 2*need)
	switch {
	case limit < least:
		return Failure(OpenFiles, "%s", found).Change("%s", remedy)
	case limit < need:
		return Warning(OpenFiles, "%s", found).Change("%s", remedy)
	}
	return Okay(OpenFiles, "%s", found)
}

// What a server needs besides the bodies of requests, in bytes. docs/operate/README.md has
// the same numbers.
const (
	baseMemory     = 40 << 20
	garbageMemory  = 96 << 20
	endpointMemory = 1434
)

// MemoryUse is what a server needs.
type MemoryUse struct {
	Bodies    int64 // bytes of request bodies: --body-budget
	Endpoints int   // -1: unknown
	GoLimit   int64 // GOMEMLIMIT in bytes; [math.MaxInt64]: none
}

// need returns bytes. Garbage is up to half of what is in use, and at least garbageMemory.
func (u MemoryUse) need() int64 {
	used := baseMemory + endpointMemory*int64(max(0, u.Endpoints))
	return used + max(garbageMemory, used/2) + u.Bodies
}

// MemoryLimit returns the least memory limit of the control groups of this process, of
// either version, or else the memory of the machine. 0: neither can be read. The root is
// that of the file system.
func MemoryLimit(root fs.FS) (limit int64, of string) {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // absent where there is no Linux
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
		// A container may see its own group at the top, and a group's limit binds those below.
		for at := path.Join(top, group); ; at = path.Dir(at) {
			text, err := fs.ReadFile(root, path.Join(at, file))
			n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && bad == nil && n < 1<<60 && (limit == 0 || n < limit) { // version 1 writes "no limit" as a huge number
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

// CheckMemory judges the limit of [MemoryLimit].
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
// cryptographic module. Neither is a fault: who must use the mode reads it here.
func CheckFIPS(on bool, module string) Check {
	if !on {
		return Okay(FIPS, "FIPS 140-3 mode is off")
	}
	return Okay(FIPS, "FIPS 140-3 mode is on, module %s", module)
}
