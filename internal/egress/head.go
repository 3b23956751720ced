package egress

import (
	"bytes"
	"net/http"
	"strings"
)

// answerHead is what a head says that matters to us.
type answerHead struct {
	status     int
	length     int64 // of the body; -1: it ends with the connection
	chunked    bool
	close      bool   // no other request may follow on the connection
	retryAfter []byte // \
	date       []byte // | the first of each, in the room of the inbound
	location   []byte // |
	allowed    []byte // / webhook-allowed-origin
}

// readHead reads up to the end of the final head. Interim heads before it count
// towards the same bound.
func (in *inbound) readHead() (answerHead, error) {
	for {
		p := headParser{in: in}
		if err := p.statusLine(); err != nil {
			return answerHead{}, err
		}
		if err := p.fields(); err != nil {
			return answerHead{}, err
		}
		h, err := p.finish()
		if err != nil {
			return answerHead{}, err
		}
		if h.status >= 200 || h.status == http.StatusSwitchingProtocols {
			in.head = in.r
			return h, nil
		}
	}
}

// headParser reads one head, line by line as it comes, so that garbage is known
// for what it is without waiting for its end. What it takes and what it refuses
// is what net/http does, or less.
type headParser struct {
	in   *inbound
	head answerHead
	old  bool // HTTP/1.0

	lengths   int    // how often one was announced
	length    []byte // that was
	encodings int
	keepAlive bool
	meant     bool // the field before is one that is read here
	begun     bool // there was a field
}

// line returns the next line of the head without its end.
func (p *headParser) line() ([]byte, error) {
	line, err := p.in.line()
	if err != nil {
		return nil, err
	}
	if p.in.r > maxHead {
		return nil, errHeadTooLong
	}
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// statusLine reads HTTP/1.x, a space, three digits and whatever follows.
func (p *headParser) statusLine() error {
	const form = "HTTP/1.1 200"
	for {
		began := p.in.room[p.in.r:p.in.w]
		if n := min(len(began), len("HTTP/1.")); string(began[:n]) != form[:n] {
			return malformed("it does not start with HTTP/1")
		}
		if len(began) >= len(form) || bytes.IndexByte(began, '\n') >= 0 {
			break
		}
		if err := p.in.fill(); err != nil {
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
		p.head.status = p.head.status*10 + int(digit-'0')
	}
	if p.head.status < 100 {
		return malformed("status code")
	}
	p.old = line[7] == '0'
	return nil
}

// fields reads the lines up to the empty one.
func (p *headParser) fields() error {
	for {
		line, err := p.line()
		if err != nil || len(line) == 0 {
			return err
		}
		if !all(line, valueBytes) {
			return malformed("control character in the head")
		}
		if line[0] == ' ' || line[0] == '\t' {
			// A value that goes on in the next line: obsolete, but seen in
			// headers that do not matter here.
			if !p.begun || p.meant {
				return malformed("folded line")
			}
			continue
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !p.isName(name) {
			return malformed("line without a name")
		}
		p.begun, p.meant = true, false
		if err := p.field(name, bytes.Trim(value, " \t")); err != nil {
			return err
		}
	}
}

// isName lets spaces pass, as net/http does, but then nobody knows what the
// field would be to others.
func (p *headParser) isName(name []byte) bool {
	if len(name) > 0 && all(name, tokenBytes) {
		return true
	}
	p.head.close = true
	return len(name) > 0 && all(name, spacedBytes)
}

// field takes in one field.
func (p *headParser) field(name, value []byte) error {
	p.meant = true
	switch {
	case equalFold(name, "Date"):
		keepFirst(&p.head.date, value)
	case equalFold(name, "Location"):
		keepFirst(&p.head.location, value)
	case equalFold(name, "WebHook-Allowed-Origin"):
		keepFirst(&p.head.allowed, value)
	case equalFold(name, "Retry-After"):
		keepFirst(&p.head.retryAfter, value)
	case equalFold(name, "Connection"):
		p.connection(value)
	case equalFold(name, "Transfer-Encoding"):
		p.encodings++
		p.head.chunked = equalFold(value, "chunked")
	case equalFold(name, "Content-Length"):
		if p.lengths++; p.lengths > 1 && !bytes.Equal(p.length, value) {
			return malformed("two lengths")
		}
		p.length = value
	default:
		p.meant = false
	}
	return nil
}

// equalFold compares with a text in ASCII. One of the same length can only be
// equal if it is ASCII too.
func equalFold(b []byte, text string) bool {
	return len(b) == len(text) && strings.EqualFold(string(b), text)
}

func keepFirst(field *[]byte, value []byte) {
	if *field == nil {
		*field = value
	}
}

func (p *headParser) connection(list []byte) {
	for option := range bytes.SplitSeq(list, []byte(",")) {
		option = bytes.Trim(option, " \t")
		p.head.close = p.head.close || equalFold(option, "close")
		p.keepAlive = p.keepAlive || equalFold(option, "keep-alive")
	}
}

// finish says where the answer ends: RFC 9112, 6.3. Where others might find
// another end, the connection is not used again.
func (p *headParser) finish() (answerHead, error) {
	h := p.head
	announced, err := p.announced()
	if err != nil {
		return answerHead{}, err
	}
	switch {
	case p.old:
		h.close = h.close || !p.keepAlive || p.encodings > 0
		h.chunked = false
	case p.encodings > 1 || p.encodings == 1 && !h.chunked:
		return answerHead{}, malformed("transfer encoding")
	}
	switch {
	case h.status < 200 || h.status == http.StatusNoContent || h.status == http.StatusNotModified:
		h.close = h.close || h.chunked || announced > 0 || h.status == http.StatusSwitchingProtocols
		h.length, h.chunked = 0, false
	case h.chunked:
		h.close = h.close || announced >= 0
		h.length = -1
	default:
		h.close = h.close || announced < 0
		h.length = announced
	}
	return h, nil
}

// announced returns the content-length; -1: there is none.
func (p *headParser) announced() (n int64, err error) {
	if p.lengths == 0 {
		return -1, nil
	}
	if len(p.length) == 0 || len(p.length) > 18 || !all(p.length, digits) { // 18 digits fit
		return 0, malformed("content-length")
	}
	for _, digit := range p.length {
		n = n*10 + int64(digit-'0')
	}
	return n, nil
}

// byteSet says of each byte whether it belongs.
type byteSet [256]bool

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

var (
	digits     = bytesThat(isDigit)
	valueBytes = bytesThat(func(b byte) bool { return b >= ' ' && b != 0x7f || b == '\t' }) // all but control characters
	tokenBytes = bytesThat(func(b byte) bool {
		return b|0x20 >= 'a' && b|0x20 <= 'z' || isDigit(b) || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
	})
	spacedBytes = bytesThat(func(b byte) bool { return b == ' ' || tokenBytes[b] })
)
