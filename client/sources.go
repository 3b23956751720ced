package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/postrider/postrider/apitypes"
)

// sourcePath returns the path of a source, which is named by its name or id.
func sourcePath(source string) string { return "/sources/" + url.PathEscape(source) }

// Sources lists the outboxes of producers from which events are read, by name.
func (c *Client) Sources(ctx context.Context) ([]apitypes.Source, error) {
	list, err := get[apitypes.List[apitypes.Source]](ctx, c, "/sources")
	return list.Data, err
}

// Source returns a source with what its reader knew last.
func (c *Client) Source(ctx context.Context, source string) (apitypes.Source, error) {
	return get[apitypes.Source](ctx, c, sourcePath(source))
}

// PutSource creates the source with the name, or replaces it: a field that s does not set gets its
// default. Unless unchecked is true, the server connects to the database first, and stores nothing if it
// cannot use it. An id instead of a name replaces the source.
func (c *Client) PutSource(ctx context.Context, source string, s apitypes.SourcePut, unchecked bool) (apitypes.Source, error) {
	path := sourcePath(source)
	if unchecked {
		path += "?check=false"
	}
	return put[apitypes.Source](ctx, c, path, s)
}

// DeleteSource deletes a source. Its rows stay in the database of the producer.
func (c *Client) DeleteSource(ctx context.Context, source string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: sourcePath(source)}, nil)
}

// PauseSource pauses a source. Nothing is read from it until it is resumed.
func (c *Client) PauseSource(ctx context.Context, source string) (apitypes.Source, error) {
	return post[apitypes.Source](ctx, c, sourcePath(source)+"/pause", nil)
}

// ResumeSource resumes a paused source.
func (c *Client) ResumeSource(ctx context.Context, source string) (apitypes.Source, error) {
	return post[apitypes.Source](ctx, c, sourcePath(source)+"/resume", nil)
}

// SourceState asks the database of a source how its outbox is.
func (c *Client) SourceState(ctx context.Context, source string) (apitypes.SourceDatabase, error) {
	return get[apitypes.SourceDatabase](ctx, c, sourcePath(source)+"/state")
}

// RejectedFilter selects rejected rows of a source. A zero field selects all.
type RejectedFilter struct {
	Account string // as the producer wrote it
	Code    string
	Paging
}

// RejectedRows lists the rejected rows of a source with their data, newest rejection first.
func (c *Client) RejectedRows(ctx context.Context, source string, f RejectedFilter) (apitypes.Page[apitypes.RejectedRow], error) {
	return get[apitypes.Page[apitypes.RejectedRow]](ctx, c,
		sourcePath(source)+"/rejected"+query(f.Paging, "account", f.Account, "code", f.Code))
}

// RetryRejected puts rejected rows of a source back to the waiting ones. It returns how many.
func (c *Client) RetryRejected(ctx context.Context, source string, r apitypes.RejectedRetry) (apitypes.RowCount, error) {
	return post[apitypes.RowCount](ctx, c, sourcePath(source)+"/rejected/retry", r)
}

// DiscardRejected deletes rejected rows of a source, whose events are then never published. It returns
// how many.
func (c *Client) DiscardRejected(ctx context.Context, source string, r apitypes.RejectedSelect) (apitypes.RowCount, error) {
	return post[apitypes.RowCount](ctx, c, sourcePath(source)+"/rejected/discard", r)
}
