package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// hole is a server that accepts connections and never sends anything, as a mail server, a bucket or
// a collector that hangs.
type hole struct {
	listener  net.Listener
	accepting sync.WaitGroup

	mu    sync.Mutex
	taken []net.Conn
	at    []time.Time // when each was accepted
}

// hole starts a hole and returns its address. The hole runs until the environment is closed.
func (w *environment) hole(ctx context.Context) (address string, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("start a server that hangs: %w", err)
	}
	h := &hole{listener: listener}
	h.accepting.Go(h.accept)
	w.holes = append(w.holes, h)
	w.closers = append(w.closers, h.close)
	return listener.Addr().String(), nil
}

// accept accepts connections until the listener is closed.
func (h *hole) accept() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.taken, h.at = append(h.taken, conn), append(h.at, time.Now())
		h.mu.Unlock()
	}
}

func (h *hole) close() error {
	err := h.listener.Close()
	h.accepting.Wait()
	errs := []error{err}
	for _, conn := range h.taken {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// takenConnections returns how many connections of the server the holes have accepted since the
// server was started, including those that the server has closed.
func (w *environment) takenConnections() (n int) {
	for _, h := range w.holes {
		h.mu.Lock()
		for _, at := range h.at {
			if at.After(w.started) {
				n++
			}
		}
		h.mu.Unlock()
	}
	return n
}
