package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// metadataOrNull returns metadata as an argument. Empty metadata is null.
func metadataOrNull(m postrider.Metadata) any {
	if len(m) == 0 {
		return nil
	}
	return map[string]string(m)
}

// ofMetadata filters a list by metadata; without metadata it does not filter.
type ofMetadata struct {
	kind     store.MetadataOf
	metadata postrider.Metadata
	account  postrider.AccountID // zero: any
	page     store.Paging
}

// metadataList is [listOf] for accounts and endpoints that have the metadata. It walks the search
// terms of the rarest key and value, newest first, and looks up the others and the object for each. So
// a page reads a part of the objects that have this key and value, however many others there are. Its
// plan must not depend on statistics, because it would read all of these objects and sort them.
func metadataList[I ~[16]byte](ctx context.Context, db Database, rows string, of ofMetadata) (*list, error) {
	if len(of.metadata) == 0 {
		return listOf[I](db, rows, store.Span{}, of.page)
	}
	in := ""
	if !of.account.IsZero() {
		in = " and account = @account"
	}
	terms, err := rarestFirst(ctx, db, of, in)
	if err != nil {
		return nil, err
	}
	from := "from (select id as found from search_terms where term = @term0" + in + ") t cross join "
	rows = strings.Replace(rows, "from ", from, 1)
	l := newList(counting{db}, rows, "found", of.page.Size()+1)
	if err := paged[I](l, store.Span{}, of.page); err != nil {
		return nil, err
	}
	l.indexed = true
	l.and("id = found", Args{"account": of.account})
	for i, term := range terms {
		name := fmt.Sprint("term", i)
		l.args[name] = term
		if i > 0 {
			l.and("exists (select 1 from search_terms o where o.term = @"+name+" and o.id = found)", nil)
		}
	}
	return l, nil
}

// termCountsSQL counts up to 1,000 objects for each term. It walks the primary key of search_terms, or
// search_terms_account.
const termCountsSQL = `
	select n.value, (
		select count(*)
		from (
			select 1
			from search_terms
			where term = n.value and /* of */ true
			limit 1000
		) c)
	from unnest(@terms::text[]) n(value)`

// rarestFirst returns the terms of the metadata, beginning with the one that the fewest objects have.
func rarestFirst(ctx context.Context, db Database, of ofMetadata, in string) ([]string, error) {
	terms := store.MetadataTerms(of.kind, of.metadata)
	if len(terms) == 1 {
		return terms, nil
	}
	type count struct {
		term string
		n    int
	}
	counts, err := all(ctx, counting{db}, Query{
		strings.Replace(termCountsSQL, " and /* of */ true", in, 1), Args{"terms": terms, "account": of.account},
	}, func(row Row, c *count) error { return row.Scan(&c.term, &c.n) })
	if err != nil || len(counts) == 0 {
		return terms, err
	}
	rarest := slices.MinFunc(counts, func(a, b count) int { return a.n - b.n }).term
	at := slices.Index(terms, rarest)
	terms[0], terms[at] = terms[at], terms[0]
	return terms, nil
}
