package page

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// compressed returns the content in gzip, with the header for it, if the browser accepts gzip.
// Otherwise it returns the content unchanged.
func compressed(header http.Header, r *http.Request, content []byte) []byte {
	header.Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return content
	}
	var small bytes.Buffer
	writer := gzip.NewWriter(&small)
	_, _ = writer.Write(content) // a buffer never returns an error
	if err := writer.Close(); err != nil {
		return content
	}
	header.Set("Content-Encoding", "gzip")
	return small.Bytes()
}

// responseWriter records what the log line of the request needs.
type responseWriter struct {
	http.ResponseWriter

	id     string // of the request
	status int    // 0: nothing was written yet
	size   int
	began  func() // ends the turn of the page; nil: the page has no turn
}

// begin ends the turn of the page.
func (w *responseWriter) begin() {
	if w.began != nil {
		w.began()
	}
}

// WriteHeader records the first status.
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
