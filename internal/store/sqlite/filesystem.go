package sqlite

import "fmt"

// networked are the file systems of other machines, by the type that statfs(2) returns.
// The numbers are those of linux/magic.h, fs/smb and fs/afs.
//
// SQLite's log needs memory that all its users share and locks that hold. Neither works
// over a network (sqlite.org/wal.html, 2), and the damage shows only later.
var networked = map[int64]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x01021997: "9p",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x6b414653: "kAFS",
	0x73757245: "Coda",
	0x564c:     "NCP",
}

// CheckFileSystem returns an error for the statfs(2) type of a file system
// that belongs to another machine. FUSE is allowed: whether it is local cannot
// be told.
func CheckFileSystem(kind int64) error {
	// Some architectures have a signed 32-bit type.
	if name, ok := networked[kind&0xffffffff]; ok {
		return fmt.Errorf("it is on a network file system (%s), which cannot keep a database safe; use a local disk", name)
	}
	return nil
}
