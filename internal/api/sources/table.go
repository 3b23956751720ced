package sources

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/outbox"
)

// ownRows is how many rows of a table of the producer's own are looked at for rejected ones. Rejected rows are older
// than those that wait, so they are at its start.
const ownRows = 500

// maxName is the greatest length of a name in PostgreSQL, in bytes.
const maxName = 63

// checkTable returns the faults of a mapping that can be seen without the database. keep says whether the
// request has keep_hours.
func (s *Routes) checkTable(ctx context.Context, t apitypes.SourceTable, keep bool) error {
	var faults []error
	schema, name, _ := strings.Cut(t.Name, ".")
	if schema == "" || name == "" || strings.Contains(name, ".") || !postrider.IsText(t.Name) || max(len(schema), len(name)) > maxName {
		faults = append(faults, rest.Invalid("table.name", postrider.FaultMalformed, "must be schema and table, like public.outbox"))
	}
	for _, column := range []struct {
		field, name string
		required    bool
	}{
		{"id", t.ID, true},
		{"order", t.Order, false},
		{"account", t.Account, false},
		{"type", t.Type, true},
		{"data", t.Data, true},
		{"ordering_key", t.OrderingKey, false},
	} {
		if column.required && column.name == "" || !postrider.IsText(column.name) || len(column.name) > maxName {
			faults = append(faults, rest.Invalid("table."+column.field, postrider.FaultMalformed, "must be the name of a column"))
		}
	}
	switch {
	case (t.Account == "") == (t.FixedAccount == ""):
		faults = append(faults, rest.Invalid("table.account", postrider.FaultContradictory, "must be there, or else a fixed account, not both"))
	case t.FixedAccount != "":
		_, err := s.Names.ResolveLiveAccount(ctx, "table.fixed_account", t.FixedAccount)
		faults = append(faults, err)
	}
	if keep {
		faults = append(faults, rest.Invalid("keep_hours", postrider.FaultContradictory, "must not be there with table, which keeps no rows"))
	}
	return errors.Join(faults...)
}

// refused returns rows at the start of a table of the producer's own that cannot be published as they are, of an
// account and with a code if these are set. The table has no place for the reasons, so the rows are converted again.
func (s *Routes) refused(ctx context.Context, db *outbox.DB, which outbox.RejectedRows) (refused []outbox.RejectedRow, err error) {
	rows, err := db.Head(ctx, ownRows)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Wall()
	for _, row := range rows {
		fault := row.Fault
		if fault == nil {
			if _, fault = s.Convert(ctx, &row.Create); fault != nil && !outbox.IsFault(fault) {
				return nil, fault
			}
		}
		if fault == nil {
			continue
		}
		r := outbox.Refuse(row, fault)
		if (which.IDs == nil || slices.Contains(which.IDs, row.ID)) && (which.Account == "" || which.Account == row.Create.Account) &&
			(which.Code == "" || which.Code == r.Code) {
			refused = append(refused, outbox.RejectedRow{Row: row, RejectedAt: now, Code: r.Code, Field: r.Field, Message: r.Message})
		}
	}
	return refused, nil
}

// discardOwn deletes rejected rows of a table of the producer's own.
func (s *Routes) discardOwn(ctx context.Context, db *outbox.DB, which outbox.RejectedRows) (int64, error) {
	refused, err := s.refused(ctx, db, which)
	if err != nil {
		return 0, err
	}
	rows := make([]outbox.Row, len(refused))
	for i := range refused {
		rows[i] = refused[i].Row
	}
	return db.Remove(ctx, rows)
}
