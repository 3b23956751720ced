package egress

import (
	"errors"
	"math"
	"sync"

	"github.com/postrider/postrider"
)

// maxLookups is how many names are looked up at a time; further lookups wait.
const maxLookups = 1024

// Connections returns how many connections an [Egress] opens in a process that may open so
// many files, idle ones included. A quarter of the files, at least 128 and at most 4,096, is
// left to the listeners, the store and the log: where receivers hang, they would have none
// otherwise. An eighth of the others is left to lookups, which have two sockets each.
// 0 files: there is no bound.
func Connections(files uint64) int {
	if files == 0 || files > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(1, spare(files)-2*lookups(files))
}

// spare returns how many of the files are for lookups and connections.
func spare(files uint64) int {
	n := int(files) //nolint:gosec // it is at most MaxInt32
	return n - min(max(n/4, min(128, n/2)), 4096)
}

// lookups returns how many lookups may be under way.
func lookups(files uint64) int {
	if files == 0 || files > math.MaxInt32 {
		return maxLookups
	}
	return min(max(spare(files)/16, 4), maxLookups)
}

// room counts connections, and bounds them. Without the bound of a server, one that keeps
// thousands of connections open could use all local ports, which other servers behind the
// same proxy need.
type room struct {
	most, mostOf int // of all servers, and of one host and port; 0: no bound

	mu   sync.Mutex
	open int
	of   map[string]int // by host and port
}

func newRoom(most, mostOf int) *room { return &room{most: most, mostOf: mostOf, of: map[string]int{}} }

// errRoom is why there is no room.
var errRoom = errors.New("as many connections are open as this server may have")

// full reports whether there is no room for another connection to any server.
func (r *room) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open >= r.most
}

// take counts a connection to the address that is about to be opened. Unless it returns an
// error, free must follow.
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

// free notes that a connection to the address is closed, or was not opened.
func (r *room) free(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if r.of[address]--; r.of[address] == 0 {
		delete(r.of, address)
	}
}
