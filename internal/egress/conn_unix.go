//go:build unix

package egress

import (
	"errors"
	"syscall"
)

// peekSocket reads one byte from the socket, which is in non-blocking mode. The socket is quiet if
// it has no byte and is not at its end. A byte that is read is lost, but the connection is closed
// then anyway. peekSocket returns true so that the runtime does not wait for the socket.
func (c *conn) peekSocket(fd uintptr) bool {
	_, err := syscall.Read(int(fd), c.peeked[:])
	c.quiet = errors.Is(err, syscall.EAGAIN)
	return true
}
