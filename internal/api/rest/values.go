package rest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
	"github.com/postrider/postrider/internal/store"
)

// ValueStore is the part of the store in which events are found by values of their data.
type ValueStore interface {
	// FindEvents is the method of store.Finder.
	FindEvents(ctx context.Context, q store.TermQuery) (store.Page[postrider.EventID], error)
	// EventTypes is the method of store.Catalogue.
	EventTypes(ctx context.Context, q store.EventTypeQuery) (store.Page[postrider.EventType], error)
}

// Terms makes the terms of values.
type Terms interface {
	// Terms returns the terms of which an event of the account has one if it has one of the values at one
	// of the paths.
	Terms(ctx context.Context, account postrider.AccountID, paths []postrider.Path, values []string) ([]store.Term, error)
}

// Values finds events by values of their data.
type Values struct {
	Names *Names
	Store ValueStore
	Terms Terms
}

// ValueQuery asks for the events of an account that have a value at one of the paths.
type ValueQuery struct {
	Account postrider.AccountID
	Paths   []postrider.Path
	Value   string
	store.Span
	store.Paging
}

// Paths returns the paths that the event types name, sorted by their types, each once. If the type is not
// empty, it returns only the paths of that type.
func (v *Values) Paths(ctx context.Context, eventType string) (paths []postrider.Path, err error) {
	known := map[string]bool{}
	for q := (store.EventTypeQuery{Name: eventType, Indexed: eventType == "", Paging: store.Paging{Limit: store.MaxLimit}}); ; {
		page, err := v.Store.EventTypes(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Items {
			for _, p := range t.Paths {
				path, err := postrider.ParsePath("paths", p.Path)
				if err == nil && !known[p.Path] { // a later version may know other paths
					known[p.Path], paths = true, append(paths, path)
				}
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return paths, nil
		}
	}
}

// Where returns the path and the value of a condition such as $.order.number=42. The error is a fault
// of the field where if no event type names the path, or if eventType does not, unless it is empty.
func (v *Values) Where(ctx context.Context, where, eventType string) (postrider.Path, string, error) {
	text, value, _ := strings.Cut(where, "=")
	path, err := postrider.ParsePath("where", text)
	if err != nil || value == "" {
		return path, "", Invalid("where", postrider.FaultMalformed, "must be a path and a value, such as $.order.number=42")
	}
	paths, err := v.Paths(ctx, eventType)
	if err == nil && !slices.ContainsFunc(paths, func(p postrider.Path) bool { return p.Text == path.Text }) {
		err = Invalid("where", postrider.FaultNotFound, "has a path that the event type does not name, so its values are not indexed")
	}
	return path, value, err
}

// Events returns a page of the events that the query selects, without their data, and notes in the audit
// log that the data was searched. It compares the value in the data of each event, because different
// values may have the same term. So the page may have fewer events than its limit. It leaves out events
// that were deleted meanwhile.
func (v *Values) Events(ctx context.Context, q ValueQuery) (page store.Page[postrider.Event], err error) {
	var texts []string
	for _, path := range q.Paths {
		texts = append(texts, path.Text)
	}
	InfoOf(ctx).SearchesData(strings.Join(texts, " "))
	values := jsonx.Forms(q.Value)
	terms, err := v.Terms.Terms(ctx, q.Account, q.Paths, values)
	if err != nil {
		return page, err
	}
	found, err := v.Store.FindEvents(ctx, store.TermQuery{Terms: terms, Span: q.Span, Paging: q.Paging})
	if err != nil {
		return page, err
	}
	page.Next = found.Next
	for _, id := range found.Items {
		e, err := v.Names.Event(ctx, id.String())
		switch {
		case errors.Is(err, postrider.ErrNotFound):
		case err != nil:
			return page, err
		case e.Account == q.Account && hasValue(e.Data, q.Paths, values):
			e.Data = nil
			page.Items = append(page.Items, e)
		}
	}
	return page, nil
}

// hasValue reports whether the data has one of the values at one of the paths.
func hasValue(data []byte, paths []postrider.Path, values []string) bool {
	for _, value := range jsonx.Values(data, paths) {
		if slices.Contains(values, value) {
			return true
		}
	}
	return false
}
