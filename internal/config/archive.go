package config

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/postrider/postrider/internal/archive"
)

// ArchiveConfig says where retention copies rows before it deletes them. Without a URL nothing is
// copied.
type ArchiveConfig struct {
	Archive              string `name:"archive" setting:"" group:"Retention" placeholder:"URL" help:"Where events, attempts and bodies are copied before they are deleted: file:///a/folder or s3://bucket/prefix. What is not copied is then not deleted. Default: none, and nothing is copied."`
	ArchiveEndpoint      string `name:"archive-endpoint" setting:"" group:"Retention" default:"https://s3.amazonaws.com" placeholder:"URL" help:"Server of the bucket of --archive, without a path."`
	ArchiveRegion        string `name:"archive-region" setting:"" group:"Retention" default:"us-east-1" help:"Region of the bucket of --archive."`
	ArchiveAccessKey     string `name:"archive-access-key" setting:"" group:"Retention" placeholder:"KEY" help:"Access key for the bucket of --archive."`
	ArchiveSecretKey     string `name:"archive-secret-key" setting:"" group:"Retention" placeholder:"SECRET" help:"Secret of the access key. Set it in the environment or use --archive-secret-key-file; as a flag it is refused."`
	ArchiveSecretKeyFile string `name:"archive-secret-key-file" setting:"" group:"Retention" placeholder:"FILE" help:"File with the secret of the access key."`
}

// Validate returns all faults of the settings, joined. named returns how the operator typed a
// setting.
func (c ArchiveConfig) Validate(named func(setting string) string) error {
	return faultsOf(named, c.check)
}

func (c ArchiveConfig) check(f *faultList) {
	f.refuseSecret("archive-secret-key", c.ArchiveSecretKey, c.ArchiveSecretKeyFile)
	secret, err := c.secretKey()
	f.refuse(err != nil, "archive-secret-key-file", "cannot be read: "+reasonOf(err))
	if c.Archive == "" {
		return
	}
	u, err := url.Parse(c.Archive)
	isFile := err == nil && u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path)
	isBucket := err == nil && u.Scheme == "s3" && u.Host != ""
	f.refuse(!isFile && !isBucket || u != nil && (u.RawQuery != "" || u.Fragment != "" || u.User != nil), "archive",
		"must be file:///a/folder or s3://bucket/prefix")
	if !isBucket {
		return
	}
	endpoint, err := url.Parse(c.ArchiveEndpoint)
	f.refuse(err != nil || (endpoint.Scheme != "https" && endpoint.Scheme != "http") || endpoint.Host == "" || endpoint.User != nil ||
		strings.Trim(endpoint.Path, "/") != "", "archive-endpoint", "must be a URL like https://s3.example.com, without a path")
	f.refuse(c.ArchiveRegion == "", "archive-region", "is required with a bucket")
	f.refuse(c.ArchiveAccessKey == "", "archive-access-key", "is required with a bucket")
	f.refuse(secret == "" && c.ArchiveSecretKeyFile == "", "archive-secret-key", "is required with a bucket")
}

// secretKey returns the secret of the access key, from the setting or from its file.
func (c ArchiveConfig) secretKey() (string, error) {
	return valueOf(c.ArchiveSecretKey, c.ArchiveSecretKeyFile, "secret key")
}

// Place returns the folder or the bucket of the archive. Both are empty if there is no archive.
func (c ArchiveConfig) Place() (folder string, bucket archive.Bucket) {
	u, err := url.Parse(c.Archive)
	switch {
	case err != nil || c.Archive == "": // check has refused a text that is no URL
		return "", archive.Bucket{}
	case u.Scheme == "file":
		return filepath.FromSlash(u.Path), archive.Bucket{}
	}
	secret, _ := c.secretKey() // check has read the secret
	return "", archive.Bucket{
		Name: u.Host, Prefix: strings.Trim(u.Path, "/"), Endpoint: c.ArchiveEndpoint, Region: c.ArchiveRegion,
		AccessKey: c.ArchiveAccessKey, SecretKey: secret,
	}
}
