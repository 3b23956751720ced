package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystemOf returns the statfs(2) type of the file system of a directory.
func fileSystemOf(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	return int64(stat.Type), nil //nolint:unconvert // the type has 32 bits on some machines
}
