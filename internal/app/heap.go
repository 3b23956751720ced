package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much of the heap may be garbage before it is collected. Go's default, as
// much as is in use, has a busy server collect all the time: what it uses is
// some 10 MiB, and collecting took 14 % of its CPU, with four times as much 3 %.
// Where 100,000 endpoints are in use, which is 140 MiB, four times as much would
// only be memory that nobody else has.
const (
	heapRoom     = 96 << 20 // bytes
	mostPercent  = 400      // of what is in use
	leastPercent = 50
	// Large bodies come and go between two collections. This keeps what they leave
	// from adding up: beyond it the collector works as often as it must.
	leastLimit = 160 << 20 // bytes
	limitRoom  = 32 << 20  // bytes, for stacks and the like
)

// memoryLimit returns the soft limit of memory for what is in use. It leaves
// room for leastPercent of garbage.
func memoryLimit(inUse uint64) int64 {
	return int64(max(leastLimit, inUse+inUse*leastPercent/100+limitRoom))
}

// gcPercent returns the garbage collector's percentage for what is in use.
func gcPercent(inUse uint64) int {
	return int(min(max(heapRoom*100/max(inUse, 1), leastPercent), mostPercent))
}

// tuneGC sets the garbage collector by what is in use, unless GOGC does.
func tuneGC(ctx context.Context) error {
	if _, set := os.LookupEnv("GOGC"); set {
		<-ctx.Done()
		return nil
	}
	_, limited := os.LookupEnv("GOMEMLIMIT")
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for was := 0; ; {
		metrics.Read(inUse)
		if is := gcPercent(inUse[0].Value.Uint64()); is < was*9/10 || is > was*11/10 {
			debug.SetGCPercent(is) // stops the world for a moment, so not for a trifle
			was = is
		}
		if !limited {
			debug.SetMemoryLimit(memoryLimit(inUse[0].Value.Uint64()))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
