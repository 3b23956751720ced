package offline

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/archives"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

// ArchiveReader reads the archive of a store for a command.
type ArchiveReader struct{ archive drivers.Archive }

// errNoArchive is the error of a command that needs the setting of the archive.
var errNoArchive = errors.New("there is no archive: name it with --archive, as the server has it")

// ReadArchive opens the store and the archive that the settings name, and calls do with a reader of
// the archive.
func ReadArchive(ctx context.Context, c config.StoreConfig, at config.ArchiveConfig, do func(*ArchiveReader) error) error {
	if at.Archive == "" {
		return errNoArchive
	}
	if err := drivers.MustExist(c); err != nil {
		return err
	}
	return drivers.Use(ctx, c, func(s store.Store) error {
		log := slog.New(slog.DiscardHandler)
		keys, err := secrets.Open(ctx, c.Keys(), s, log)
		if err != nil {
			return err
		}
		kept, err := drivers.OpenArchive(at, s, keys.Vault, log)
		if err != nil {
			return err
		}
		defer kept.Close()
		return do(&ArchiveReader{kept})
	})
}

// ArchiveFilter selects records or parts of the archive. A zero field does not filter. From and To
// are days. They are compared with the ids of events, or with the ids of the deliveries of attempts
// and bodies.
type ArchiveFilter struct {
	Account  postrider.AccountID
	Event    postrider.EventID
	Endpoint postrider.EndpointID
	Type     string
	From, To time.Time
}

// Parts calls do for each part in the days of the filter. With verify, it first reads the part and
// compares it with its checksum. A damaged part is not an error: its Verification has a Fault.
func (r *ArchiveReader) Parts(ctx context.Context, f ArchiveFilter, verify bool, do func(apitypes.ArchivePart) error) error {
	const page = 100
	for q := (store.ArchiveParts{From: f.From, To: f.To, Limit: page}); ; {
		parts, err := r.archive.Parts(ctx, q)
		if err != nil {
			return err
		}
		for _, p := range parts {
			shown := archives.ViewPart(p)
			if verify {
				found, err := r.archive.Verify(ctx, p)
				shown.Verification = archives.ViewVerified(found, err)
			}
			if err := errors.Join(ctx.Err(), do(shown)); err != nil {
				return err
			}
		}
		if len(parts) < page {
			return nil
		}
		q.After = parts[len(parts)-1]
	}
}

// ArchiveSearch has the numbers of a search.
type ArchiveSearch struct {
	Records  int   // found records
	Parts    int   // parts that were read
	Expunged int64 // records of these parts that were expunged, so that nobody can read them
}

// Search calls do with the JSON of each record that the filter selects.
func (r *ArchiveReader) Search(
	ctx context.Context, f ArchiveFilter, do func(kind string, record []byte) error,
) (sum ArchiveSearch, err error) {
	q := archive.Query{
		Account: f.Account, Event: f.Event, Endpoint: f.Endpoint, Type: f.Type, From: f.From, To: f.To, Limit: store.MaxLimit,
	}
	for {
		found, err := r.archive.Search(ctx, q)
		if err != nil {
			return sum, err
		}
		sum.Records, sum.Parts, sum.Expunged = sum.Records+len(found.Records), sum.Parts+found.Parts, sum.Expunged+found.Expunged
		for _, record := range found.Records {
			if err := do(string(record.Kind), record.Record); err != nil {
				return sum, err
			}
		}
		if q.Cursor = found.Next; q.Cursor == "" {
			return sum, nil
		}
	}
}
