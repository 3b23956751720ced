package web

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// list is one page of a list, with its filters. The partials "filters" and "pager"
// show it.
type list[T any] struct {
	Items   []T
	Filters filters
	Next    string // URL of the next page; empty: this is the last
	First   string // URL of the first page; empty: this is it
}

// filters are the filters of a list. They are fields of a GET form, so that a filtered
// list is a URL.
type filters []filter

// filter is one filter of a list. Its label is the text filter.NAME.
type filter struct {
	Name    string // of the parameter of the URL
	Value   string // from the URL; empty: no filter
	Options []choice
	// Kind is text, select or time. A time is local to the zone of the person.
	Kind string
	None string // label of the choice without a value; empty: All
}

// choice is a choice of a select.
type choice struct{ Value, Label string }

// Active reports whether a filter is set, so that an empty list says that no item
// matches and not that there are none.
func (f filters) Active() bool {
	for _, one := range f {
		if one.Value != "" {
			return true
		}
	}
	return false
}

// firstFilters is how many filters stand in the row above a list. The others are folded, and
// the times with them, which are long and come in pairs.
const firstFilters = 4

// First returns the filters that stand above the list.
func (f filters) First() filters {
	n := min(len(f), firstFilters)
	for n < len(f) && n > 1 && f[n-1].Kind == "time" {
		n--
	}
	return f[:n]
}

// Rest returns the filters that are folded until a filter is set.
func (f filters) Rest() filters { return f[len(f.First()):] }

// Shown returns the value of the filter as people know it: the label of a choice, a time with
// a space.
func (f filter) Shown() string {
	for _, c := range f.Options {
		if c.Value == f.Value {
			return c.Label
		}
	}
	if f.Kind == "time" {
		return strings.Replace(f.Value, "T", " ", 1)
	}
	return f.Value
}

// pageSize is the number of items of a list on one page.
const pageSize = 20

// paging returns the page of the list that the URL asks for.
func (v *visit) paging() client.Paging {
	return client.Paging{Limit: pageSize, Cursor: v.query("cursor")}
}

// listOf returns a page of items from the API as a page of a list.
func listOf[T any](v *visit, items apitypes.Page[T], f filters) list[T] {
	l := list[T]{Items: items.Data, Filters: f}
	if next := items.Next(); next != "" {
		l.Next = v.at("cursor", next)
	}
	if v.query("cursor") != "" {
		l.First = v.at("cursor", "")
	}
	return l
}

// at returns the URL of this page with another value of one parameter.
func (v *visit) at(name, value string) string {
	query := v.r.URL.Query()
	query.Set(name, value)
	for name, values := range query {
		if values[0] == "" {
			query.Del(name)
		}
	}
	return (&url.URL{Path: v.r.URL.Path, RawQuery: query.Encode()}).RequestURI()
}

// textFilter returns a filter by a text that a person types.
func (v *visit) textFilter(name string) filter {
	return filter{Name: name, Kind: "text", Value: v.query(name)}
}

// choice returns a filter by one of the values. Their labels are the texts
// PREFIX.VALUE.
func (v *visit) choice(name, prefix string, values ...string) filter {
	f := filter{Name: name, Kind: "select", Value: v.query(name)}
	for _, value := range values {
		f.Options = append(f.Options, choice{value, v.t(prefix + "." + value)})
	}
	return f
}

// without returns the filter with another text for the choice without a value, for a list
// that leaves something out unless it is asked for.
func (f filter) without(label string) filter {
	f.None = label
	return f
}

// localTime is how browsers write a time in a field of the type datetime-local.
const localTime = "2006-01-02T15:04"

// timeFilter returns a filter by a time, and the time. Zero: no filter. A time that
// cannot be read is no filter.
func (v *visit) timeFilter(name string) (filter, time.Time) {
	f := filter{Name: name, Kind: "time"}
	for _, layout := range []string{localTime, localTime + ":05", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, v.query(name), v.zone); err == nil {
			f.Value = at.In(v.zone).Format(localTime)
			return f, at
		}
	}
	return f, time.Time{}
}

// sinces are the spans that end now, by their names in the URL.
var sinces = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

// spanFilter returns the filters by the time of creation, and the span that they select. If
// from or to is given, since is ignored.
func (v *visit) spanFilter() (f filters, from, to time.Time) {
	since := v.choice("since", "since", "1h", "24h", "7d")
	fromFilter, from := v.timeFilter("from")
	toFilter, to := v.timeFilter("to")
	if ago := sinces[since.Value]; ago > 0 && from.IsZero() && to.IsZero() {
		from = v.now.Add(-ago)
	}
	return filters{since, fromFilter, toFilter}, from, to
}

// words returns the values of a list of named strings.
func words[T ~string](values []T) []string {
	out := make([]string, 0, len(values))
	for _, value := range values {
		out = append(out, string(value))
	}
	return out
}

// listed is a page of a list as the API returned it, or the error.
type listed[T any] struct {
	items   apitypes.Page[T]
	filters filters
	err     error
}

// listPage is the data of a page that is a list. Faults says which filters the API
// refused; the person then mends them where they are.
type listPage[T any] struct {
	list[T]

	Faults map[string]string
}

// showList ends the handler of a list.
func showList[T any](v *visit, p page, l listed[T]) error {
	faults, refused := v.faulty(l.err)
	if l.err != nil && !refused {
		return l.err
	}
	p.Data = listPage[T]{listOf(v, l.items, l.filters), faults}
	if refused {
		p.Status = http.StatusUnprocessableEntity
	}
	return v.show(p)
}

// command returns the command that makes the last call of the API, with a flag for each of
// its parameters: the command line calls them alike. A page has a place and a size of its
// own, so these are left out.
func (v *visit) command(name string) string {
	if len(v.calls.made) == 0 {
		return name
	}
	_, raw, _ := strings.Cut(v.calls.made[len(v.calls.made)-1].Path, "?")
	query, _ := url.ParseQuery(raw) // the client has written it
	for _, parameter := range slices.Sorted(maps.Keys(query)) {
		flag, value := " --"+strings.ReplaceAll(parameter, "_", "-"), query.Get(parameter)
		switch {
		case parameter == "limit", parameter == "cursor":
		case value == "true":
			name += flag
		default:
			name += flag + "=" + shellWord(value)
		}
	}
	return name
}

// plainWord matches what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[\w.:@/+-]+$`)

// shellWord returns a value as a word of a shell.
func shellWord(value string) string {
	if plainWord.MatchString(value) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// idFilter returns a filter by an id, and the id. The client takes ids and no texts, so a text
// that is no id is refused here.
func idFilter[I any](v *visit, name string, parse func(string) (I, error)) (f filter, id I, err error) {
	f = v.textFilter(name)
	if f.Value == "" {
		return f, id, nil
	}
	if id, err = parse(f.Value); err != nil {
		err = &client.Error{Status: http.StatusUnprocessableEntity, Fields: []apitypes.Fault{{Field: name, Reason: v.t("filter.no_id")}}}
	}
	return f, id, err
}
