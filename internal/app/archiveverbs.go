package app

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// LeaseArchive implements [store.Archive].
func (v verbs) LeaseArchive(ctx context.Context, node uint64, d time.Duration) (_ bool, err error) {
	defer v.done("LeaseArchive", time.Now(), &err)
	return v.Store.LeaseArchive(ctx, node, d)
}

// ArchiveDay implements [store.Archive].
func (v verbs) ArchiveDay(ctx context.Context, kind store.Kind, before time.Time) (_ store.ArchiveDay, err error) {
	defer v.done("ArchiveDay", time.Now(), &err)
	return v.Store.ArchiveDay(ctx, kind, before)
}

// ArchiveRows implements [store.Archive].
func (v verbs) ArchiveRows(ctx context.Context, q store.ArchiveRows, yield func(store.ArchivedRow) bool) (err error) {
	defer v.done("ArchiveRows", time.Now(), &err)
	return v.Store.ArchiveRows(ctx, q, yield)
}

// PutArchivePart implements [store.Archive].
func (v verbs) PutArchivePart(ctx context.Context, p store.ArchivePart) (err error) {
	defer v.done("PutArchivePart", time.Now(), &err)
	return v.Store.PutArchivePart(ctx, p)
}

// RedoArchiveDay implements [store.Archive].
func (v verbs) RedoArchiveDay(ctx context.Context, kind store.Kind, day time.Time) (_ []store.ArchivePart, err error) {
	defer v.done("RedoArchiveDay", time.Now(), &err)
	return v.Store.RedoArchiveDay(ctx, kind, day)
}

// ArchiveParts implements [store.Archive].
func (v verbs) ArchiveParts(ctx context.Context, q store.ArchiveParts) (_ []store.ArchivePart, err error) {
	defer v.done("ArchiveParts", time.Now(), &err)
	return v.Store.ArchiveParts(ctx, q)
}

// ArchiveKey implements [store.Archive].
func (v verbs) ArchiveKey(ctx context.Context, account postrider.AccountID) (_ []byte, err error) {
	defer v.done("ArchiveKey", time.Now(), &err)
	return v.Store.ArchiveKey(ctx, account)
}

// PutArchiveKey implements [store.Archive].
func (v verbs) PutArchiveKey(ctx context.Context, account postrider.AccountID, encrypted []byte) (_ []byte, err error) {
	defer v.done("PutArchiveKey", time.Now(), &err)
	return v.Store.PutArchiveKey(ctx, account, encrypted)
}

// DeleteArchiveKey implements [store.Archive].
func (v verbs) DeleteArchiveKey(ctx context.Context, account postrider.AccountID) (_ bool, err error) {
	defer v.done("DeleteArchiveKey", time.Now(), &err)
	return v.Store.DeleteArchiveKey(ctx, account)
}

// PutRestored implements [store.Restored].
func (v verbs) PutRestored(ctx context.Context, records []store.RestoredRecord) (err error) {
	defer v.done("PutRestored", time.Now(), &err)
	return v.Store.PutRestored(ctx, records)
}

// RestoredRecords implements [store.Restored].
func (v verbs) RestoredRecords(ctx context.Context, q store.RestoredQuery) (_ store.Page[store.RestoredRecord], err error) {
	defer v.done("RestoredRecords", time.Now(), &err)
	return v.Store.RestoredRecords(ctx, q)
}

// ForgetRestored implements [store.Restored].
func (v verbs) ForgetRestored(ctx context.Context, before time.Time, limit int) (_ int, err error) {
	defer v.done("ForgetRestored", time.Now(), &err)
	return v.Store.ForgetRestored(ctx, before, limit)
}
