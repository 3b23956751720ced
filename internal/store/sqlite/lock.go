//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse says that another process, or another store of this process, uses the data directory.
var ErrInUse = errors.New("is in use by another process")

// fileLock is the right to be the one process that uses a data directory. The system frees the
// lock when the process ends, in whatever way. The text in the file stays, unless release removes
// it. A text that is left shows the next process that this one ended without closing its store.
type fileLock struct {
	file    *os.File
	unclean bool // whether the process before this one did not release the lock; set by lock
}

// running is the text in the file while a store is open.
const running = "running\n"

// lock takes the directory's lock. It does not wait: if another process, or another store of this
// one, has the lock, the error is ErrInUse.
func lock(dir string) (_ *fileLock, err error) {
	file, err := os.OpenFile(filepath.Join(dir, "postrider.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	// A flock, unlike a POSIX record lock, also excludes a second store in this process, and closing
	// another file of the directory cannot free it by accident.
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("data directory %s %w", dir, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	stat, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteAt([]byte(running), 0); err != nil {
		return nil, err
	}
	return &fileLock{file: file, unclean: stat.Size() > 0}, file.Sync()
}

// release frees the lock. Without clean the text stays, and the next process checks the database.
// It unlocks before it closes the file: a child process that is being started has a copy of the
// open file until it runs its program, and would keep the lock until then.
func (l *fileLock) release(clean bool) error {
	var err error
	if clean {
		err = l.file.Truncate(0)
	}
	return errors.Join(err, unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}

// lockState reports whether a process has the store of dir open, and whether the last process
// that had it open did not release it. It takes a shared lock for a moment. Only a server that
// starts in that moment would be refused.
func lockState(dir string) (inUse, unclean bool, err error) {
	file, err := os.Open(filepath.Join(dir, "postrider.lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		inUse, err = true, nil
	}
	stat, unknown := file.Stat()
	unlocked := unix.Flock(int(file.Fd()), unix.LOCK_UN) // see release for the reason
	if err := errors.Join(err, unknown, unlocked, file.Close()); err != nil {
		return false, false, err
	}
	return inUse, !inUse && stat.Size() > 0, nil
}
