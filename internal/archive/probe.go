package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/postrider/postrider/internal/egress"
)

// probeContent is the content of the object that [Probe] writes.
var probeContent = []byte("postrider doctor\n")

// Probe does with a small object all steps that an archive needs: it writes the object, reads it
// back, lists objects and deletes it again. The error says which step failed. If the object was
// written and cannot be deleted, it stays.
func Probe(ctx context.Context, t Target) error {
	name := "postrider-doctor-" + rand.Text()
	if err := t.Write(ctx, name, probeContent); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	content, err := t.Read(ctx, name)
	switch {
	case err != nil:
		err = fmt.Errorf("read %s back: %w", name, err)
	case !bytes.Equal(content, probeContent):
		err = fmt.Errorf("read %s back: it has other bytes than were written", name)
	}
	if _, listErr := t.List(ctx, "postrider-doctor/"); listErr != nil { // no object has this prefix
		err = errors.Join(err, fmt.Errorf("list objects: %w", listErr))
	}
	if deleteErr := t.Delete(ctx, name); deleteErr != nil {
		err = errors.Join(err, fmt.Errorf("delete %s: %w", name, deleteErr))
	}
	return err
}

// Code returns the code with which the server of a bucket refused a request, such as
// AccessDenied. Empty: the error does not come from such a server.
func Code(err error) string {
	response, _ := errors.AsType[minio.ErrorResponse](err)
	return response.Code
}

// ServerTime returns the time of the bucket's server. The server refuses requests if the clock of
// this machine differs by more than 15 minutes. ServerTime needs no key.
func (b Bucket) ServerTime(ctx context.Context) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, b.Endpoint, http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the server of the bucket for its time: %w", err)
	}
	response, err := egress.OperatorClient().Do(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the server of the bucket for its time: %w", err)
	}
	defer response.Body.Close()
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the bucket's server: %w", err)
	}
	return at, nil
}
