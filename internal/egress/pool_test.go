package egress_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/egress"
)

// ends reports whether the other end of a pipe was closed.
func ends(t *testing.T, c net.Conn) bool {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := egress.NewPool()
		early, earlyEnd := net.Pipe()
		late, lateEnd := net.Pipe()
		p.Put("a:1", early)
		time.Sleep(20 * time.Second)
		p.Put("b:1", late)
		time.Sleep(9 * time.Second)
		if ends(t, earlyEnd) {
			t.Error("closed after 29 s")
		}
		time.Sleep(2 * time.Second)
		if !ends(t, earlyEnd) || ends(t, lateEnd) {
			t.Error("after 31 s the early one must be closed, the late one not")
		}
		if p.Get("a:1") != nil {
			t.Error("the early one is still there")
		}
		time.Sleep(20 * time.Second)
		if !ends(t, lateEnd) {
			t.Error("the late one was not closed")
		}
		p.Close()
		again, againEnd := net.Pipe()
		p.Put("a:1", again)
		if !ends(t, againEnd) {
			t.Error("kept after Close")
		}
	})
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	p := egress.NewPool()
	defer p.Close()
	put := func(address string) net.Conn {
		ours, theirs := net.Pipe()
		p.Put(address, ours)
		return theirs
	}
	first := put("one:1")
	for range 256 {
		put("one:1")
	}
	if !ends(t, first) {
		t.Error("257 are kept to one peer")
	}
	oldest := put("other:1")
	for p.Get("one:1") != nil {
	}
	for i := range 1023 {
		put("peer:" + strconv.Itoa(i))
	}
	if ends(t, oldest) {
		t.Error("closed although 1024 have room")
	}
	put("last:1")
	if !ends(t, oldest) {
		t.Error("1025 are kept")
	}
}
