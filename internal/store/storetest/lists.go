package storetest

import (
	"errors"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// pages reads a list of five items with two items a page. It fails the test unless the pages are
// full and only the last one has no next page.
func pages[T, K any](w *world, key func(T) K, list func(store.Paging) (store.Page[T], error)) (all []K) {
	w.Helper()
	p := store.Paging{Limit: 2}
	for range 10 {
		page, err := list(p)
		w.ok(err)
		if len(page.Items) > 2 {
			w.Fatalf("a page has %d items, want at most 2", len(page.Items))
		}
		for _, item := range page.Items {
			all = append(all, key(item))
		}
		if page.Next == "" {
			return all
		}
		p.Cursor = page.Next
	}
	w.Fatalf("the list has no end")
	return nil
}

// by converts a list into one that returns the keys of its items.
func by[Q, T, K any](key func(T) K, list func(Q) (store.Page[T], error)) func(Q) ([]K, error) {
	return func(q Q) (keys []K, err error) {
		page, err := list(q)
		for _, item := range page.Items {
			keys = append(keys, key(item))
		}
		return keys, err
	}
}

// selects fails the test unless the query lists the wanted items.
func selects[Q, K any](w *world, query Q, list func(Q) ([]K, error), want []K) {
	w.Helper()
	got, err := list(query)
	w.ok(err)
	w.same(fmt.Sprintf("what %+v lists", query), got, want)
}

// badCursors fails the test unless the list refuses cursors that none of its pages returned.
func badCursors(w *world, list func(store.Paging) error) {
	w.Helper()
	for _, cursor := range []string{"!", "not a cursor", store.EncodeCursor("short"), store.EncodeCursor(string(make([]byte, 250)))} {
		err := list(store.Paging{Cursor: cursor})
		var invalid *postrider.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "cursor" {
			w.Errorf("the cursor %q: %v, want an InvalidError of cursor", cursor, err)
		}
	}
}
