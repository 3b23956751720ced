package archive_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// TestAFullDiskIsAnErrorAndKeepsEverything archives to a disk of 64 KiB.
func TestAFullDiskIsAnErrorAndKeepsEverything(t *testing.T) {
	t.Parallel()
	if _, outside := testkit.Alone(t); outside {
		return
	}
	testkit.NewInternet(t, testkit.Zone{}, nil, nil)
	disk := t.TempDir()
	mount := func(size string, flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", disk, "tmpfs", flags, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	mount("8k", 0)
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	w := newWorld(t)
	w.deliver(0, 50)
	w.deliver(1, 50)
	a := w.open(archive.Folder(disk), archive.Options{PartBytes: 1})
	if err := all(t.Context(), a, store.OldEvents); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("archive = %v, want that no space is left", err)
	}
	before := len(w.parts())
	if n := w.forget(store.OldEvents); n != before {
		t.Errorf("%d events were deleted, and %d are archived", n, before)
	}
	mount("16m", syscall.MS_REMOUNT)
	w.archiveAll(a)
	if n := w.forget(store.OldEvents); n != 100-before {
		t.Errorf("%d events were deleted when there was room, want the other %d", n, 100-before)
	}
	testkit.Report(t, nil)
}
