package app

import (
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/store"
)

// keptArchive is the archive of a server. The zero one is none.
type keptArchive struct {
	*archive.Archive

	close func()
}

// openArchive returns the archive that the settings name. It makes no request: a server must start
// while its archive is away.
func openArchive(c config.ArchiveConfig, s store.Store, vault archive.Vault, log *slog.Logger) (keptArchive, error) {
	u, err := url.Parse(c.Archive)
	if err != nil {
		return keptArchive{}, fmt.Errorf("read the URL of the archive: %w", err)
	}
	opts := archive.Options{Log: log}
	switch u.Scheme {
	case "file":
		return keptArchive{archive.New(archive.Folder(filepath.FromSlash(u.Path)), s, vault, opts), func() {}}, nil
	case "s3":
		bucket, err := archive.OpenS3(c.Bucket(u))
		if err != nil {
			return keptArchive{}, err
		}
		return keptArchive{archive.New(bucket, s, vault, opts), bucket.Close}, nil
	}
	return keptArchive{close: func() {}}, nil
}

// expunger returns the archive for expunges; nil: there is none.
func (k keptArchive) expunger() expunge.Archive {
	if k.Archive == nil {
		return nil
	}
	return k.Archive
}

// reader returns the archive for the API; nil: there is none.
func (k keptArchive) reader() api.Archive {
	if k.Archive == nil {
		return nil
	}
	return k.Archive
}

// janitor returns the archive for the janitor; nil: there is none.
func (k keptArchive) janitor() janitor.Archive {
	if k.Archive == nil {
		return nil
	}
	return k.Archive
}
