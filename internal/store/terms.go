package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// Term stands for a value in the data of an event: a hash of the account, the path and the value, with
// a secret key. It does not show the value. Two values may have the same term, so whoever finds an event
// by a term compares the value itself.
type Term int64

// MaxTerms is the greatest number of terms of an event.
const MaxTerms = 20

// TermQuery asks for the events that have one of the terms.
type TermQuery struct {
	Terms []Term
	Span
	Paging
}

// MergeEvents returns a page of the events that were found by several terms, each once. The lists have
// the first events of each term, one more than the page may have.
func MergeEvents(ids []postrider.EventID, p Paging) Page[postrider.EventID] {
	slices.SortFunc(ids, func(a, b postrider.EventID) int {
		if p.OldestFirst {
			return a.Compare(b)
		}
		return b.Compare(a)
	})
	ids = slices.Compact(ids)
	return Cut(ids[:min(len(ids), p.Size()+1)], p, func(id postrider.EventID) string { return string(id[:]) })
}

// IndexPaths sorts the paths that an event type gets, and sets their Since: that of the stored path or,
// if the path is new, now. It reports whether the paths differ from the stored ones.
func IndexPaths(paths, stored []postrider.IndexedPath, now time.Time) (_ []postrider.IndexedPath, changed bool) {
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(a, b postrider.IndexedPath) int { return cmp.Compare(a.Path, b.Path) })
	for i := range paths {
		paths[i].Since = now
		for _, s := range stored {
			if s.Path == paths[i].Path {
				paths[i].Since = s.Since
			}
		}
	}
	return paths, !slices.EqualFunc(paths, stored, func(a, b postrider.IndexedPath) bool { return a.Path == b.Path })
}
