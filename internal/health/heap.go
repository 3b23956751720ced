package health

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

const (
	// How much of the heap may be garbage before a collection. Go's default is as
	// much as is in use. A busy server uses about 10 MiB and then spent 14 % of its
	// CPU on collections; with four times as much it spent 3 %. With 100,000
	// endpoints the server uses 140 MiB. Four times as much garbage would then cost
	// much memory and save little CPU, so heapRoom bounds it.
	heapRoom     = 96 << 20 // bytes
	mostPercent  = 400      // of what is in use
	leastPercent = 50
	// Large bodies come and go between two collections. The memory limit keeps
	// their garbage from adding up: above it the collector runs as often as it
	// must.
	leastLimit = 160 << 20 // bytes
	limitRoom  = 32 << 20  // bytes, for stacks and the like
)

// memoryLimit returns the soft memory limit in bytes for a heap of inUse bytes. It
// leaves room for leastPercent of garbage, so that the limit alone never makes the
// collector run all the time.
func memoryLimit(inUse uint64) int64 {
	return int64(max(leastLimit, inUse+inUse*leastPercent/100+limitRoom))
}

// gcPercent returns the garbage collector's percentage (GOGC) for a heap of inUse
// bytes: heapRoom bytes of garbage, between leastPercent and mostPercent.
func gcPercent(inUse uint64) int {
	return int(min(max(heapRoom*100/max(inUse, 1), leastPercent), mostPercent))
}

// TuneHeap adapts the garbage collector once a second to the heap in use. What an operator has
// set in the environment goes first: set returns GOGC and GOMEMLIMIT as [os.LookupEnv] does.
func TuneHeap(ctx context.Context, set func(string) (string, bool)) error {
	if _, percent := set("GOGC"); percent {
		<-ctx.Done()
		return nil
	}
	_, limited := set("GOMEMLIMIT")
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for was := 0; ; {
		metrics.Read(inUse)
		if is := gcPercent(inUse[0].Value.Uint64()); is < was*9/10 || is > was*11/10 {
			debug.SetGCPercent(is) // stops the world for a moment, so only for a change of 10 %
			was = is
		}
		if !limited {
			debug.SetMemoryLimit(memoryLimit(inUse[0].Value.Uint64()))
		}
		if !batch.Sleep(ctx, time.Second) {
			return nil
		}
	}
}
