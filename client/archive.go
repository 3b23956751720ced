package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// ArchivePartFilter selects parts of the archive. A zero field selects all.
type ArchivePartFilter struct {
	Kind     string    // events, attempts or bodies
	From, To time.Time // days on which the ids were made: From or later, and before To
	Paging
}

// ArchiveFilter selects records of the archive. A zero field selects all.
type ArchiveFilter struct {
	Event     postrider.EventID
	Account   string // id or uid
	Endpoint  postrider.EndpointID
	EventType string
	From, To  time.Time // days on which the ids were made: From or later, and before To
	Paging
}

// RestoredFilter selects records that were restored. A zero field selects all.
type RestoredFilter struct {
	Event    postrider.EventID
	Account  string // id or uid
	Endpoint postrider.EndpointID
	Paging
}

// day returns a day as a query parameter; empty for the zero time.
func day(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.DateOnly)
}

// ArchiveParts lists the parts of the archive, by kind, day and number.
func (c *Client) ArchiveParts(ctx context.Context, f ArchivePartFilter) (apitypes.Page[apitypes.ArchivePart], error) {
	return get[apitypes.Page[apitypes.ArchivePart]](ctx, c,
		"/archive/parts"+query(f.Paging, "kind", f.Kind, "from", day(f.From), "to", day(f.To)))
}

// VerifyArchivePart reads a part of the archive, and reports whether it is undamaged.
func (c *Client) VerifyArchivePart(ctx context.Context, part string) (apitypes.ArchivePart, error) {
	return get[apitypes.ArchivePart](ctx, c, "/archive/parts/"+url.PathEscape(part))
}

// SearchArchive makes one step of a search in the archive, which takes about five seconds. The next
// step begins at the returned NextCursor.
func (c *Client) SearchArchive(ctx context.Context, f ArchiveFilter) (apitypes.ArchiveFound, error) {
	return get[apitypes.ArchiveFound](ctx, c, "/archive/records"+query(f.Paging, "event", idText(f.Event), "account", f.Account,
		"endpoint", idText(f.Endpoint), "event_type", f.EventType, "from", day(f.From), "to", day(f.To)))
}

// RestoreArchive makes one step of a restore. It searches in the same way as SearchArchive, and
// copies the records that it finds back into the database, for people to look at. A step may be
// repeated.
func (c *Client) RestoreArchive(ctx context.Context, r apitypes.ArchiveRestore) (apitypes.ArchiveRestored, error) {
	return post[apitypes.ArchiveRestored](ctx, c, "/archive/restores", r)
}

// RestoredRecords lists the records that were restored, by id.
func (c *Client) RestoredRecords(ctx context.Context, f RestoredFilter) (apitypes.Page[apitypes.ArchiveRecord], error) {
	return get[apitypes.Page[apitypes.ArchiveRecord]](ctx, c,
		"/archive/restored"+query(f.Paging, "event", idText(f.Event), "account", f.Account,
			"endpoint", idText(f.Endpoint)))
}

// CompareArchive begins a job of the server that compares archived events of an endpoint's account with a
// change of its subscription; see [Client.ArchiveComparison].
func (c *Client) CompareArchive(
	ctx context.Context, id postrider.EndpointID, w apitypes.ArchiveWhatIf,
) (apitypes.ArchiveComparison, error) {
	return post[apitypes.ArchiveComparison](ctx, c, archiveComparison(id), w)
}

// ArchiveComparison returns the progress and the result of the job that CompareArchive began.
func (c *Client) ArchiveComparison(ctx context.Context, id postrider.EndpointID) (apitypes.ArchiveComparison, error) {
	return get[apitypes.ArchiveComparison](ctx, c, archiveComparison(id))
}

// CancelArchiveComparison cancels the job that CompareArchive began, and deletes its result.
func (c *Client) CancelArchiveComparison(ctx context.Context, id postrider.EndpointID) error {
	return c.call(ctx, request{method: http.MethodDelete, path: archiveComparison(id)}, nil)
}

func archiveComparison(id postrider.EndpointID) string {
	return "/endpoints/" + id.String() + "/what-if/archive"
}
