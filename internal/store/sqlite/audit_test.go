package sqlite

import (
	"context"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

func TestAnAuditEntryNeverChanges(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AppendAudit(t.Context(), postrider.AuditEntry{ID: postrider.AuditID{1}, Action: "pause-endpoint"}); err != nil {
		t.Fatal(err)
	}
	err = change(t.Context(), s, func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, `update audit set action = 'nothing'`)
	})
	if err == nil || !strings.Contains(err.Error(), "audit entries never change") {
		t.Errorf("an update of the log: %v, want that the trigger refuses it", err)
	}
}
