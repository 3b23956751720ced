package health

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

const (
	// The limits of the garbage that the heap may have before a collection. By default, Go allows
	// as much garbage as there is data in use. A busy server uses about 10 MiB, and spent 14 % of
	// its CPU on collections. With four times as much garbage as data it spent 3 %. With 100,000
	// endpoints the server uses 140 MiB. Four times as much garbage would then cost much memory and
	// save little CPU, so heapRoom limits the garbage.
	heapRoom     = 96 << 20 // bytes
	mostPercent  = 400      // of the data in use
	leastPercent = 50       // of the data in use
	// The memory limit. The garbage of large bodies could add up between two collections. Above the
	// limit, the collector runs as often as it must.
	leastLimit = 160 << 20 // bytes
	limitRoom  = 32 << 20  // for stacks and other memory outside the heap, in bytes
)

// memoryLimit returns the soft memory limit in bytes for a heap of inUse bytes. The limit leaves
// room for leastPercent of garbage. With less room the collector could run all the time, whatever
// gcPercent is.
func memoryLimit(inUse uint64) int64 {
	return int64(max(leastLimit, inUse+inUse*leastPercent/100+limitRoom))
}

// gcPercent returns the percentage of the garbage collector (GOGC) for a heap of inUse bytes. It
// allows heapRoom bytes of garbage, but at least leastPercent and at most mostPercent.
func gcPercent(inUse uint64) int {
	return int(min(max(heapRoom*100/max(inUse, 1), leastPercent), mostPercent))
}

// TuneHeap adapts the garbage collector once a second to the heap in use. It does not change a
// setting that the operator made by the environment variable GOGC or GOMEMLIMIT. set looks up a variable,
// like [os.LookupEnv].
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
			debug.SetGCPercent(is) // stops the world for a moment, so only after a change of 10 %
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
