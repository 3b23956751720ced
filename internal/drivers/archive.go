package drivers

import (
	"log/slog"

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
	opts := archive.Options{Log: log}
	switch folder, bucket := c.Place(); {
	case folder != "":
		return Archive{archive.New(archive.Folder(folder), s, vault, opts), func() {}}, nil
	case bucket.Name != "":
		opened, err := archive.OpenS3(bucket)
		if err != nil {
			return Archive{}, err
		}
		return Archive{archive.New(opened, s, vault, opts), opened.Close}, nil
	}
	return Archive{Close: func() {}}, nil
}
