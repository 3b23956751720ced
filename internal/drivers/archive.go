package drivers

import (
	"log/slog"

	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/store"
)

// Archive is the archive of a store. The zero value means that there is no archive.
type Archive struct {
	*archive.Archive

	Close func()
}

// OpenArchive returns the archive that the settings name. It makes no request, because a server
// must also start while its archive cannot be reached.
func OpenArchive(c config.ArchiveConfig, s store.Store, vault archive.Vault, log *slog.Logger) (Archive, error) {
	opts, roles := archive.Options{Log: log}, archive.Store{Archive: s, ArchiveKeys: s, Restored: s, Time: s, Progress: s}
	switch folder, bucket := c.Place(); {
	case folder != "":
		return Archive{archive.New(archive.Folder(folder), roles, vault, opts), func() {}}, nil
	case bucket.Name != "":
		opened, err := archive.OpenS3(bucket)
		if err != nil {
			return Archive{}, err
		}
		return Archive{archive.New(opened, roles, vault, opts), opened.Close}, nil
	}
	return Archive{Close: func() {}}, nil
}
