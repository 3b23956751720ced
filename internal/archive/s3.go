package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/postrider/postrider/internal/egress"
)

// Bucket is the place of the objects on an S3-compatible server.
type Bucket struct {
	Name      string
	Prefix    string // begins the names of all objects, without slashes at its ends; empty: none
	Endpoint  string // URL of the server, without a path
	Region    string // always set, since otherwise the library asks the server for the region
	AccessKey string
	SecretKey string
}

// S3 is a [Target]: a bucket. The owner closes it at the end.
type S3 struct {
	bucket Bucket
	client *minio.Client
	idle   func() // closes idle connections
}

// OpenS3 returns the target of a bucket. It makes no request.
func OpenS3(b Bucket) (*S3, error) {
	endpoint, err := url.Parse(b.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the bucket's server: %w", err)
	}
	transport := egress.OperatorTransport()
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds: credentials.NewStaticV4(b.AccessKey, b.SecretKey, ""), Secure: endpoint.Scheme == "https", Region: b.Region,
		Transport: transport, BucketLookup: minio.BucketLookupAuto, MaxRetries: 1, // the janitor tries again
	})
	if err != nil {
		return nil, fmt.Errorf("open the bucket: %w", err)
	}
	return &S3{b, client, transport.CloseIdleConnections}, nil
}

// Close closes idle connections.
func (s *S3) Close() { s.idle() }

// Write implements [Target].
func (s *S3) Write(ctx context.Context, name string, content []byte) error {
	_, err := s.client.PutObject(ctx, s.bucket.Name, s.name(name), bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
		ContentType: "application/octet-stream", SendContentMd5: true, DisableMultipart: true,
	})
	return explainS3(err)
}

// Read implements [Target].
func (s *S3) Read(ctx context.Context, name string) ([]byte, error) {
	object, err := s.client.GetObject(ctx, s.bucket.Name, s.name(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, explainS3(err)
	}
	content, err := io.ReadAll(io.LimitReader(object, maxObject))
	return content, explainS3(errors.Join(err, object.Close()))
}

// maxObject limits how many bytes are read of an object, to many times the size of a part.
const maxObject = 1 << 30

// List implements [Target].
func (s *S3) List(ctx context.Context, prefix string) (names []string, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends the listing if the loop returns early
	defer cancel()
	for object := range s.client.ListObjectsIter(ctx, s.bucket.Name, minio.ListObjectsOptions{Prefix: s.name(prefix) + "/"}) {
		if object.Err != nil {
			return nil, explainS3(object.Err)
		}
		names = append(names, prefix+path.Base(object.Key))
	}
	return names, nil
}

// Delete implements [Target].
func (s *S3) Delete(ctx context.Context, name string) error {
	return explainS3(s.client.RemoveObject(ctx, s.bucket.Name, s.name(name), minio.RemoveObjectOptions{}))
}

func (s *S3) name(object string) string {
	return strings.TrimPrefix(path.Join(s.bucket.Prefix, object), "/")
}

// explainS3 adds the code of the server to the error. If the object does not exist, the error
// matches [fs.ErrNotExist].
func explainS3(err error) error {
	if err == nil {
		return nil
	}
	response, ok := errors.AsType[minio.ErrorResponse](err)
	switch {
	case !ok:
		return err
	case response.Code == minio.NoSuchKey:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fmt.Errorf("the server of the bucket says %s: %w", response.Code, err)
}
