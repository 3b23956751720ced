package app_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/apitypes"
)

// TestAnAccountIsExpungedFromItsOutbox expunges an account that has rows of each kind in the outbox of a producer, by its id and
// by its uid. Rows of another account stay.
func TestAnAccountIsExpungedFromItsOutbox(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	r := start(t, t.TempDir())
	acme, err := r.api.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme"})
	s.ok(err)
	_, err = r.api.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: s.url}, false)
	s.ok(err)
	s.exec(fmt.Sprintf(order, 1))
	eventually(t, "the row is read", func() bool { // the first cycle is the beginning of the session
		source, err := r.api.Source(t.Context(), "shop")
		return err == nil && source.State.Cycle > 1
	})
	_, err = r.api.PauseSource(t.Context(), "shop")
	s.ok(err)
	for _, name := range []string{"acme", acme.ID.String(), "globex"} {
		s.exec(fmt.Sprintf(`select postrider.publish(account => '%s', type => 'order.created', data => '{"n": 2}')`, name))
		s.exec(fmt.Sprintf(`select postrider.publish(account => '%s', type => 'no type', data => '{"n": 3}', on_error => 'reject')`, name))
	}

	begun, err := r.api.CreateExpunge(t.Context(), apitypes.ExpungeCreate{Account: "acme"})
	s.ok(err)
	eventually(t, "the rows are removed", func() bool {
		e, err := r.api.Expunge(t.Context(), begun.ID)
		return err == nil && e.OutboxRows == 5 && e.OutboxError == nil
	})
	var left int
	s.with(func(conn *pgx.Conn) error {
		return conn.QueryRow(t.Context(), `
			select (select count(*) from postrider.outbox) + (select count(*) from postrider.outbox_read) + (select count(*) from postrider.outbox_rejected)`,
		).Scan(&left)
	})
	if left != 2 {
		t.Errorf("%d rows are left, want the 2 of the other account", left)
	}
}
