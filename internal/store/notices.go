package store

import (
	"context"
	"fmt"

	"github.com/postrider/postrider"
)

// Notices keeps what people should be told. The janitor and replay jobs write notices, those
// of a change in the transaction of the change ([Upkeep.PutHealth], [Replays.ReplayChunk]).
// The API lists them; each reader that acts on them remembers how far it has come.
type Notices interface {
	// PutNotices stores those of the notices whose kind, object and occurrence no stored
	// notice has, and returns them.
	//
	// That holds inside one call and across any number of parallel ones.
	PutNotices(ctx context.Context, notices []postrider.Notice) ([]postrider.Notice, error)

	// Notices lists notices, newest first, or oldest first if the page asks for it.
	Notices(ctx context.Context, q NoticeQuery) (Page[postrider.Notice], error)

	// NoticesPublished returns the last notice whose operational event was published, or
	// needs none; zero: none yet.
	NoticesPublished(ctx context.Context) (postrider.NoticeID, error)

	// SetNoticesPublished moves it. It never moves back.
	SetNoticesPublished(ctx context.Context, last postrider.NoticeID) error
}

// NoticeQuery filters notices; a zero field does not filter.
type NoticeQuery struct {
	Account postrider.AccountID
	Kind    postrider.NoticeKind
	Object  string
	Span
	Paging
}

// NoticeSource is what a reader of notices needs of a store.
type NoticeSource interface {
	// Notices is [Notices]'s.
	Notices(ctx context.Context, q NoticeQuery) (Page[postrider.Notice], error)
	// Clock is [Queue]'s.
	Clock() *Clock
}

// NextNotices returns the notices of a query after the last one that a reader has handled,
// oldest first, at most a page. It leaves out those that are younger than
// [postrider.NoticeDelay] by the store's clock, so that no reader passes by a notice that is
// committed late.
func NextNotices(ctx context.Context, s NoticeSource, q NoticeQuery, last postrider.NoticeID) ([]postrider.Notice, error) {
	q.OldestFirst = true
	q.To = s.Clock().Wall().Add(-postrider.NoticeDelay)
	if !last.IsZero() {
		q.Cursor = EncodeCursor(string(last[:]))
	}
	page, err := s.Notices(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read notices after %s: %w", last, err)
	}
	return page.Items, nil
}
