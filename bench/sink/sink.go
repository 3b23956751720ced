package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// sink receives deliveries. It implements only a part of HTTP/1.1, so that it hardly influences the
// measurement: a request costs it two system calls and no allocation.
type sink struct {
	distinct bool

	mu      sync.Mutex
	classes map[string]*class
	conns   map[net.Conn]struct{}
}

// Run serves until ctx ends, and closes all connections then.
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
			// The peer closed the connection, or sent something that the sink cannot read.
			_ = s.serve(conn)
			conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
	}
}

const maxBody = 2 << 20

var (
	errRequest = errors.New("not a request this sink reads")
	errPeer    = errors.New("not a peer on the loopback interface")
)

func (s *sink) serve(conn net.Conn) error {
	if peer, ok := conn.RemoteAddr().(*net.TCPAddr); !ok || !peer.IP.IsLoopback() {
		return errPeer
	}
	in := bufio.NewReaderSize(conn, 8<<10)
	var of *class // class of the last request: mostly all requests of a connection have one class
	for {
		path, err := readPath(in)
		if err != nil {
			return err
		}
		if question, ok := bytes.CutPrefix(path, []byte("-/")); ok {
			if err := s.answerControl(conn, in, string(question)); err != nil {
				return err
			}
			continue
		}
		if of == nil || string(path) != of.name {
			if of, err = s.class(string(path)); err != nil {
				return err
			}
		}
		if err := receive(conn, in, of); err != nil {
			return err
		}
	}
}

// receive reads the rest of a delivery and answers it.
func receive(conn net.Conn, in *bufio.Reader, of *class) error {
	length, err := readHead(in)
	if err != nil {
		return err
	}
	// The id and the timestamp of an envelope are among its first bytes.
	opening, err := in.Peek(min(length, 512))
	if err != nil {
		return err
	}
	of.add(time.Now(), opening)
	of.open.Add(1)
	defer of.open.Add(-1)
	if _, err := in.Discard(length); err != nil {
		return err
	}
	how := of.answer.Load()
	if how.never || how.after > 0 {
		if err := hold(conn, in, how); err != nil {
			return err
		}
	}
	_, err = conn.Write(how.bytes)
	return err
}

// readPath reads the first line of a request and returns its path without the slash. The path is
// valid until the next read.
func readPath(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	_, rest, ok := bytes.Cut(line, []byte(" /"))
	path, _, closed := bytes.Cut(rest, []byte(" "))
	if !ok || !closed {
		return nil, errRequest
	}
	return path, nil
}

// readHead reads the headers and returns the length of the body.
func readHead(in *bufio.Reader) (length int, err error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 || length > maxBody {
				return 0, errRequest
			}
		}
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			return 0, errRequest
		}
	}
}

// hold waits as the answer says. It fails if the peer closes the connection meanwhile.
func hold(conn net.Conn, in *bufio.Reader, how *answer) error {
	var until time.Time // zero: without end
	if !how.never {
		until = time.Now().Add(how.after)
	}
	if err := conn.SetReadDeadline(until); err != nil {
		return err
	}
	if _, err := in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.Join(errRequest, err)
	}
	return conn.SetReadDeadline(time.Time{})
}

func (s *sink) answerControl(conn net.Conn, in *bufio.Reader, question string) error {
	length, err := readHead(in)
	if err != nil {
		return err
	}
	if _, err := in.Discard(length); err != nil {
		return err
	}
	status, body := "200 OK", []byte(nil)
	if body, err = s.control(question); err != nil {
		status, body = "400 Bad Request", []byte(err.Error())
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
	return err
}
