package egress_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/postrider/postrider/internal/egress"
)

// folded matches a field whose value continues in the next line. Egress reads it as no field.
var folded = regexp.MustCompile(`\n[ \t]`)

// stricter matches responses that egress may refuse although net/http accepts them: folded lines,
// other versions, statuses that are not three digits from 100 after one space, and lengths that
// fill a disk.
var stricter = regexp.MustCompile(`(?m)\n[ \t]|^HTTP/[^1]|^HTTP/1\.\d ([^1-9]|.\D|..\D)|\d{19}`)

// oracle reads the final head with net/http, after interim ones.
func oracle(in *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// FuzzResponse compares how egress and net/http read responses. Egress may accept less, and reuse a
// connection less often, but never the opposite.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0 200\nTransfer-Encoding: chunked\n\nuntil the end",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 429 Slow\r\nRetry-After: 5\r\nRetry-After: 6\r\nDate: Mon, 04 May 2026 12:01:00 GMT\r\nConnection: x, Close\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: /\r\nX-Policy: a\r\n  b\r\nContent-Length : 7\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 02\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n \x00: c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 3<<10 { // below all limits of sizes, because net/http has other limits
			return
		}
		ours, err := egress.ReadResponse(bytes.NewReader(raw))
		slow, slowErr := egress.ReadResponse(iotest.OneByteReader(bytes.NewReader(raw)))
		if (err == nil) != (slowErr == nil) || slow.Status != ours.Status || !bytes.Equal(slow.Body, ours.Body) {
			t.Errorf("at once: %+v, %v; byte by byte: %+v, %v", ours, err, slow, slowErr)
		}
		in := bufio.NewReader(bytes.NewReader(raw))
		theirs, theirErr := oracle(in)
		switch {
		case err != nil && theirErr == nil && !stricter.Match(raw):
			t.Fatalf("we refuse (%v) what net/http takes", err)
		case err != nil, theirErr != nil && strings.Contains(theirErr.Error(), "bad trailer key"):
			return // egress ignores the names of trailers
		case theirErr != nil:
			t.Fatalf("we take as %+v what net/http refuses: %v", ours, theirErr)
		}
		body, bodyErr := io.ReadAll(theirs.Body)
		if folded.Match(raw) {
			forgive(ours, theirs.Header)
		}
		checkResponse(t, ours, theirs, body)
		if left := in.Buffered(); ours.Again && (theirs.Close || bodyErr != nil || left > 0 || !bytes.Equal(ours.Body, body)) {
			t.Errorf("we go on after %q; net/http: close %t, body %q, %v, %d bytes left", ours.Body, theirs.Close, body, bodyErr, left)
		}
	})
}

// fields returns the fields of a header that are compared.
func fields(r egress.ReadResult) map[string]string {
	return map[string]string{"Date": r.Date, "Location": r.Location, "Retry-After": r.RetryAfter}
}

// forgive removes from net/http's header the fields that egress reads as none.
func forgive(ours egress.ReadResult, theirs http.Header) {
	for name, got := range fields(ours) {
		if got == "" {
			theirs.Del(name)
		}
	}
}

func checkResponse(t *testing.T, ours egress.ReadResult, theirs *http.Response, body []byte) {
	t.Helper()
	if ours.Status != theirs.StatusCode {
		t.Errorf("status %d, net/http says %d", ours.Status, theirs.StatusCode)
	}
	for name, got := range fields(ours) {
		if want := theirs.Header.Get(name); got != want {
			t.Errorf("%s = %q, net/http says %q", name, got, want)
		}
	}
	if !bytes.HasPrefix(body, ours.Body) && !bytes.HasPrefix(ours.Body, body) {
		t.Errorf("body %q, net/http says %q", ours.Body, body)
	}
}
