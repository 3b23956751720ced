package app_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

// TestAFullDiskIsWaitedFor fills the disk of a server on SQLite before it starts,
// and while it runs: the server lives, is not ready and says why, refuses
// publishes, and goes on by itself when there is room.
func TestAFullDiskIsWaitedFor(t *testing.T) {
	t.Parallel()
	if _, outside := testkit.Alone(t); outside {
		return
	}
	testkit.NewInternet(t, testkit.Zone{}, nil, nil)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ballast := filepath.Join(disk, "ballast")
	fill := func() {
		t.Helper()
		f, err := os.Create(ballast)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if n, err := io.Copy(f, zeros{}); err == nil {
			t.Fatalf("the disk took %d bytes", n)
		}
	}
	free := func() {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))

	fill()
	r := opening(t, filepath.Join(disk, "data"))
	r.notReady(t, "the store cannot be opened")
	free()
	r.opened(t)
	r.subscribe(t, receiver.URL)
	r.delivers(t)

	fill()
	r.refuses(t)
	r.notReady(t, "the store cannot be written")
	free()
	r.opened(t)
	r.delivers(t)
	testkit.Report(t, nil)
}

// zeros is a reader without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
