package api

import (
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// reply is an answer with a body.
type reply[B any] struct {
	Body B
}

func answered[B any](b B) *reply[B] { return &reply[B]{Body: b} }

// none is the answer without a body, or the request without parameters.
type none struct{}

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

func instant(t time.Time) apitypes.Time { return apitypes.Time{Time: t} }

// timeOrNull returns nil for the zero time.
func timeOrNull(t time.Time) *apitypes.Time {
	if t.IsZero() {
		return nil
	}
	return &apitypes.Time{Time: t}
}

// orNull returns nil for the zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// named reads an id from a path. A text that is no id names nothing, and
// neither does the zero id, which a store would take for no filter.
func named[I comparable, P interface {
	*I
	UnmarshalText(text []byte) error
}](text string) (id I, err error) {
	var zero I
	id, err = postrider.ParseID[I, P](text)
	if err != nil || id == zero {
		return id, postrider.ErrNotFound
	}
	return id, nil
}

// filtered reads an id from a query parameter; the empty text is no filter.
func filtered[I comparable, P interface {
	*I
	UnmarshalText(text []byte) error
}](field, text string) (id I, err error) {
	if text == "" {
		return id, nil
	}
	var zero I
	id, err = postrider.ParseID[I, P](text)
	if err != nil || id == zero {
		return id, missing(field, "names nothing")
	}
	return id, nil
}

// millis returns n milliseconds; what would overflow becomes the longest or
// shortest duration, which every policy refuses.
func millis(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(n, -most), most)) * time.Millisecond
}

// checkText returns the fault of a text that is too long.
func checkText(field, text string, longest int) error {
	if len(text) > longest {
		return &postrider.InvalidError{Field: field, Reason: "is too long"}
	}
	return nil
}
