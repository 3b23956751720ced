package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// sink receives deliveries. It speaks just enough HTTP/1.1 to be no part of
// what is measured: a request costs it two system calls and no allocation that
// grows with the request.
type sink struct {
	tally tally

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// Run serves until ctx ends. No connection outlives it.
func (s *sink) Run(ctx context.Context, listener net.Listener) error {
	var serving sync.WaitGroup
	defer serving.Wait()
	stop := context.AfterFunc(ctx, func() {
		listener.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.conns {
			conn.Close()
		}
	})
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		s.mu.Lock()
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		serving.Go(func() {
			_ = s.serve(ctx, conn) // the peer went away, or talks what it should not
			conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
	}
}

const maxBody = 2 << 20

var errRequest = errors.New("not a request this sink reads")

func (s *sink) serve(ctx context.Context, conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		r, err := readRequest(in)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(r.path, []byte("/stats")) || bytes.HasPrefix(r.path, []byte("/reset")) {
			if err := s.control(conn, string(r.path)); err != nil {
				return err
			}
			continue
		}
		at := time.Now()
		s.tally.add(at, createdAt(r.opening))
		if !hold(ctx, string(r.path)) {
			return nil
		}
		if _, err := conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
			return err
		}
	}
}

// request is what the sink looks at: the path and how the body begins.
type request struct {
	path    []byte
	opening []byte
}

func readRequest(in *bufio.Reader) (request, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return request{}, err
	}
	parts := bytes.SplitN(line, []byte(" "), 3)
	if len(parts) != 3 {
		return request{}, errRequest
	}
	r := request{path: bytes.Clone(parts[1])}
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return request{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 || length > maxBody {
				return request{}, errRequest
			}
		}
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			return request{}, errRequest
		}
	}
	// The timestamp of an envelope is among its first bytes.
	opening, err := in.Peek(min(length, 512))
	if err != nil {
		return request{}, err
	}
	r.opening = bytes.Clone(opening)
	_, err = io.CopyN(io.Discard, in, int64(length))
	return r, err
}

// createdAt finds the timestamp of an envelope; zero: there is none.
func createdAt(opening []byte) time.Time {
	_, rest, ok := bytes.Cut(opening, []byte(`"timestamp":"`))
	if !ok {
		return time.Time{}
	}
	text, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}
	}
	return at
}

// hold waits as the path asks: /delay/250ms, or /hang for as long as the sink
// runs. It reports whether to answer.
func hold(ctx context.Context, path string) bool {
	if path == "/hang" {
		<-ctx.Done()
		return false
	}
	const delay = "/delay/"
	if len(path) <= len(delay) || path[:len(delay)] != delay {
		return true
	}
	d, err := time.ParseDuration(path[len(delay):])
	if err != nil {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *sink) control(conn net.Conn, path string) error {
	if path == "/reset" {
		s.tally.reset()
	}
	body := s.tally.report()
	_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}
