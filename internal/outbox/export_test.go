package outbox

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// InstallSteps installs the versions that the steps make.
func InstallSteps(ctx context.Context, c Config, more ...string) error {
	return c.run(ctx, "install the outbox", func(*pgx.Conn) (string, error) {
		return script(slices.Concat(steps, more), ""), nil
	})
}

// Args returns the arguments with which the next Poll calls the function of the database.
func (w *Window) Args(n int) []any { return []any{w.seen, w.last, w.until, n, pageBytes} }
