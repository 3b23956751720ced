package api

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// pageOf turns a page of the store into one of the API.
func pageOf[T, V any](p store.Page[T], view func(T) V) *reply[apitypes.Page[V]] {
	data := make([]V, 0, len(p.Items))
	for _, item := range p.Items {
		data = append(data, view(item))
	}
	return answered(apitypes.Page[V]{Data: data, NextCursor: orNull(p.Next)})
}

// Paging is what every list takes.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"250" default:"50"`
	Cursor string `query:"cursor" maxLength:"512" doc:"The next_cursor of the previous page."`
}

func (p Paging) of() store.Paging { return store.Paging{Limit: p.Limit, Cursor: p.Cursor} }

// Order is what lists of history take beside it.
type Order struct {
	Order string `query:"order" enum:"asc,desc" default:"desc" doc:"desc: newest first. asc: oldest first."`
}

// page asks for a page in the order.
func (o Order) page(p Paging) store.Paging {
	page := p.of()
	page.OldestFirst = o.Order == "asc"
	return page
}

// Span filters by time.
type Span struct {
	From time.Time `query:"from" doc:"Created at this time or later."`
	To   time.Time `query:"to" doc:"Created before this time."`
}

// Resolve refuses a span that can hold nothing.
func (s *Span) Resolve(huma.Context) []error {
	if !s.From.IsZero() && !s.To.IsZero() && s.From.After(s.To) {
		return []error{&huma.ErrorDetail{Location: "query.from", Message: "must not be later than to"}}
	}
	return nil
}

func (s Span) of() store.Span { return store.Span{From: s.From.UTC(), To: s.To.UTC()} }
