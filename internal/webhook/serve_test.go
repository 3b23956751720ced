package webhook_test

import (
	"net"
	"sync"
)

// serveConns serves every connection until the listener is closed, and returns a function that
// waits for the last connection.
func serveConns(listener net.Listener, serve func(net.Conn)) (wait func()) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(conn) })
		}
	})
	return serving.Wait
}
