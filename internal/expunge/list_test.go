package expunge

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/postrider/postrider"
)

func TestTheFolderOfANewListIsSynced(t *testing.T) { //nolint:paralleltest // it replaces syncFolder
	var synced []string
	was := syncFolder
	syncFolder = func(folder string) error {
		if _, err := os.Stat(filepath.Join(folder, "list")); err != nil {
			t.Errorf("the folder is synced before the list is there: %v", err)
		}
		synced = append(synced, folder)
		return was(folder)
	}
	defer func() { syncFolder = was }()
	dir := t.TempDir()
	for range 2 {
		if err := appendTo(filepath.Join(dir, "list"), line{ID: postrider.ExpungeID{1}, Account: postrider.AccountID{2}}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Contains(synced, dir) {
		t.Errorf("synced folders: %v, want %s", synced, dir)
	}
}
