package sqlstore

import (
	"context"

	"github.com/postrider/postrider"
)

// HeldSQL reads the hold, from a table of one row.
const HeldSQL = `select since, reason from hold`

// Held returns the hold; see [store.Holding].
func (v Verbs) Held(ctx context.Context) (_ postrider.Hold, err error) {
	defer v.calls.Begin("Held").End(&err, "read the hold")
	return v.held(ctx)
}

func (v Verbs) held(ctx context.Context) (postrider.Hold, error) {
	return one(ctx, v.db, Query{SQL: HeldSQL}, func(row Row, h *postrider.Hold) error { return row.Scan(&h.Since, &h.Reason) })
}
