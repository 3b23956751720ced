package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/postrider/postrider/internal/api/archives"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/store"
)

// ArchiveConfig says where copies are kept of what retention deletes. Without a URL none are.
type ArchiveConfig struct {
	Archive              string `name:"archive" setting:"" group:"Retention" placeholder:"URL" help:"Where events, attempts and bodies are copied before they are deleted: file:///a/folder or s3://bucket/prefix. What is not copied is then not deleted. Default: none, and nothing is copied."`
	ArchiveEndpoint      string `name:"archive-endpoint" setting:"" group:"Retention" default:"https://s3.amazonaws.com" placeholder:"URL" help:"Server of the bucket of --archive, without a path."`
	ArchiveRegion        string `name:"archive-region" setting:"" group:"Retention" default:"us-east-1" help:"Region of the bucket of --archive."`
	ArchiveAccessKey     string `name:"archive-access-key" setting:"" group:"Retention" placeholder:"KEY" help:"Access key for the bucket of --archive."`
	ArchiveSecretKey     string `name:"archive-secret-key" setting:"" group:"Retention" placeholder:"SECRET" help:"Secret of the access key. Set it in the environment or use --archive-secret-key-file; as a flag it is refused."`
	ArchiveSecretKeyFile string `name:"archive-secret-key-file" setting:"" group:"Retention" placeholder:"FILE" help:"File with the secret of the access key."`
}

// Validate returns every fault of the settings, joined. Named returns how the operator typed a
// setting.
func (c ArchiveConfig) Validate(named func(setting string) string) error {
	var faults []error
	refuse := func(wrong bool, setting, reason string) {
		if wrong {
			faults = append(faults, &Fault{Key: named(setting), Reason: reason})
		}
	}
	refuse(named("archive-secret-key") == "--archive-secret-key" && c.ArchiveSecretKey != "", "archive-secret-key",
		"must not be a flag, which every user of this machine can read; use POSTRIDER_ARCHIVE_SECRET_KEY or --archive-secret-key-file")
	refuse(c.ArchiveSecretKey != "" && c.ArchiveSecretKeyFile != "", "archive-secret-key-file", "must not be given together with "+named("archive-secret-key"))
	secret, err := c.secretKey()
	refuse(err != nil, "archive-secret-key-file", "cannot be read: "+reasonOf(err))
	if c.Archive == "" {
		return errors.Join(faults...)
	}
	u, err := url.Parse(c.Archive)
	isFile := err == nil && u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path)
	isBucket := err == nil && u.Scheme == "s3" && u.Host != ""
	refuse(!isFile && !isBucket || u != nil && (u.RawQuery != "" || u.Fragment != "" || u.User != nil), "archive",
		"must be file:///a/folder or s3://bucket/prefix")
	if !isBucket {
		return errors.Join(faults...)
	}
	endpoint, err := url.Parse(c.ArchiveEndpoint)
	refuse(err != nil || (endpoint.Scheme != "https" && endpoint.Scheme != "http") || endpoint.Host == "" || endpoint.User != nil ||
		strings.Trim(endpoint.Path, "/") != "", "archive-endpoint", "must be a URL like https://s3.example.com, without a path")
	refuse(c.ArchiveRegion == "", "archive-region", "is required with a bucket")
	refuse(c.ArchiveAccessKey == "", "archive-access-key", "is required with a bucket")
	refuse(secret == "" && c.ArchiveSecretKeyFile == "", "archive-secret-key", "is required with a bucket")
	return errors.Join(faults...)
}

// secretKey returns the secret of the access key, from the setting or from its file.
func (c ArchiveConfig) secretKey() (string, error) {
	if c.ArchiveSecretKeyFile == "" {
		return c.ArchiveSecretKey, nil
	}
	text, err := os.ReadFile(c.ArchiveSecretKeyFile)
	if err != nil {
		return "", fmt.Errorf("read secret key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// keptArchive is the archive of a server. The zero one is none.
type keptArchive struct {
	*archive.Archive

	close func()
}

// openArchive returns the archive that the settings name. It makes no request: a server must start
// while its archive is away.
func (c ArchiveConfig) openArchive(s store.Store, vault archive.Vault, log *slog.Logger) (keptArchive, error) {
	u, err := url.Parse(c.Archive)
	if err != nil {
		return keptArchive{}, fmt.Errorf("read the URL of the archive: %w", err)
	}
	opts := archive.Options{Log: log}
	switch u.Scheme {
	case "file":
		return keptArchive{archive.New(archive.Folder(filepath.FromSlash(u.Path)), s, vault, opts), func() {}}, nil
	case "s3":
		bucket, err := archive.OpenS3(c.bucket(u))
		if err != nil {
			return keptArchive{}, err
		}
		return keptArchive{archive.New(bucket, s, vault, opts), bucket.Close}, nil
	}
	return keptArchive{close: func() {}}, nil
}

// bucket returns the bucket of a URL.
func (c ArchiveConfig) bucket(u *url.URL) archive.Bucket {
	secret, _ := c.secretKey() // validate has read it
	return archive.Bucket{
		Name: u.Host, Prefix: strings.Trim(u.Path, "/"), Endpoint: c.ArchiveEndpoint, Region: c.ArchiveRegion,
		AccessKey: c.ArchiveAccessKey, SecretKey: secret,
	}
}

// expunger returns the archive for expunges; nil: there is none.
func (k keptArchive) expunger() expunge.Archive {
	if k.Archive == nil {
		return nil
	}
	return k.Archive
}

// reader returns the archive for the API; nil: there is none.
func (k keptArchive) reader() archives.Archive {
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
