package app_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/offline"
	"github.com/postrider/postrider/internal/secrets"
)

// TestARotatedKeyFileKeepsItsOwner checks that an administrator who rotates the key does not lock
// the server out. If the test runs as root, it gives the key file to another user before the
// rotation.
func TestARotatedKeyFileKeepsItsOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := start(t, dir).stop(); err != nil {
		t.Fatal(err)
	}
	file, uid := filepath.Join(dir, "secrets.key"), os.Geteuid()
	if uid == 0 {
		if uid = 65534; os.Chown(file, uid, uid) != nil {
			t.Fatal("root may not give the file away")
		}
	}
	if _, err := offline.RotateKey(t.Context(), storeAt(t, nil, "--data-dir", dir).StoreConfig, secrets.Rotation{}); err != nil {
		t.Fatal(err)
	}
	if n := len(keyringOf(t, file).IDs()); n != 2 {
		t.Errorf("the keyring has %d keys, want 2", n)
	}
	stat, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if owner, ok := stat.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != uid {
		t.Errorf("the file's owner is %d, want %d", owner.Uid, uid)
	}
}
