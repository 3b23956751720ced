package egress_test

import (
	"io"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/egress"
)

// BenchmarkReadResponse reads a typical response.
func BenchmarkReadResponse(b *testing.B) {
	text := strings.NewReader("HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 04 May 2026 12:01:00 GMT\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok")
	read := egress.NewResponseReader()
	b.ReportAllocs()
	for b.Loop() {
		text.Seek(0, io.SeekStart)
		if _, err := read(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheckURL measures CheckURL, which the first attempt of an endpoint calls.
func BenchmarkCheckURL(b *testing.B) {
	e := open(b, egress.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.CheckURL("https://hooks.example.com:8443/v1/events?tenant=42"); err != nil {
			b.Fatal(err)
		}
	}
}
