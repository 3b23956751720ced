package egress_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/testkit"
)

func TestConnectionsLeaveDescriptorsToOthers(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]int{
		0: math.MaxInt32, math.MaxUint64: math.MaxInt32, // no limit of files: no bound
		2: 1, 64: 24, 256: 112, 1024: 672, 4096: 2688, 65_536: 59_392, 1_048_576: 1_042_432,
	} {
		if got := egress.Connections(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
}

// TestWhatThisMachineLacksIsNotTheServersFault checks each error of the operating system that means
// a lack of this machine.
func TestWhatThisMachineLacksIsNotTheServersFault(t *testing.T) {
	t.Parallel()
	for code, want := range map[syscall.Errno]postrider.Failure{
		syscall.EMFILE: postrider.FailureDescriptors, syscall.ENFILE: postrider.FailureDescriptors,
		syscall.EADDRNOTAVAIL: postrider.FailurePorts,
		syscall.ENOBUFS:       postrider.FailureMemory, syscall.ENOMEM: postrider.FailureMemory,
		syscall.ECONNREFUSED: postrider.FailureRefused, syscall.ENETUNREACH: postrider.FailureNoRoute,
	} {
		err := fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", code)})
		if got := egress.FailureOf(err, false); got != want ||
			got.IsServers() != (want != postrider.FailureRefused && want != postrider.FailureNoRoute) {
			t.Errorf("%v: %s, want %s", code, got, want)
		}
		if got := egress.FailureOf(err, true); got.IsServers() {
			t.Errorf("%v after a byte was sent: %s", code, got)
		}
	}
	if !egress.HasRoute(t.Context(), "127.0.0.1:9") {
		t.Error("this machine has no address from which it reaches itself")
	}
}

// TestRoomIsBounded opens connections with few descriptors and few ports. Idle connections make
// room, connections in use do not, and closed connections no longer count.
func TestRoomIsBounded(t *testing.T) {
	t.Parallel()
	allow := egress.Reach{AllowHTTP: true, AnyPort: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	// There is room for one connection.
	e := open(t, egress.Options{Reach: allow, Descriptors: 10, LocalPorts: 4})
	if n := egress.Connections(10); n != 1 {
		t.Fatalf("%d connections, want 1", n)
	}
	a, b := testkit.NewReceiver(t, testkit.Status(200)), testkit.NewReceiver(t, testkit.Status(200))
	for i, r := range []*testkit.Receiver{a, b, a, a} {
		if _, err := e.Post(t.Context(), r.URL, []byte("{}")); err != nil {
			t.Fatalf("request %d: %v: an idle connection must make room", i, err)
		}
	}
	e.Close() // keeps no idle connection from now on
	hold := make(chan struct{})
	a.Answer(func(w http.ResponseWriter, _ testkit.Request) { <-hold; w.WriteHeader(200) })
	var first error
	var under sync.WaitGroup
	under.Go(func() { _, first = e.Post(t.Context(), a.URL, []byte("{}")) })
	a.Wait(t, 4)
	_, err := e.Post(t.Context(), b.URL, []byte("{}"))
	if f, ok := errors.AsType[*postrider.FailureError](err); !ok || f.Failure != postrider.FailureDescriptors {
		t.Errorf("a second connection: %v", err)
	}
	close(hold)
	if under.Wait(); first != nil {
		t.Error(first)
	}
	if _, err := e.Post(t.Context(), b.URL, []byte("{}")); err != nil {
		t.Errorf("after the first is closed: %v", err)
	}

	room := egress.NewRoom(100, 2)
	for _, address := range []string{"a:1", "a:1", "b:1"} {
		if err := room.Take(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	err = room.Take("a:1")
	if f, ok := errors.AsType[*postrider.FailureError](err); !ok || f.Failure != postrider.FailurePorts {
		t.Errorf("a third connection to one host and port: %v", err)
	}
	room.Free("a:1")
	if err := room.Take("a:1"); err != nil {
		t.Errorf("after one is closed: %v", err)
	}
}
