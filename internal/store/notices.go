package store

import (
	"context"
	"fmt"

	"github.com/postrider/postrider"
)

// Notices keeps the facts that people should be told. The janitor and replay jobs write notices.
// A notice about a change is stored in the transaction of the change ([Upkeep.PutHealth],
// [Replays.ReplayChunk]). The API lists notices; each reader that acts on notices remembers the
// last one that it has handled.
type Notices interface {
	// PutNotices stores the notices that are new, and returns them. A notice is not new if a stored
	// one has the same kind, object and occurrence.
	//
	// Two notices with the same kind, object and occurrence are never both stored, in one call or in
	// parallel ones.
	PutNotices(ctx context.Context, notices []postrider.Notice) ([]postrider.Notice, error)

	// Notices lists notices, newest first. With OldestFirst they are oldest first.
	Notices(ctx context.Context, q NoticeQuery) (Page[postrider.Notice], error)

	// NoticesPublished returns the last notice for which the operational event was published or is
	// not needed. The result is zero before the first such notice.
	NoticesPublished(ctx context.Context) (postrider.NoticeID, error)

	// SetNoticesPublished sets the result of NoticesPublished. It never moves back.
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

// NoticeSource has the two methods of a store that a reader of notices needs.
type NoticeSource interface {
	// Notices is the method of [Notices].
	Notices(ctx context.Context, q NoticeQuery) (Page[postrider.Notice], error)
	// Clock is the method of [Queue].
	Clock() *Clock
}

// NextNotices returns the notices of q that come after last, oldest first, at most one page. It
// skips notices that are younger than [postrider.NoticeDelay] by the store's clock: a notice with
// a lower id can still be committed, and the reader would miss it.
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
