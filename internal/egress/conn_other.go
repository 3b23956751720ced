//go:build !unix

package egress

// peekSocket cannot read a socket without blocking on this operating system. It reports every
// connection as not quiet, so no connection is used again.
func (c *conn) peekSocket(uintptr) bool {
	c.quiet = false
	return true
}
