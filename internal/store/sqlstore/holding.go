package sqlstore

import (
	"context"

	"github.com/postrider/postrider"
)

// HeldSQL reads the hold: one row.
const HeldSQL = `select since, reason from hold`

// Held returns the hold; see [store.Holding].
func (v Verbs) Held(ctx context.Context) (postrider.Hold, error) {
	hold, err := one(ctx, v.db, Query{SQL: HeldSQL}, func(row Row, h *postrider.Hold) error { return row.Scan(&h.Since, &h.Reason) })
	return hold, doing(err, "read the hold")
}
