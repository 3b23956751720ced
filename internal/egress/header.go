package egress

import (
	"bytes"
	"net/http"
	"strings"
)

// framing says where a response ends and whether another request may follow. The header decides it.
type framing struct {
	status  int
	length  int64 // bytes of the body; -1: the body is chunked or ends with the connection
	chunked bool
	close   bool // no other request may follow on the connection
}

// readHeader reads up to the end of the final header. Interim headers (1xx) before it count towards
// the same limit of bytes.
func (rd *responseReader) readHeader() (framing, error) {
	for {
		rd.final = rd.r
		p := headerParser{reader: rd}
		if err := p.statusLine(); err != nil {
			return framing{}, err
		}
		if err := p.fields(); err != nil {
			return framing{}, err
		}
		f, err := p.finish()
		if err != nil {
			return framing{}, err
		}
		if f.status >= 200 || f.status == http.StatusSwitchingProtocols {
			rd.header = rd.r
			return f, nil
		}
	}
}

// headerParser reads one header, line by line as the lines arrive, so it refuses garbage before the
// header ends. It interprets only the fields that decide where the response ends. It accepts the
// headers that net/http accepts, or fewer.
type headerParser struct {
	reader  *responseReader
	framing framing
	http10  bool // the response is in HTTP/1.0

	lengths   int    // how many Content-Length fields there were
	length    []byte // the value, which all of these fields share
	encodings int    // how many Transfer-Encoding fields there were
	keepAlive bool   // Connection has keep-alive
	decides   bool   // the last field is one that decides where the response ends
	begun     bool   // a field was read
}

// line returns the next line of the header without its line end.
func (p *headerParser) line() ([]byte, error) {
	line, err := p.reader.line()
	if err != nil {
		return nil, err
	}
	if p.reader.r > maxHeader {
		return nil, errHeaderTooLong
	}
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// statusLine reads HTTP/1.x, a space and three digits; after a further space anything may follow.
// Other bytes are refused at the first wrong byte.
func (p *headerParser) statusLine() error {
	const form = "HTTP/1.1 200"
	rd := p.reader
	for {
		begun := rd.buffer[rd.r:rd.w]
		if n := min(len(begun), len("HTTP/1.")); string(begun[:n]) != form[:n] {
			return malformed("it does not start with HTTP/1")
		}
		if len(begun) >= len(form) || bytes.IndexByte(begun, '\n') >= 0 {
			break
		}
		if err := rd.fill(); err != nil {
			return err
		}
	}
	line, err := p.line()
	if err != nil {
		return err
	}
	if len(line) < len(form) || line[8] != ' ' || !isDigit(line[7]) || len(line) > len(form) && line[len(form)] != ' ' {
		return malformed("status line")
	}
	for _, digit := range line[9:12] {
		if !isDigit(digit) {
			return malformed("status code")
		}
		p.framing.status = p.framing.status*10 + int(digit-'0')
	}
	if p.framing.status < 100 {
		return malformed("status code")
	}
	p.http10 = line[7] == '0'
	return nil
}

// fields reads the lines up to the empty one.
func (p *headerParser) fields() error {
	for {
		line, err := p.line()
		if err != nil || len(line) == 0 {
			return err
		}
		if !all(line, valueBytes) {
			return malformed("control character in the header")
		}
		if isSpace(line[0]) {
			// A value that continues in the next line is obsolete. Some servers still send it, so
			// it is accepted in fields that do not decide where the response ends.
			if !p.begun || p.decides {
				return malformed("folded line")
			}
			continue
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !p.isName(name) {
			return malformed("line without a name")
		}
		p.begun = true
		if p.decides, err = p.field(name, bytes.Trim(value, " \t")); err != nil {
			return err
		}
	}
}

// isName accepts spaces in a name, as net/http does. Another reader may take the field for a
// different one, so the connection of such a response is not used again.
func (p *headerParser) isName(name []byte) bool {
	if len(name) > 0 && all(name, tokenBytes) {
		return true
	}
	p.framing.close = true
	return len(name) > 0 && all(name, spacedBytes)
}

// field reads one field. decides reports whether the field decides where the response ends.
func (p *headerParser) field(name, value []byte) (decides bool, err error) {
	switch {
	case equalFold(name, "Connection"):
		p.connection(value)
	case equalFold(name, "Transfer-Encoding"):
		p.encodings++
		p.framing.chunked = equalFold(value, "chunked")
	case equalFold(name, "Content-Length"):
		if p.lengths++; p.lengths > 1 && !bytes.Equal(p.length, value) {
			return true, malformed("two lengths")
		}
		p.length = value
	default:
		return false, nil
	}
	return true, nil
}

// equalFold compares b with an ASCII text and ignores case. Since the lengths are equal, b can
// match only if it is ASCII too.
func equalFold(b []byte, text string) bool {
	return len(b) == len(text) && strings.EqualFold(string(b), text)
}

// connection reads the options of a Connection field. The options of several fields add up.
func (p *headerParser) connection(list []byte) {
	for option := range bytes.SplitSeq(list, []byte(",")) {
		option = bytes.Trim(option, " \t")
		p.framing.close = p.framing.close || equalFold(option, "close")
		p.keepAlive = p.keepAlive || equalFold(option, "keep-alive")
	}
}

// finish says where the response ends (RFC 9112, 6.3). If another reader might find another end,
// the connection is not used again. Otherwise the server could append a second response, which
// would be read as the response to the next request. The cases:
//
//	status                    headers                     end of the body
//	1xx, 204, 304             any                         no body
//	other, HTTP/1.1           Transfer-Encoding: chunked  the last chunk
//	other                     Content-Length: n           n bytes
//	other                     neither                     end of the connection
//
// A header with both a Transfer-Encoding and a Content-Length is accepted as net/http accepts it,
// but its connection is closed. So is a header with one of the two where there is no body. Two
// different values of Content-Length are malformed, and so is any other Transfer-Encoding: no
// reading of them is safe.
func (p *headerParser) finish() (framing, error) {
	f := p.framing
	announced, err := p.announced()
	if err != nil {
		return framing{}, err
	}
	switch {
	case p.http10:
		// HTTP/1.0 has no chunks, and the server closes unless it sends keep-alive.
		f.close = f.close || !p.keepAlive || p.encodings > 0
		f.chunked = false
	case p.encodings > 1 || p.encodings == 1 && !f.chunked:
		return framing{}, malformed("transfer encoding")
	}
	switch {
	case f.status < 200 || f.status == http.StatusNoContent || f.status == http.StatusNotModified: // never has a body
		f.close = f.close || f.chunked || announced > 0 || f.status == http.StatusSwitchingProtocols
		f.length, f.chunked = 0, false
	case f.chunked:
		// Chunks win over a length. A reader that prefers the length finds another end.
		f.close = f.close || announced >= 0
		f.length = -1
	default:
		// Without a length the body ends with the connection.
		f.close = f.close || announced < 0
		f.length = announced
	}
	return f, nil
}

// announced returns the value of Content-Length; -1 if there is no such field.
func (p *headerParser) announced() (n int64, err error) {
	if p.lengths == 0 {
		return -1, nil
	}
	if len(p.length) == 0 || len(p.length) > 18 || !all(p.length, digits) { // 18 digits fit into an int64
		return 0, malformed("content-length")
	}
	for _, digit := range p.length {
		n = n*10 + int64(digit-'0')
	}
	return n, nil
}

// byteSet has true for each byte that belongs to the set.
type byteSet [256]bool

// bytesThat returns the set of the bytes for which belong returns true. A look-up in the set costs
// a fraction of a call of belong.
func bytesThat(belong func(byte) bool) *byteSet {
	var set byteSet
	for i := range set {
		set[i] = belong(byte(i))
	}
	return &set
}

// all reports whether every byte of b belongs to the set.
func all(b []byte, set *byteSet) bool {
	for _, c := range b {
		if !set[c] {
			return false
		}
	}
	return true
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// isSpace reports whether a byte is a space of HTTP: a blank or a tab.
func isSpace(b byte) bool { return b == ' ' || b == '\t' }

var (
	digits     = bytesThat(isDigit)
	valueBytes = bytesThat(func(b byte) bool { return b >= ' ' && b != 0x7f || b == '\t' }) // all but control characters
	tokenBytes = bytesThat(func(b byte) bool {                                              // of RFC 9110, 5.6.2
		return b|0x20 >= 'a' && b|0x20 <= 'z' || isDigit(b) || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
	})
	spacedBytes = bytesThat(func(b byte) bool { return b == ' ' || tokenBytes[b] })
)
