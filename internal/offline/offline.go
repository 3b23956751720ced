// Package offline works on a store without a server: it does the operations of commands on the
// store's machine, and makes the first key of a server.
//
// It promises:
//
//   - An operation opens the store that the settings name, and closes the store at its end.
//     With SQLite the operation fails while a server runs on the store; see
//     [drivers.InUse].
package offline

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/store"
)

// Migrate creates or upgrades the tables of the store. Opening the store does this.
func Migrate(ctx context.Context, c config.StoreConfig) error {
	return drivers.Use(ctx, c, func(store.Store) error { return nil })
}

// Hold holds the store. It is for a PostgreSQL database that an operator has restored, before the
// first server starts on it. It returns the number of deliveries and fan-out jobs that may send an
// event twice after the hold has ended.
func Hold(ctx context.Context, c config.StoreConfig) (apitypes.Hold, error) {
	if err := drivers.MustExist(c); err != nil {
		return apitypes.Hold{}, err
	}
	var hold postrider.Hold
	var work store.HeldWork
	err := drivers.Use(ctx, c, func(s store.Store) (err error) {
		if hold, err = s.PutHold(ctx, postrider.HoldRestored); err != nil {
			return err
		}
		work, err = s.HeldWork(ctx)
		return err
	})
	return apitypes.Hold{
		Held: hold.Held(), Since: &apitypes.Time{Time: hold.Since}, Reason: &hold.Reason, Deliveries: &work.Deliveries, FanOuts: &work.FanOuts,
	}, err
}
