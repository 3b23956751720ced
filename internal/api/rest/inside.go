package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/postrider/postrider"
)

// callerKey is the context key of the caller of a call inside the process. A request from the
// network cannot set this key, because the server makes the context of such a request.
type callerKey struct{}

// As returns a transport that calls the API inside the process as the caller, without a key and
// without a connection. Its requests pass the same checks of scopes, accounts, sizes and times as
// requests from the network, and get the same responses. Their log lines have the level debug.
// Their request id is the caller's Request, unless that is empty.
//
// The caller must be authenticated and not expired: the API does not check that again.
func (h *Handler) As(caller postrider.Caller) http.RoundTripper {
	return &inside{handler: h, caller: &caller}
}

// insider returns the caller of a call inside the process; nil: the request came from
// the network.
func insider(r *http.Request) *postrider.Caller {
	caller, _ := r.Context().Value(callerKey{}).(*postrider.Caller)
	return caller
}

// inside is the transport of [Handler.As].
type inside struct {
	handler http.Handler
	caller  *postrider.Caller
}

// RoundTrip serves the request in the goroutine of its caller. When RoundTrip returns, the whole
// response is in memory.
func (t *inside) RoundTrip(r *http.Request) (_ *http.Response, err error) {
	served := r.Clone(context.WithValue(r.Context(), callerKey{}, t.caller))
	if served.Body == nil {
		served.Body = http.NoBody
	}
	defer served.Body.Close()
	served.RequestURI = r.URL.RequestURI()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s %s: the API panicked: %v", r.Method, r.URL.Path, cause)
		}
	}()
	w := &insideWriter{header: http.Header{}}
	t.handler.ServeHTTP(w, served)
	if err := r.Context().Err(); err != nil {
		return nil, context.Cause(r.Context())
	}
	if w.status == 0 {
		return nil, errors.New("the API sent no response")
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// insideWriter keeps a response in memory. It has no connection and no deadlines:
// [http.ResponseController] returns errors for it.
type insideWriter struct {
	header http.Header
	status int // 0: no header was written
	body   bytes.Buffer
}

// Header returns the headers of the response.
func (w *insideWriter) Header() http.Header { return w.header }

// WriteHeader keeps the first status.
func (w *insideWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write keeps bytes of the body.
func (w *insideWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
