package webhook

import (
	"compress/gzip"
	"io"
	"slices"
	"sync"
)

// gzipWriters are reused, because each has almost a megabyte of tables.
var gzipWriters = sync.Pool{New: func() any { return newGzipWriter() }}

// newGzipWriter returns a writer with the fastest level. Bodies are small, and the sender's CPU
// costs more here than the bytes.
func newGzipWriter() *gzip.Writer {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		return gzip.NewWriter(io.Discard) // cannot happen: the level is valid
	}
	return w
}

// sliceWriter is an io.Writer that appends to a slice.
type sliceWriter []byte

// Write appends p.
func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// appendGzip appends the gzip of the body. Equal bodies give equal bytes, so all attempts of a
// delivery send the same bytes. The body may be in the memory of out.
func appendGzip(out, body []byte) ([]byte, error) {
	w, ok := gzipWriters.Get().(*gzip.Writer)
	if !ok {
		w = newGzipWriter()
	}
	defer gzipWriters.Put(w)
	s := sliceWriter(slices.Grow(out, len(body)/2))
	w.Reset(&s)
	if _, err := w.Write(body); err != nil {
		return out, err
	}
	err := w.Close()
	return s, err
}
