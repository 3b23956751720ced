package egress

import (
	"bytes"
	"errors"
	"sync"
)

// bodyBuffers have space for the bytes that readBody returns (maxBody) and for the bytes that it
// reads past them (maxDrain). Only a running readBody holds one: it returns a copy of the body, of
// the body's own size, which the attempt's record keeps.
var bodyBuffers = sync.Pool{New: func() any { return new([maxBody + maxDrain]byte) }}

// readBody returns the first 16 KiB of the body, even if the connection cuts the body short. whole
// reports whether the body was read to its end.
//
// A connection can be used again only if the body was read to its end, so reading on can save a
// handshake. That is worth a few bytes and not many. Up to maxDrain bytes more are read; the
// connection of a longer body is closed. If the announced length is too long, readBody stops at 16
// KiB.
//
// A read error is no error of the attempt. The status has decided the attempt, and the part of the
// body that arrived is kept.
func (rd *responseReader) readBody(f framing) (body []byte, whole bool) {
	// The buffer has the whole body: the common case.
	if n := int64(rd.w - rd.r); f.length >= 0 && f.length <= min(n, maxBody) {
		body = append(body, rd.buffer[rd.r:][:f.length]...)
		rd.r += int(f.length)
		return body, true
	}
	buffer, ok := bodyBuffers.Get().(*[maxBody + maxDrain]byte)
	if !ok {
		buffer = new([maxBody + maxDrain]byte)
	}
	defer bodyBuffers.Put(buffer)
	var n int
	switch {
	case f.chunked:
		n, whole = rd.readChunks(buffer[:])
	case f.length < 0:
		n, _ = rd.readFull(buffer[:]) // bytes before an error count
	case f.length > int64(len(buffer)):
		n, _ = rd.readFull(buffer[:maxBody])
	default:
		n, _ = rd.readFull(buffer[:f.length])
		whole = n == int(f.length)
	}
	if n == 0 {
		return nil, whole
	}
	return bytes.Clone(buffer[:min(n, maxBody)]), whole
}

// maxExcess bounds the bytes of a chunked body that are not data: sizes, extensions and line ends.
// For each chunk, 16 bytes and as many bytes as its data do not count. Without the bound, a server
// that sends one byte per chunk with an extension of 4 KiB would make this program read 96 MiB for
// 24 KiB of data.
const maxExcess = 16 << 10

// errChunk ends a chunked body. The attempt does not fail: the part of the body that was read
// counts, and the connection is closed.
var errChunk = errors.New("malformed chunk")

// readChunks fills p with the data of the chunks. whole reports whether it read to the end of the
// body, trailers included.
func (rd *responseReader) readChunks(p []byte) (n int, whole bool) {
	excess := 0
	for {
		line, err := rd.chunkLine()
		if err != nil {
			return n, false
		}
		excess += len(line) + len("\r\n\r\n")
		size, err := chunkSize(line)
		if err != nil {
			return n, false
		}
		if size == 0 {
			return n, rd.skipTrailers()
		}
		got, err := rd.readFull(p[n:][:min(size, uint64(len(p)-n))])
		n += got
		if err != nil || uint64(got) < size {
			return n, false
		}
		if end, err := rd.chunkLine(); err != nil || len(end) > 0 {
			return n, false
		}
		if excess = max(0, excess-16-2*got); excess > maxExcess {
			return n, false
		}
	}
}

// chunkLine returns the next line without its CRLF. A line feed without a carriage return is
// malformed here: some readers do not end the line there, and find another end of the body.
func (rd *responseReader) chunkLine() ([]byte, error) {
	line, err := rd.line()
	if err != nil {
		return nil, err
	}
	if end := len(line) - 1; end < 0 || bytes.IndexByte(line, '\r') != end {
		return nil, errChunk
	}
	return line[:len(line)-1], nil
}

// chunkSize reads the hexadecimal size at the start of the line and ignores the extensions after
// it.
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

// skipTrailers reads the trailer fields after the last chunk, up to the empty line. It returns
// false if a line is not a field, or if the fields have more than 4 KiB.
func (rd *responseReader) skipTrailers() bool {
	for left := smallBuffer; left > 0; {
		line, err := rd.chunkLine()
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
