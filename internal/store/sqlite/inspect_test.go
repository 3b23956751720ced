package sqlite_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/store/sqlite"
)

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind    int64
		refused bool
	}{
		"nfs":                   {0x6969, true},
		"smb":                   {0x517b, true},
		"cifs":                  {0xff534d42, true},
		"cifs in 32 bits":       {-0xacb2be, true},
		"smb2":                  {0xfe534d42, true},
		"9p":                    {0x01021997, true},
		"ceph":                  {0x00c36400, true},
		"afs":                   {0x5346414f, true},
		"kafs":                  {0x6b414653, true},
		"ext4":                  {0xef53, false},
		"xfs":                   {0x58465342, false},
		"btrfs":                 {0x9123683e, false},
		"tmpfs":                 {0x01021994, false},
		"overlayfs":             {0x794c7630, false},
		"zfs":                   {0x2fc12fc1, false},
		"fuse, local or remote": {0x65735546, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := sqlite.CheckFileSystem(tt.kind); (err != nil) != tt.refused {
				t.Errorf("CheckFileSystem(%#x) = %v, want an error: %t", tt.kind, err, tt.refused)
			}
		})
	}
}

func TestOldVersionsAreRefused(t *testing.T) {
	t.Parallel()
	for version, refused := range map[string]bool{
		"3.51.3": false, "3.51.4": false, "3.51.10": false, "3.52.0": false, "3.53.4": false, "4.0.0": false,
		"3.51.2": true, "3.51.0": true, "3.50.9": true, "3.9.0": true, "2.99.99": true, "3.51": true, "": true, "new": true,
	} {
		if err := sqlite.CheckVersion(version); (err != nil) != refused {
			t.Errorf("CheckVersion(%q) = %v, want an error: %t", version, err, refused)
		}
	}
}

func TestOnlyTheOwnerReadsTheFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "data")
	open(t, dir, sqlite.Options{})
	for name, want := range map[string]os.FileMode{
		".": 0o700, "postrider.db": 0o600, "postrider.db-wal": 0o600, "postrider.lock": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestOptionsNowIsTheClock(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	s := open(t, t.TempDir(), sqlite.Options{Now: func() time.Time { return noon }})
	got, err := s.Now(t.Context())
	if want := noon.UTC().Truncate(time.Microsecond); err != nil || got != want {
		t.Errorf("Now = %v, %v; want %v", got, err, want)
	}
}
