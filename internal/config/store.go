package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/postrider/postrider/internal/secrets"
)

// StoreConfig says where the store and its encryption keys are. Commands that work on the store
// without a server have only these settings.
//
// Without a database URL the store is SQLite in DataDir.
type StoreConfig struct {
	ConfigFile      string `name:"config" setting:"" group:"Store" placeholder:"FILE" help:"YAML file with settings, named like the flags. Flags and the environment override it. Default: none."`
	DataDir         string `name:"data-dir" setting:"" group:"Store" default:"./postrider-data" help:"Folder of the SQLite database, its encryption keys and admin.key."`
	DatabaseURL     string `name:"database-url" setting:"" group:"Store" placeholder:"postgres://…" help:"URL of a PostgreSQL database. A password in the flag is refused; set it in the environment or use --database-url-file. Default: SQLite in --data-dir."`
	DatabaseURLFile string `name:"database-url-file" setting:"" group:"Store" placeholder:"FILE" help:"File with the database URL. Default: none."`
	SecretsKeyFile  string `name:"secrets-key-file" setting:"" group:"Store" placeholder:"FILE" help:"File with the keys that encrypt secrets at rest. Only its owner may have access. Default: secrets.key in the data folder, or with PostgreSQL a key in the database."`
	SecretsKey      string `name:"secrets-key" setting:"" group:"Store" placeholder:"ID:KEY,…" help:"The encryption keys themselves. Set them in the environment or the file of --config; as a flag they are refused."`
}

// Validate returns all faults of the store's settings, joined. It reads the files that the settings
// name, so that a wrong path is found before the start. A password in a flag is a fault, because
// every user of the machine can read it.
func (c StoreConfig) Validate(named func(setting string) string) error {
	return faultsOf(named, c.check)
}

func (c StoreConfig) check(f *faultList) {
	f.refuse(c.DataDir == "", "data-dir", "must be a folder")
	f.refuse(c.SecretsKey != "" && c.SecretsKeyFile != "", "secrets-key-file", "must not be given together with "+f.named("secrets-key"))
	if c.SecretsKey != "" {
		err := c.Keys().Check()
		f.refuse(err != nil, "secrets-key", reasonOf(err))
		f.refuse(f.named("secrets-key") == "--secrets-key", "secrets-key",
			"must not be a flag, which every user of this machine can read; use POSTRIDER_SECRETS_KEY or --secrets-key-file")
	} else if c.SecretsKeyFile != "" {
		err := c.Keys().Check()
		f.refuse(err != nil, "secrets-key-file", "cannot be used: "+reasonOf(err))
	}
	f.refuse(c.DatabaseURL != "" && c.DatabaseURLFile != "", "database-url-file", "must not be given together with "+f.named("database-url"))
	if c.DatabaseURL != "" {
		f.refuse(!isPostgresURL(c.DatabaseURL), "database-url", "must be postgres://user@host:port/database")
		f.refuse(f.named("database-url") == "--database-url" && holdsPassword(c.DatabaseURL), "database-url",
			"must not hold a password, which every user of this machine can read; use POSTRIDER_DATABASE_URL or --database-url-file")
	} else if c.DatabaseURLFile != "" {
		dsn, err := c.DSN()
		f.refuse(err != nil, "database-url-file", "cannot be read: "+reasonOf(err))
		f.refuse(err == nil && !isPostgresURL(dsn), "database-url-file", "must hold postgres://user:password@host:port/database")
	}
}

// DSN returns the database URL, from the setting or from its file. Empty: the store is SQLite. The
// file is read at each call, so that the next try to open the store uses a replaced password.
func (c StoreConfig) DSN() (string, error) {
	return valueOf(c.DatabaseURL, c.DatabaseURLFile, "database URL")
}

// SQLiteDir returns the folder of the SQLite store; empty: the store is PostgreSQL.
func (c StoreConfig) SQLiteDir() string {
	if c.DatabaseURL != "" || c.DatabaseURLFile != "" {
		return ""
	}
	return c.DataDir
}

// Keys returns the location of the encryption keys. The default for SQLite is a file in the data
// folder, which the first start creates. The default for PostgreSQL is the database.
func (c StoreConfig) Keys() secrets.Location {
	l := secrets.Location{
		Text: c.SecretsKey, Name: variable("secrets-key"), File: c.SecretsKeyFile,
		Shared: c.DatabaseURL != "" || c.DatabaseURLFile != "",
	}
	if l.File == "" && !l.Shared {
		l.File, l.Create = filepath.Join(c.DataDir, "secrets.key"), true
	}
	return l
}

// KeyFile returns the path of the file with the first admin key. The file may be missing.
func (c StoreConfig) KeyFile() string { return filepath.Join(c.DataDir, "admin.key") }

// ServerFile returns the path of the file with the URL of the running server. The server writes the
// file when its API serves, and removes the file when it stops.
func (c StoreConfig) ServerFile() string { return filepath.Join(c.DataDir, "server.url") }

// Running returns the URL of the server that runs on the data folder. A server that was killed
// leaves its file behind, so only a request shows whether the server still runs.
func (c StoreConfig) Running() (url string, err error) {
	address, err := os.ReadFile(c.ServerFile())
	if err != nil {
		return "", fmt.Errorf("find the server: %w", err)
	}
	return strings.TrimSpace(string(address)), nil
}

// KeepFile writes one line into a file that only its owner may read. It writes a new file and
// renames it. So a reader sees either the old line or the new line, and an old file with wider
// permissions is replaced.
func KeepFile(path, line string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*") // CreateTemp makes files with 0600
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	defer os.Remove(file.Name()) // does nothing after the rename
	_, err = file.WriteString(line + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", path, err)
	}
	return nil
}

// Settings returns all settings of the store, in the order of the help.
func (c StoreConfig) Settings() []Setting { return settingsOf(reflect.ValueOf(c)) }
