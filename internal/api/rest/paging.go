package rest

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/store"
)

// RespondPage is RespondWith for a page of the store. An empty page has an empty list, not null.
// The cursor is the store's, and clients must not interpret it. If it is null, the page is the last
// one.
func RespondPage[T, V any](view func(T) V) func(store.Page[T], error) (*Reply[apitypes.Page[V]], error) {
	return RespondWith(func(p store.Page[T]) apitypes.Page[V] {
		data := make([]V, 0, len(p.Items))
		for _, item := range p.Items {
			data = append(data, view(item))
		}
		return apitypes.Page[V]{Data: data, NextCursor: render.OrNull(p.Next)}
	})
}

// Paging has the query parameters of every list. The cursor continues a list after the last item of
// the previous page. So items that are added or deleted in between do not shift the next page.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"250" default:"50"`
	Cursor string `query:"cursor" maxLength:"512" doc:"The next_cursor of the previous page."`
}

// Of returns the paging as the store has it, newest first.
func (p Paging) Of() store.Paging { return store.Paging{Limit: p.Limit, Cursor: p.Cursor} }

// Order is the query parameter of lists that can be read oldest first or newest first.
type Order struct {
	Order string `query:"order" enum:"asc,desc" default:"desc" doc:"desc: newest first. asc: oldest first."`
}

// Page returns the paging as the store has it, in this order.
func (o Order) Page(p Paging) store.Paging {
	page := p.Of()
	page.OldestFirst = o.Order == "asc"
	return page
}

// Span has the query parameters that filter by time. A zero time is no limit.
type Span struct {
	From time.Time `query:"from" doc:"Created at this time or later."`
	To   time.Time `query:"to" doc:"Created before this time."`
}

// Resolve refuses a From after To. Huma calls it after it parsed the
// parameters.
func (s *Span) Resolve(huma.Context) []error {
	if !s.From.IsZero() && !s.To.IsZero() && s.From.After(s.To) {
		return []error{&huma.ErrorDetail{Location: "query.from", Message: "must not be later than to"}}
	}
	return nil
}

// Of returns the span as the store has it, in UTC.
func (s Span) Of() store.Span { return store.Span{From: s.From.UTC(), To: s.To.UTC()} }
