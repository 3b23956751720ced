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

// poster makes one request at a time.
type poster interface {
	// post sends a body and returns the status and the body of the answer. The body is valid until
	// the next call.
	post(ctx context.Context, body []byte) (status int, answer []byte, err error)
	// next drops the connection to the target, after an error of post. The next post uses the next
	// target, if there is one.
	next()
	close()
}

// conn is an HTTP/1.1 connection that is kept alive. It exists because net/http's client would cost
// as much CPU as the server that is measured.
type conn struct {
	plan   *plan
	turn   int // index of the target, modulo their number
	net    net.Conn
	in     *bufio.Reader
	head   []byte // start of every request, up to the length of the body
	out    []byte
	answer []byte // the body of the last answer
}

// newConn connects to the target number turn of the plan.
func newConn(ctx context.Context, p *plan, turn int) (*conn, error) {
	c := &conn{plan: p, turn: turn}
	return c, c.dial(ctx)
}

func (c *conn) dial(ctx context.Context) error {
	target := c.plan.targets[c.turn%len(c.plan.targets)]
	connected, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return err
	}
	c.net, c.in = connected, bufio.NewReaderSize(connected, 8<<10)
	c.head = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: ", c.plan.path(), target, c.plan.key)
	return nil
}

func (c *conn) close() {
	if c.net != nil {
		c.net.Close()
	}
	c.net = nil
}

func (c *conn) next() {
	c.close()
	c.turn++
}

const answerTime = 30 * time.Second

var errAnswer = errors.New("not an answer this client reads")

func (c *conn) post(ctx context.Context, body []byte) (status int, answer []byte, err error) {
	if c.net == nil {
		if err := c.dial(ctx); err != nil {
			return 0, nil, err
		}
	}
	c.out = append(strconv.AppendInt(append(c.out[:0], c.head...), int64(len(body)), 10), "\r\n\r\n"...)
	c.out = append(c.out, body...)
	if err := c.net.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return 0, nil, err
	}
	if _, err := c.net.Write(c.out); err != nil {
		return 0, nil, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, nil, errAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, errAnswer
	}
	length, err := c.readHead()
	if err != nil {
		return 0, nil, fmt.Errorf("answer %d: %w", status, err)
	}
	return status, c.answer, c.readBody(length)
}

func (c *conn) readBody(length int) error {
	if cap(c.answer) < length {
		c.answer = make([]byte, length)
	}
	c.answer = c.answer[:length]
	for read := 0; read < length; {
		n, err := c.in.Read(c.answer[read:])
		if err != nil {
			return err
		}
		read += n
	}
	return nil
}

// readHead returns the length of the body. A length is required: the answers of the API are small.
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
