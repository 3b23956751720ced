package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/postrider/postrider"
)

// MaxSources is the greatest number of sources of a store.
const MaxSources = 100

// Sources keeps the outboxes of producers from which events are read, and which of their rows were published.
//
// [Inbox.Publish] records the Row of each event in the transaction of the event. An event whose Row is
// recorded is a Duplicate with the id of the first event; this goes before its idempotency key. If the
// event is a Duplicate by its key, its Row is recorded with the id of the first event.
type Sources interface {
	// PutSource creates a source, or replaces what the API writes of it, but for Paused. If another source has the
	// name, the error is postrider.ErrConflict. If there are MaxSources, it is ErrTooMany.
	PutSource(ctx context.Context, s postrider.Source) error

	// PauseSource sets Paused of a source. A replacement that began before does not undo it.
	PauseSource(ctx context.Context, id postrider.SourceID, paused bool) error

	// Sources returns all sources, by name.
	Sources(ctx context.Context) ([]postrider.Source, error)

	// DeleteSource deletes a source. The records of its rows stay as long as their events.
	DeleteSource(ctx context.Context, id postrider.SourceID) error

	// AdvanceSource moves the source from a.Cycle to a.Next and sets MovedUntil.
	//
	// If the source is gone or has another cycle, or if a row of a.Rows is not recorded, it changes nothing and
	// returns postrider.ErrFenced. Then the store lost its newest transactions, or another node reads.
	AdvanceSource(ctx context.Context, a AdvanceSource) error

	// NoteSource sets the state of a source, but for Cycle and MovedUntil.
	NoteSource(ctx context.Context, id postrider.SourceID, state postrider.SourceState) error

	// OutboxRows returns the events of the rows that are recorded.
	OutboxRows(ctx context.Context, rows []postrider.OutboxID) (map[postrider.OutboxID]postrider.EventID, error)

	// ForgetRows deletes up to n records of rows that were recorded before the time, if each source has
	// a later MovedUntil. It returns how many it deleted.
	ForgetRows(ctx context.Context, before time.Time, n int) (int, error)
}

// AdvanceSource is the end of a cycle of a reader.
type AdvanceSource struct {
	ID         postrider.SourceID
	Cycle      int64 // the cycle before
	Next       int64 // the cycle after; not less than Cycle
	Rows       []postrider.OutboxID
	MovedUntil time.Time
}

// sourceTable is the stored form of a [postrider.SourceTable].
type sourceTable struct {
	Name         string `json:"name"`
	ID           string `json:"id"`
	Order        string `json:"order,omitempty"`
	Account      string `json:"account,omitempty"`
	FixedAccount string `json:"fixed_account,omitempty"`
	Type         string `json:"type,omitempty"`
	Data         string `json:"data,omitempty"`
	OrderingKey  string `json:"ordering_key,omitempty"`
}

// EncodeSourceTable returns the stored form of a mapping; nil is the empty text.
func EncodeSourceTable(t *postrider.SourceTable) string {
	if t == nil {
		return ""
	}
	text, _ := json.Marshal((*sourceTable)(t)) // cannot fail: these are texts
	return string(text)
}

// DecodeSourceTable reads the text that [EncodeSourceTable] wrote.
func DecodeSourceTable(text string) (*postrider.SourceTable, error) {
	var t *sourceTable
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return nil, fmt.Errorf("scan the mapping of a source: %w", err)
	}
	return (*postrider.SourceTable)(t), nil
}
