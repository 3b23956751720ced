//go:build unix

package egress

import (
	"errors"
	"syscall"
)

// peekSocket reads from the socket, which is in non-blocking mode. The socket is
// quiet if there is nothing to read and no end. A byte that it reads is lost,
// but then the connection is closed anyway. It returns true so that the runtime
// does not wait for the socket.
func (c *conn) peekSocket(fd uintptr) bool {
	_, err := syscall.Read(int(fd), c.peeked[:])
	c.quiet = errors.Is(err, syscall.EAGAIN)
	return true
}
