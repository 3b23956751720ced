package drivers

import (
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/config"
)

// Archive is the archive of a store. The zero one is none.
type Archive struct {
	*archive.Archive

	Close func()
}

// OpenArchive returns the archive that the settings name. It makes no request: a server must start
// while its archive is away.
func OpenArchive(c config.ArchiveConfig, s archive.Store, vault archive.Vault, log *slog.Logger) (Archive, error) {
	u, err := url.Parse(c.Archive)
	if err != nil {
		return Archive{}, fmt.Errorf("read the URL of the archive: %w", err)
	}
	opts := archive.Options{Log: log}
	switch u.Scheme {
	case "file":
		return Archive{archive.New(archive.Folder(filepath.FromSlash(u.Path)), s, vault, opts), func() {}}, nil
	case "s3":
		bucket, err := archive.OpenS3(c.Bucket(u))
		if err != nil {
			return Archive{}, err
		}
		return Archive{archive.New(bucket, s, vault, opts), bucket.Close}, nil
	}
	return Archive{Close: func() {}}, nil
}
