package sqlite

import "fmt"

// networked are file systems that belong to other machines, by the type that statfs(2) returns.
// The numbers are those of linux/magic.h, fs/smb and fs/afs.
//
// SQLite's log needs memory that all its users share, and reliable locks. Neither works over a
// network (sqlite.org/wal.html, section 2), and the damage shows only later.
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

// local has the names of file systems that postrider doctor shows: the common ones on disks, and
// some that are on no disk.
var local = map[int64]string{
	0xef53:     "ext4", // also ext2 and ext3
	0x58465342: "xfs",
	0x9123683e: "btrfs",
	0x2fc12fc1: "zfs",
	0xf2f52010: "f2fs",
	0x01021994: "tmpfs",
	0x794c7630: "overlayfs",
	0x65735546: "fuse",
}

// checkDirectory returns an error if the directory is on a network file system. Open calls it
// before it creates any file in the directory.
func checkDirectory(dir string) error {
	kind, err := fileSystemOf(dir)
	if err != nil {
		return err
	}
	if err := CheckFileSystem(kind); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	return nil
}

// CheckFileSystem returns an error if a file system of this statfs(2) type belongs to another
// machine. It allows FUSE, because nothing tells whether a FUSE file system is local.
func CheckFileSystem(kind int64) error {
	// Some architectures have a signed type of 32 bits.
	if name, ok := networked[kind&0xffffffff]; ok {
		return fmt.Errorf("it is on a network file system (%s), which cannot keep a database safe; use a local disk", name)
	}
	return nil
}
