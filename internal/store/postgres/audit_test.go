package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit"
)

func TestAnAuditEntryNeverChanges(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testkit.Postgres(t, Migrate))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `insert into audit (id, action, outcome, name, object, request, details)
		values (gen_random_uuid(), 'pause-endpoint', 'ok', '', '', '', '{}')`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), `update audit set action = 'nothing'`)
	if err == nil || !strings.Contains(err.Error(), "audit entries never change") {
		t.Errorf("an update of the log: %v, want that the trigger refuses it", err)
	}
}
