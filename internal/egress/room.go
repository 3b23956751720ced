package egress

import (
	"errors"
	"math"
	"sync"

	"github.com/postrider/postrider"
)

// maxLookups is how many names are looked up at a time; further lookups wait.
const maxLookups = 1024

// Connections returns how many connections an [Egress] has open at most, idle ones included, in a
// process that may open the given number of files. A quarter of the files, at least 128 and at most
// 4,096, stays free for the listeners, the store and the log. Otherwise hanging receivers could use
// all files. An eighth of the rest is for lookups, which need two sockets each. 0 files means no
// bound.
func Connections(files uint64) int {
	if files == 0 || files > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(1, spare(files)-2*lookups(files))
}

// spare returns how many of the files lookups and connections may use.
func spare(files uint64) int {
	n := int(files) //nolint:gosec // it is at most MaxInt32
	return n - min(max(n/4, min(128, n/2)), 4096)
}

// lookups returns how many lookups may run at a time.
func lookups(files uint64) int {
	if files == 0 || files > math.MaxInt32 {
		return maxLookups
	}
	return min(max(spare(files)/16, 4), maxLookups)
}

// room counts open connections and bounds them, in total and for each server. Without the bound for
// each server, a server that keeps thousands of connections open could use up the local ports.
// Other servers behind the same proxy need these ports.
type room struct {
	most, mostOf int // bound for all servers, and for one host and port; 0: none

	mu   sync.Mutex
	open int
	of   map[string]int // open connections by host and port
}

func newRoom(most, mostOf int) *room { return &room{most: most, mostOf: mostOf, of: map[string]int{}} }

// errRoom says that the room is full.
var errRoom = errors.New("as many connections are open as this server may have")

// full reports whether no further connection may be opened, whatever the server.
func (r *room) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open >= r.most
}

// take counts a connection to the address, before it is opened. If take returns no error, the
// caller must call free later.
func (r *room) take(address string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.open >= r.most:
		return &postrider.FailureError{Failure: postrider.FailureDescriptors, Err: errRoom}
	case r.mostOf > 0 && r.of[address] >= r.mostOf:
		return &postrider.FailureError{Failure: postrider.FailurePorts, Err: errRoom}
	}
	r.open++
	r.of[address]++
	return nil
}

// free uncounts a connection to the address that was closed, or that could not be opened.
func (r *room) free(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if r.of[address]--; r.of[address] == 0 {
		delete(r.of, address)
	}
}
