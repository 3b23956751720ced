//go:build !linux

package sqlite

// checkDirectory accepts every directory: elsewhere the types of file systems
// have no numbers that stay the same.
func checkDirectory(string) error { return nil }
