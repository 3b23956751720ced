package egress

import (
	"compress/gzip"
	"io"
	"slices"
	"sync"
)

// gzipWriters are used again: each holds most of a megabyte.
var gzipWriters = sync.Pool{New: func() any { return newGzipWriter() }}

func newGzipWriter() *gzip.Writer {
	w, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		return gzip.NewWriter(io.Discard) // never: the level is one
	}
	return w
}

// appendTo is an io.Writer at the end of a slice.
type appendTo []byte

// Write appends p.
func (a *appendTo) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// appendGzip appends the body as gzip, which for the same body is always the
// same: attempts do not differ. The body may lie in out.
func appendGzip(out, body []byte) ([]byte, error) {
	w, ok := gzipWriters.Get().(*gzip.Writer)
	if !ok {
		w = newGzipWriter()
	}
	defer gzipWriters.Put(w)
	a := appendTo(slices.Grow(out, len(body)/2))
	w.Reset(&a)
	if _, err := w.Write(body); err != nil {
		return out, err
	}
	err := w.Close()
	return a, err
}
