package receiver

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
)

// readBody returns the body in its signed form, which is before compression. If it cannot, it
// returns the status of the response instead. It reads at most limit bytes. Few compressed bytes
// can become many, so it also unpacks at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, int) {
	if r.ContentLength > limit {
		return nil, http.StatusRequestEntityTooLarge
	}
	sent := http.MaxBytesReader(w, r.Body, limit)
	switch coding := r.Header.Values("Content-Encoding"); {
	case len(coding) == 0, len(coding) == 1 && strings.EqualFold(coding[0], "identity"):
		body, err := io.ReadAll(sent)
		return body, readStatus(err)
	case len(coding) == 1 && strings.EqualFold(coding[0], "gzip"):
		return unpack(sent, limit)
	default:
		return nil, http.StatusUnsupportedMediaType
	}
}

func unpack(packed io.Reader, limit int64) ([]byte, int) {
	unpacking, err := gzip.NewReader(packed)
	if err != nil {
		return nil, readStatus(err)
	}
	body, err := io.ReadAll(io.LimitReader(unpacking, limit+1))
	if int64(len(body)) > limit {
		return nil, http.StatusRequestEntityTooLarge
	}
	return body, readStatus(err)
}

func readStatus(err error) int {
	if err == nil {
		return 0
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}
