package facts

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/secrets"
)

// sourcePatience is the time limit for one source.
const sourcePatience = 3 * time.Second

// examineSources checks the database of each source. A store without tables, or one that cannot be read, has
// no checks here; others report it.
func (c setup) examineSources(ctx context.Context, version int64, values sealed) (checks []doctor.Check) {
	if values.err != nil || version == 0 {
		return nil
	}
	from, err := values.open()
	if err != nil {
		return nil
	}
	defer from.Close()
	sources, err := from.Sources(ctx)
	if err != nil {
		return one(doctor.Failure(doctor.SourceConnect, "the sources of the store cannot be read: %s", err).Change("see database.migrations"))
	}
	for _, s := range sources {
		found := doctor.Source{Name: s.Name, Database: s.URL, Paused: s.Paused, Own: s.Table != nil}
		found.Err = c.examineSource(ctx, from, s, &found)
		checks = append(checks, found.Checks()...)
	}
	return checks
}

// examineSource asks the database of a source, as a server would.
func (c setup) examineSource(ctx context.Context, keys secrets.Reader, s postrider.Source, found *doctor.Source) error {
	ctx, cancel := context.WithTimeout(ctx, sourcePatience)
	defer cancel()
	vault, err := secrets.ForReading(ctx, c.Keys(), keys)
	if err != nil {
		return err
	}
	password, err := vault.DecryptSource(ctx, s)
	if err != nil {
		return err
	}
	db, err := outbox.Open(ctx, outbox.Config{
		URL: s.URL, Password: password, CA: s.CA, Table: s.Table, Source: s.ID, Dial: egress.SourceDialer(c.SourceNetworks()),
	})
	if err != nil {
		return err
	}
	defer db.Close()
	stats, err := db.Stats(ctx)
	found.Version, found.Waiting, found.AsyncReplicas = stats.Version, stats.Waiting, stats.AsyncReplicas
	found.Lag, found.Open = age(stats.Oldest), age(stats.OpenSince)
	return err
}

// age returns the time since at; 0: at is zero.
func age(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return time.Since(at)
}
