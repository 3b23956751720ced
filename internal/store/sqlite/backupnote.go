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

// LastBackup says how the last backups of a store by [Copy] ended. It is a file beside the
// store: a server that runs has the store open, and nobody else may write to it.
type LastBackup struct {
	SucceededAt time.Time `json:"succeeded_at,omitzero"` // end of the last one that was verified; zero: none
	Bytes       int64     `json:"bytes,omitempty"`       // of that one
	SHA256      string    `json:"sha256,omitempty"`      // of that one, in hexadecimal
	FailedAt    time.Time `json:"failed_at,omitzero"`    // end of the last one that failed; zero: none
	Error       string    `json:"error,omitempty"`       // of that one
}

// Failing reports whether the last backup failed.
func (l LastBackup) Failing() bool { return l.FailedAt.After(l.SucceededAt) }

func lastBackupFile(dir string) string { return filepath.Join(dir, "postrider.backup") }

// ReadLastBackup reads how the last backups of the store in a directory ended.
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

// noteBackup notes how a backup ended: with the error failed, or nil.
func noteBackup(dir string, b Backup, failed error) error {
	l, err := ReadLastBackup(dir)
	if err != nil {
		l = LastBackup{} // what cannot be read is replaced
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

// replaceFile replaces a file whole. Its owner becomes that of the folder, if root writes it:
// the server must be able to read it.
func replaceFile(name string, content []byte) error {
	part, err := os.CreateTemp(filepath.Dir(name), ".postrider-backup-note-*") // with mode 0600
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
