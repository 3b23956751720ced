package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// checkDirectory refuses a directory of a network file system. Open calls it before
// anything is written there.
func checkDirectory(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	if err := CheckFileSystem(int64(stat.Type)); err != nil { //nolint:unconvert // it is 32 bits wide on some machines
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	return nil
}
