package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// conn is an HTTP/1.1 connection that is kept alive and does one request at a
// time. net/http's client would cost as much CPU as the server it measures.
type conn struct {
	net    net.Conn
	in     *bufio.Reader
	answer []byte // the body of the last answer
}

func dial(ctx context.Context, target string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return &conn{}, err
	}
	return &conn{net: c, in: bufio.NewReaderSize(c, 8<<10)}, nil
}

func (c *conn) close() {
	if c.net != nil {
		c.net.Close()
	}
}

const answerTime = 30 * time.Second

var errAnswer = errors.New("not an answer this client reads")

// post sends the bytes of a request and reads the answer.
func (c *conn) post(request []byte) (status int, err error) {
	if err := c.net.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return 0, err
	}
	if _, err := c.net.Write(request); err != nil {
		return 0, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, errAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, errAnswer
	}
	length, err := c.readHead()
	if err != nil {
		return 0, fmt.Errorf("answer %d: %w", status, err)
	}
	if cap(c.answer) < length {
		c.answer = make([]byte, length)
	}
	c.answer = c.answer[:length]
	for read := 0; read < length; {
		n, err := c.in.Read(c.answer[read:])
		if err != nil {
			return 0, err
		}
		read += n
	}
	return status, nil
}

// readHead returns the length of the body, which must be given: the API's
// answers are small.
func (c *conn) readHead() (length int, err error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 || length > 1<<20 {
				return 0, errAnswer
			}
		}
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			return 0, errAnswer
		}
	}
}
