package egress

import (
	"bytes"
	"errors"
	"sync"
)

var bodyRooms = sync.Pool{New: func() any { return new([maxBody + maxDrain]byte) }}

// readBody returns the first 16 KiB of the body, also when it ends before its
// time, and whether all of it was read. Reading on to a near end lets the
// connection be used again; of a body that is longer the rest is never read.
func (in *inbound) readBody(h answerHead) (body []byte, whole bool) {
	if n := int64(in.w - in.r); h.length >= 0 && h.length <= min(n, maxBody) {
		body = append(body, in.room[in.r:][:h.length]...)
		in.r += int(h.length)
		return body, true
	}
	room, ok := bodyRooms.Get().(*[maxBody + maxDrain]byte)
	if !ok {
		room = new([maxBody + maxDrain]byte)
	}
	defer bodyRooms.Put(room)
	var n int
	switch {
	case h.chunked:
		n, whole = in.readChunks(room[:])
	case h.length < 0:
		n, _ = in.readFull(room[:]) // what came before an error counts
	case h.length > int64(len(room)):
		n, _ = in.readFull(room[:maxBody])
	default:
		n, _ = in.readFull(room[:h.length])
		whole = n == int(h.length)
	}
	if n == 0 {
		return nil, whole
	}
	return bytes.Clone(room[:min(n, maxBody)]), whole
}

// maxExcess is how much a body in chunks may cost over twice its size.
const maxExcess = 16 << 10

var errChunk = errors.New("malformed chunk")

// readChunks fills room and reports whether it came to the end of the body,
// trailers included.
func (in *inbound) readChunks(room []byte) (n int, whole bool) {
	excess := 0
	for {
		line, err := in.chunkLine()
		if err != nil {
			return n, false
		}
		excess += len(line) + len("\r\n\r\n")
		size, err := chunkSize(line)
		if err != nil {
			return n, false
		}
		if size == 0 {
			return n, in.skipTrailers()
		}
		some, err := in.readFull(room[n:][:min(size, uint64(len(room)-n))])
		n += some
		if err != nil || uint64(some) < size {
			return n, false
		}
		if end, err := in.chunkLine(); err != nil || len(end) > 0 {
			return n, false
		}
		if excess = max(0, excess-16-2*some); excess > maxExcess {
			return n, false
		}
	}
}

// chunkLine returns the next line without its CRLF. A line feed alone ends no
// line here: some would read on.
func (in *inbound) chunkLine() ([]byte, error) {
	line, err := in.line()
	if err != nil {
		return nil, err
	}
	if end := len(line) - 1; end < 0 || bytes.IndexByte(line, '\r') != end {
		return nil, errChunk
	}
	return line[:len(line)-1], nil
}

// chunkSize reads the hexadecimal size in front of the extensions.
func chunkSize(line []byte) (size uint64, err error) {
	text, _, _ := bytes.Cut(line, []byte(";"))
	text = bytes.TrimRight(text, " \t")
	if len(text) == 0 || len(text) > 16 {
		return 0, errChunk
	}
	for _, d := range text {
		switch {
		case isDigit(d):
			d -= '0'
		case d|0x20 >= 'a' && d|0x20 <= 'f':
			d = d | 0x20 - 'a' + 10
		default:
			return 0, errChunk
		}
		size = size<<4 | uint64(d)
	}
	return size, nil
}

// skipTrailers reads the fields up to the empty line, and reports whether that
// came, soon, and they were fields.
func (in *inbound) skipTrailers() bool {
	for left := smallRoom; left > 0; {
		line, err := in.chunkLine()
		if err != nil {
			return false
		}
		if len(line) == 0 {
			return true
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || !all(name, tokenBytes) || !all(value, valueBytes) {
			return false
		}
		left -= len(line)
	}
	return false
}
