package app

import (
	"context"
	"time"
)

// How long a start that waits for its store rests between two tries: as long as
// it has waited, within these bounds.
const (
	openAgainLeast = 250 * time.Millisecond
	openAgainMost  = 2 * time.Second
	// openLogged is how often the same reason is logged.
	openLogged = 30 * time.Second
)

// openWhenItCan opens the store. While that fails for a reason that may pass, it
// tries again, and says why to the log and to /readyz. It returns nil when ctx
// ends first.
func (a *App) openWhenItCan(ctx context.Context) error {
	var told time.Time
	var reason string
	for rest := openAgainLeast; ; rest = min(2*rest, openAgainMost) {
		err := a.open(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it is that of a start that is not wanted any more
		case !a.config.mayPass(err):
			return err
		}
		a.readiness.wait(err)
		if text := err.Error(); text != reason || time.Since(told) > openLogged {
			a.log.WarnContext(ctx, "the store cannot be opened yet, trying again", "error", err)
			told, reason = time.Now(), text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
	}
}
