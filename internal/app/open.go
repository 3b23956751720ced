package app

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/drivers"
)

// How long a start that waits for its store rests between two tries: as long as
// it has waited, within these bounds.
const (
	// Bounds of the pause between two tries to open the store. The pause doubles
	// from the least to the most.
	openAgainLeast = 250 * time.Millisecond
	openAgainMost  = 2 * time.Second
	// openLogged is the interval at which the same reason is logged again.
	openLogged = 30 * time.Second
)

// openWhenItCan opens the store. While opening fails for a temporary reason, it
// tries again, and gives the reason to the log and to /readyz. It returns nil, too,
// when ctx ends first; the caller must look at ctx.
//
// A server that is started together with its database would otherwise end and
// depend on its supervisor for a restart.
func (a *App) openWhenItCan(ctx context.Context) error {
	var logged time.Time
	var reason string
	for rest := openAgainLeast; ; rest = min(2*rest, openAgainMost) {
		err := a.open(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it is that of a start that is not wanted any more
		case !drivers.Temporary(a.config.StoreConfig, err):
			return err
		}
		a.readiness.wait(err)
		if text := err.Error(); text != reason || time.Since(logged) > openLogged {
			a.log.WarnContext(ctx, "the store cannot be opened yet, trying again", "error", err)
			logged, reason = time.Now(), text
		}
		if !batch.Sleep(ctx, rest) {
			return nil
		}
	}
}
