package doctor_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/doctor"
)

// folder returns a data folder for which every check is ok.
func folder() doctor.SQLite {
	return doctor.SQLite{
		Folder: "/data", Exists: true, Disk: "/data", Mode: fs.ModeDir | 0o700, System: "ext4", HasStore: true, Bytes: 3 << 30,
		Sync:    doctor.Latency{Median: time.Millisecond, Longest: 5 * time.Millisecond},
		Journal: "wal", Vacuum: "incremental", Tables: doctor.Migrations{Has: 1, Knows: 1}, Checked: true, Took: 3 * time.Second,
	}
}

func TestAHealthyFolderHasNoFindings(t *testing.T) {
	t.Parallel()
	for _, s := range []doctor.SQLite{folder(), {Folder: "/new", Disk: "/", System: "xfs"}} {
		for _, c := range s.Checks() {
			if c.Status != doctor.OK {
				t.Errorf("%s is %s: %s", c.Name, c.Status, c.Found)
			}
		}
	}
}

func TestFolders(t *testing.T) {
	t.Parallel()
	denied := errors.New("permission denied")
	for name, tt := range map[string]struct {
		change func(*doctor.SQLite)
		check  doctor.Name
		want   judged
	}{
		"full": {
			func(s *doctor.SQLite) { s.Unusable = fmt.Errorf("write: %w", syscall.ENOSPC) }, doctor.Folder,
			judged{doctor.Fail, "no space", "free space"},
		},
		"not writable": {
			func(s *doctor.SQLite) { s.Unusable = denied }, doctor.Folder,
			judged{doctor.Fail, "cannot be written", "chown -R USER /data"},
		},
		"not makeable": {
			func(s *doctor.SQLite) { s.Exists, s.Unusable = false, denied }, doctor.Folder,
			judged{doctor.Fail, "cannot be made", "--data-dir"},
		},
		"new": {func(s *doctor.SQLite) { s.Exists = false }, doctor.Folder, judged{doctor.OK, "does not exist yet", ""}},
		"foreign files": {
			func(s *doctor.SQLite) { s.Foreign = []string{"/data/postrider.db"} }, doctor.FileModes,
			judged{doctor.Fail, "/data/postrider.db", "same user"},
		},
		"an open folder": {
			func(s *doctor.SQLite) { s.Mode = fs.ModeDir | 0o755 }, doctor.FileModes,
			judged{doctor.Warn, "mode 0755", "chmod 700 /data"},
		},
		"an open file": {
			func(s *doctor.SQLite) { s.Open = []string{"/data/secrets.key"} }, doctor.FileModes,
			judged{doctor.Warn, "secrets.key", "chmod -R go="},
		},
		"another machine": {
			func(s *doctor.SQLite) { s.Remote = errors.New("it is on NFS") }, doctor.FileSystem,
			judged{doctor.Fail, "NFS", "local disk"},
		},
		"memory":        {func(s *doctor.SQLite) { s.System = "tmpfs" }, doctor.FileSystem, judged{doctor.Warn, "memory", "volume"}},
		"a container":   {func(s *doctor.SQLite) { s.System = "overlayfs" }, doctor.FileSystem, judged{doctor.Warn, "container", "volume"}},
		"perhaps local": {func(s *doctor.SQLite) { s.System = "fuse" }, doctor.FileSystem, judged{doctor.Warn, "fuse", "local"}},
		"unknown":       {func(s *doctor.SQLite) { s.System = "" }, doctor.FileSystem, judged{doctor.OK, "network", ""}},
		"a slow disk": {
			func(s *doctor.SQLite) { s.Sync.Median = 50 * time.Millisecond }, doctor.SyncLatency,
			judged{doctor.Warn, "50ms", "faster disk"},
		},
		"a server runs":   {func(s *doctor.SQLite) { s.InUse = true }, doctor.InUse, judged{doctor.OK, "a server runs", ""}},
		"a killed server": {func(s *doctor.SQLite) { s.Unclean = true }, doctor.InUse, judged{doctor.OK, "did not close", ""}},
		"unreadable":      {func(s *doctor.SQLite) { s.Unread = denied }, doctor.Integrity, judged{doctor.Fail, "permission", "backup"}},
		"a log to read": {
			func(s *doctor.SQLite) { s.Unread, s.Unclean = denied, true }, doctor.Integrity,
			judged{doctor.Warn, "unclean stop", "postrider serve"},
		},
		"another journal": {
			func(s *doctor.SQLite) { s.Journal = "a rollback journal" }, doctor.JournalMode,
			judged{doctor.Warn, "instead of wal", "postrider serve"},
		},
		"a clock set back": {
			func(s *doctor.SQLite) { s.Ahead = time.Hour }, doctor.SQLiteClock,
			judged{doctor.Warn, "1h0m0s in the future", "NTP"},
		},
		"no vacuum": {
			func(s *doctor.SQLite) { s.Vacuum = "none" }, doctor.AutoVacuum,
			judged{doctor.Warn, "does not shrink", "auto_vacuum=incremental"},
		},
		"damage":          {func(s *doctor.SQLite) { s.Damage = "page 7" }, doctor.Integrity, judged{doctor.Fail, "page 7", "backup"}},
		"a large file":    {func(s *doctor.SQLite) { s.Checked = false }, doctor.Integrity, judged{doctor.OK, "check of 3 GB did not end", ""}},
		"a newer program": {func(s *doctor.SQLite) { s.Tables.Has = 2 }, doctor.SQLiteTables, judged{doctor.Fail, "newer Postrider", "install"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := folder()
			tt.change(&s)
			expect(t, pick(t, s.Checks(), tt.check), tt.want)
		})
	}
}

func TestKeyrings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keys doctor.Keyring
		want judged
	}{
		"they decrypt": {
			doctor.Keyring{Where: "/k", Keys: 2, Values: 7},
			judged{doctor.OK, "2 keys in /k; 7 encrypted values decrypted", ""},
		},
		"none yet": {doctor.Keyring{Where: "/k"}, judged{doctor.OK, "no keys in /k yet", ""}},
		"they cannot be read": {
			doctor.Keyring{Err: errors.New("/k: cut")},
			judged{doctor.Fail, "/k: cut", "restore the key file from its copy"},
		},
		"others may read them": {
			doctor.Keyring{Where: "/k", Exposed: true, Err: errors.New("/k may be read by others")},
			judged{doctor.Fail, "by others", "chmod 600 /k"},
		},
		"damaged values": {doctor.Keyring{Keys: 1, Values: 7, Unreadable: 2}, judged{doctor.Fail, "2 of 7", "endpoints rotate"}},
		"unknown values": {doctor.Keyring{Keys: 1, Unchecked: errors.New("locked")}, judged{doctor.Warn, "locked", "again"}},
		"beside the values": {
			doctor.Keyring{Keys: 1, Values: 7, InDatabase: true},
			judged{doctor.Warn, "1 key in the database, beside 7 encrypted values", "export-keys"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, tt.keys.Check(), tt.want)
		})
	}
}
