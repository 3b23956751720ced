package app

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// PutNotices implements [store.Notices].
func (v verbs) PutNotices(ctx context.Context, notices []postrider.Notice) (_ []postrider.Notice, err error) {
	defer v.done("PutNotices", time.Now(), &err)
	return v.Store.PutNotices(ctx, notices)
}

// Notices implements [store.Notices].
func (v verbs) Notices(ctx context.Context, q store.NoticeQuery) (_ store.Page[postrider.Notice], err error) {
	defer v.done("Notices", time.Now(), &err)
	return v.Store.Notices(ctx, q)
}

// NoticesPublished implements [store.Notices].
func (v verbs) NoticesPublished(ctx context.Context) (_ postrider.NoticeID, err error) {
	defer v.done("NoticesPublished", time.Now(), &err)
	return v.Store.NoticesPublished(ctx)
}

// SetNoticesPublished implements [store.Notices].
func (v verbs) SetNoticesPublished(ctx context.Context, last postrider.NoticeID) (err error) {
	defer v.done("SetNoticesPublished", time.Now(), &err)
	return v.Store.SetNoticesPublished(ctx, last)
}
