package app_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/backup"
	"github.com/postrider/postrider/internal/config/configtest"
)

// TestTheLastBackupIsAMetric scrapes a server before its first backup, and after it.
func TestTheLastBackupIsAMetric(t *testing.T) {
	t.Parallel()
	const succeeded, failing = `postrider_backup_last_success_timestamp_seconds{kind="copy"}`, `postrider_backup_failing{kind="copy"}`
	dir, begun := t.TempDir(), time.Now().Truncate(time.Second)
	server := start(t, dir)
	eventually(t, "there was never a backup", func() bool { return sample(server.metrics(t), succeeded) == 0 })
	if err := server.stop(); err != nil {
		t.Fatal(err)
	}
	settings, _ := configtest.Parse(t, nil, "--data-dir", dir)
	file := filepath.Join(t.TempDir(), "a.db")
	if b, err := backup.Make(t.Context(), settings.StoreConfig, file); err != nil || b.Unnoted != nil {
		t.Fatal(err, b.Unnoted)
	}
	server = start(t, dir)
	eventually(t, "the backup is known", func() bool {
		at := sample(server.metrics(t), succeeded)
		return at >= float64(begun.Unix()) && at <= float64(time.Now().Unix()+1)
	})
	if _, err := backup.Make(t.Context(), settings.StoreConfig, file); err == nil {
		t.Fatal("a backup has replaced another one")
	}
	eventually(t, "the failure is known", func() bool { return sample(server.metrics(t), failing) == 1 })
}
