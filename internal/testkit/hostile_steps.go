package testkit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// peer is the hostile end of one connection.
type peer struct {
	net.Conn // the connection of TLS, if there is TLS

	in    *bufio.Reader
	tcp   *net.TCPConn
	below *poisonable // the connection below TLS; nil without TLS
	asked func()      // called for a request on a connection that must not be used again
	stop  <-chan struct{}
}

// step is a part of a misbehaviour. It fails once the peer or the test has gone.
type step func(*peer) error

var errStopped = errors.New("stopped")

// request reads one whole request.
func request(p *peer) error {
	length := 0
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return err
		}
		if value, ok := strings.CutPrefix(strings.ToLower(line), "content-length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
		if line == "\r\n" {
			_, err := io.CopyN(io.Discard, p.in, int64(length))
			return err
		}
	}
}

// some reads only the first byte of a request.
func some(p *peer) error {
	_, err := p.in.ReadByte()
	return err
}

// reset closes the connection with a RST.
func reset(p *peer) error { return errors.Join(p.tcp.SetLinger(0), p.tcp.Close()) }

// halfClose ends the answer and continues to read.
func halfClose(p *peer) error {
	half, ok := p.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errStopped
	}
	return errors.Join(half.CloseWrite(), hold(p))
}

// hold waits until the peer closes the connection. If the peer sends another request meanwhile, it
// calls asked.
func hold(p *peer) error {
	if _, err := p.in.Peek(len("POST ")); err != nil {
		return err
	}
	p.asked()
	return linger(p)
}

// linger waits until the peer closes the connection.
func linger(p *peer) error {
	_, err := io.Copy(io.Discard, p.tcp)
	return err
}

// stall reads and writes nothing until the test ends.
func stall(p *peer) error {
	<-p.stop
	return errStopped
}

// wait waits for the duration.
func wait(long time.Duration) step {
	return func(p *peer) error {
		timer := time.NewTimer(long)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-p.stop:
			return errStopped
		}
	}
}

// say writes the text.
func say(text string) step {
	return func(p *peer) error {
		_, err := io.WriteString(p, text)
		return err
	}
}

// drip writes the text one byte at a time.
func drip(text string) step {
	return func(p *peer) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := range len(text) {
			if _, err := io.WriteString(p, text[i:i+1]); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-p.stop:
				return errStopped
			}
		}
		return hold(p)
	}
}

// flood writes the text again and again, up to n times.
func flood(text string, n int) step {
	block := sync.OnceValue(func() []byte { return []byte(strings.Repeat(text, max(1, 32<<10/len(text)))) })
	return func(p *peer) error {
		for written := 0; written < n*len(text); written += len(block()) {
			if _, err := p.Write(block()); err != nil {
				return err
			}
		}
		return nil
	}
}

// bomb writes an answer whose body is that many zeros, compressed layers times.
func bomb(zeros, layers int) step {
	answer := sync.OnceValues(func() ([]byte, error) { return bombAnswer(zeros, layers) })
	return func(p *peer) error {
		text, err := answer()
		if err != nil {
			return err
		}
		_, err = p.Write(text)
		return err
	}
}

func bombAnswer(zeros, layers int) ([]byte, error) {
	body := make([]byte, zeros)
	for range layers {
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		_, err = w.Write(body)
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		body = packed.Bytes()
	}
	head := ok + "Content-Encoding: gzip" + strings.Repeat(", gzip", layers-1) +
		"\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...), nil
}

// alarm makes TLS send a fatal alert, as for garbage from the peer.
func alarm(p *peer) error {
	p.below.poisoned = true
	if _, err := p.Read(make([]byte, 1)); err == nil {
		return errStopped
	}
	return linger(p)
}

// poisonable is a connection that returns garbage once poisoned is set.
type poisonable struct {
	net.Conn
	poisoned bool
}

// Read reads from the connection. If poisoned is set, it returns garbage that looks like a TLS
// record.
func (c *poisonable) Read(b []byte) (int, error) {
	if c.poisoned {
		return copy(b, "\x17\x03\x03\x00\x05"+"hello"), nil
	}
	return c.Conn.Read(b)
}
