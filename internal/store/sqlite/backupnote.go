package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// LastBackup says how the last backups of a store by [Copy] ended. It is a file beside the store,
// because a running server has the store open, and no other process may write to it.
type LastBackup struct {
	SucceededAt time.Time `json:"succeeded_at,omitzero"` // end of the last verified backup; zero: there was none
	Bytes       int64     `json:"bytes,omitempty"`       // size of that backup
	SHA256      string    `json:"sha256,omitempty"`      // SHA-256 of that backup, in hexadecimal
	FailedAt    time.Time `json:"failed_at,omitzero"`    // end of the last backup that failed; zero: there was none
	Error       string    `json:"error,omitempty"`       // error of that backup
}

// Failing reports whether the last backup failed.
func (l LastBackup) Failing() bool { return l.FailedAt.After(l.SucceededAt) }

func lastBackupFile(dir string) string { return filepath.Join(dir, "postrider.backup") }

// ReadLastBackup reads how the last backups of the store in a directory ended. Without a note the
// result is zero.
func ReadLastBackup(dir string) (l LastBackup, err error) {
	text, err := os.ReadFile(lastBackupFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		return l, fmt.Errorf("read when the last backup was made: %w", err)
	}
	return l, nil
}

// noteBackup notes how a backup ended. The parameter failed is the error of the backup, or nil.
func noteBackup(dir string, b Backup, failed error) error {
	l, err := ReadLastBackup(dir)
	if err != nil {
		l = LastBackup{} // a note that cannot be read is replaced
	}
	if failed == nil {
		l.SucceededAt, l.Bytes, l.SHA256 = time.Now().UTC(), b.Bytes, b.SHA256
	} else {
		l.FailedAt, l.Error = time.Now().UTC(), failed.Error()
	}
	text, err := json.Marshal(l)
	if err == nil {
		err = replaceFile(lastBackupFile(dir), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("note when the backup was made: %w", err)
	}
	return nil
}

// replaceFile replaces a file as a whole. If root writes it, the owner of the folder becomes its
// owner, because the server must be able to read it.
func replaceFile(name string, content []byte) error {
	part, err := os.CreateTemp(filepath.Dir(name), ".postrider-backup-note-*") // its mode is 0600
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(content)
	if folder, statErr := os.Stat(filepath.Dir(name)); statErr == nil && os.Geteuid() == 0 {
		if owner, ok := folder.Sys().(*syscall.Stat_t); ok {
			err = errors.Join(err, part.Chown(int(owner.Uid), int(owner.Gid)))
		}
	}
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), name)
}
