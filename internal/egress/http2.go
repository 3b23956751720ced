package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
)

// share makes the exchange as one stream of a connection that others use too.
func (e *Egress) share(ctx context.Context, s *shared, x *exchange) (answer, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	s.frames.grant()
	ans, again, err := x.stream(ctx, s.client)
	e.shared.give(s, again)
	return ans, err
}

// stream sends the request, for which there is room, and reads its answer. The
// request that the peer gets is the one that was built for HTTP/1.1, with the
// names of its headers in lower case. It reports whether others may use the
// connection: not after an answer whose end was not read, as over HTTP/1.1.
func (x *exchange) stream(ctx context.Context, client *http.ClientConn) (ans answer, again bool, err error) {
	body := &streamBody{rest: x.request.bytes[len(x.head):]}
	defer body.Close()
	var sent atomic.Bool
	request, err := parseRequest(x.head)
	if err != nil {
		client.Release()
		return answer{}, false, err
	}
	request.Body, request.ContentLength = body, int64(len(body.rest))
	request = request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { sent.Store(true) }, // called before they leave
	}))
	response, err := client.RoundTrip(request)
	x.written = sent.Load() || ctx.Err() != nil // it may be leaving just now
	if x.written {
		x.in.hold(nil) // an answer from before is none to this
	}
	if err != nil {
		return answer{}, false, asAnswer(err)
	}
	defer response.Body.Close()
	return x.streamed(response)
}

// streamed takes in an answer.
func (x *exchange) streamed(response *http.Response) (ans answer, again bool, err error) {
	if response.StatusCode < 200 || response.StatusCode > 999 {
		return answer{}, false, malformed("status code")
	}
	ans.status = response.StatusCode
	for name, field := range map[string]*[]byte{
		"Date": &ans.date, "Location": &ans.location, "Retry-After": &ans.retryAfter, "Webhook-Allowed-Origin": &ans.allowed,
	} {
		if values := response.Header[name]; len(values) > 0 {
			*field = []byte(values[0])
		}
	}
	x.in.hold(headOf(response))
	room, ok := bodyRooms.Get().(*[maxBody + maxDrain]byte)
	if !ok {
		room = new([maxBody + maxDrain]byte)
	}
	defer bodyRooms.Put(room)
	n := 0
	for err == nil && n < len(room) {
		var some int
		some, err = response.Body.Read(room[n:])
		n += some
	}
	if n > 0 {
		ans.body = bytes.Clone(room[:min(n, maxBody)])
	}
	return ans, errors.Is(err, io.EOF), nil // what came before an error counts
}

// headOf returns the head of an answer in the form of HTTP/1.
func headOf(response *http.Response) []byte {
	var head bytes.Buffer
	head.WriteString("HTTP/2.0 " + strconv.Itoa(response.StatusCode) + "\r\n")
	response.Header.Write(&head) //nolint:errcheck // a buffer takes all
	head.WriteString("\r\n")
	return head.Bytes()
}

var errRequest = errors.New("malformed request head")

// parseRequest reads the head of a request of ours. Its strings are copies:
// the memory of the head is used again.
func parseRequest(head []byte) (*http.Request, error) {
	request := &http.Request{
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{},
		URL: &url.URL{Scheme: "https"},
	}
	first, rest, _ := bytes.Cut(head, []byte("\r\n"))
	method, target, ok := bytes.Cut(first, []byte(" "))
	target, _, end := bytes.Cut(target, []byte(" HTTP/1.1"))
	if !ok || !end {
		return nil, errRequest
	}
	request.Method = string(method)
	for line := range bytes.SplitSeq(rest, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(": "))
		switch {
		case len(line) == 0:
		case !ok:
			return nil, errRequest
		case equalFold(name, "Host"):
			request.Host = string(value)
		case equalFold(name, "Content-Length"):
		default:
			request.Header[string(name)] = append(request.Header[string(name)], string(value))
		}
	}
	// As it is: parsing the target might write it another way.
	request.URL.Host, request.URL.Opaque = request.Host, "//"+request.Host+string(target)
	return request, nil
}

// streamBody is a request's body, whose memory is used again once the body is
// closed: net/http may want to read on after the exchange has ended.
type streamBody struct {
	mu     sync.Mutex
	rest   []byte
	closed bool
}

// Read returns the next bytes.
func (b *streamBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close ends what can be read.
func (b *streamBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.closed = nil, true
	return nil
}
