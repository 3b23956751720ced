package page

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// compressed returns the content for a browser that takes gzip, with the header that
// says so, and the content itself for others.
func compressed(header http.Header, r *http.Request, content []byte) []byte {
	header.Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return content
	}
	var small bytes.Buffer
	writer := gzip.NewWriter(&small)
	_, _ = writer.Write(content) // a buffer takes everything
	if err := writer.Close(); err != nil {
		return content
	}
	header.Set("Content-Encoding", "gzip")
	return small.Bytes()
}

// responseWriter notes what the log line needs.
type responseWriter struct {
	http.ResponseWriter

	id     string // of the request
	status int    // 0: nothing was written
	size   int
	began  func() // ends the turn of the page; nil: it has none
}

// begin ends the turn of the page.
func (w *responseWriter) begin() {
	if w.began != nil {
		w.began()
	}
}

// WriteHeader notes the first status.
func (w *responseWriter) WriteHeader(status int) {
	w.begin()
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.size += len(p)
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the writer of net/http, for [http.ResponseController].
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
