package page

import (
	"encoding"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// List is one page of a list, with its filters. The partials "filters" and "pager"
// show it.
type List[T any] struct {
	Items   []T
	Filters Filters
	Next    string // URL of the next page; empty: this is the last
	First   string // URL of the first page; empty: this is the first
}

// Filters are the filters of a list. They are fields of a GET form, so that a filtered
// list is a URL.
type Filters []Filter

// Filter is one filter of a list. Its label is the text filter.NAME.
type Filter struct {
	Name    string // of the parameter of the URL
	Value   string // from the URL; empty: no filter
	Options []Choice
	// Kind is text, select, time or date. A time is in the zone of the person.
	Kind string
	None string // label of the choice without a value; empty: "All"
}

// Choice is a choice of a select.
type Choice struct{ Value, Label string }

// Active reports whether a filter is set. An empty list then says that no item matches, instead
// of that there are no items.
func (f Filters) Active() bool {
	for _, one := range f {
		if one.Value != "" {
			return true
		}
	}
	return false
}

// firstFilters is how many filters are in the row above a list. The page folds the other filters,
// and all times, because times are long and come in pairs.
const firstFilters = 4

// First returns the filters in the row above the list.
func (f Filters) First() Filters {
	n := min(len(f), firstFilters)
	for n < len(f) && n > 1 && f[n-1].Kind == "time" {
		n--
	}
	return f[:n]
}

// Rest returns the filters that are folded while no filter is set.
func (f Filters) Rest() Filters { return f[len(f.First()):] }

// Shown returns the value of the filter for people: the label of a choice, or a time with a space
// instead of the T.
func (f Filter) Shown() string {
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

// Size is the number of items of a list on one page.
const Size = 20

// Paging returns the page of the list, from the parameters of the URL.
func (v *Visit) Paging() client.Paging {
	return client.Paging{Limit: Size, Cursor: v.Query("cursor")}
}

// ListOf returns a page of items from the API as a page of a list.
func ListOf[T any](v *Visit, items apitypes.Page[T], f Filters) List[T] {
	l := List[T]{Items: items.Data, Filters: f}
	if next := items.Next(); next != "" {
		l.Next = at(v, "cursor", next)
	}
	if v.Query("cursor") != "" {
		l.First = at(v, "cursor", "")
	}
	return l
}

// at returns the URL of this page with another value of one parameter.
func at(v *Visit, name, value string) string {
	query := v.Request.URL.Query()
	query.Set(name, value)
	for name, values := range query {
		if values[0] == "" {
			query.Del(name)
		}
	}
	return (&url.URL{Path: v.Request.URL.Path, RawQuery: query.Encode()}).RequestURI()
}

// TextFilter returns a filter by a text that a person types.
func (v *Visit) TextFilter(name string) Filter {
	return Filter{Name: name, Kind: "text", Value: v.Query(name)}
}

// Choice returns a filter by one of the values. Their labels are the texts
// PREFIX.VALUE.
func (v *Visit) Choice(name, prefix string, values ...string) Filter {
	f := Filter{Name: name, Kind: "select", Value: v.Query(name)}
	for _, value := range values {
		f.Options = append(f.Options, Choice{value, v.T(prefix + "." + value)})
	}
	return f
}

// Without returns the filter with another label for the choice without a value. A list uses it if
// it leaves some items out by default.
func (f Filter) Without(label string) Filter {
	f.None = label
	return f
}

// LocalTime is the layout of a time in an HTML field of the type datetime-local.
const LocalTime = "2006-01-02T15:04"

// LocalInstant returns the time in such a field, in the zone of the person.
func (v *Visit) LocalInstant(typed string) (time.Time, error) {
	at, err := time.ParseInLocation(LocalTime, typed, v.Zone)
	if err != nil { // with the seconds, which some browsers send
		at, err = time.ParseInLocation(LocalTime+":05", typed, v.Zone)
	}
	return at, err
}

// TimeFilter returns a filter by a time, and the time. Zero: the field is empty or cannot be
// read, so there is no filter.
func (v *Visit) TimeFilter(name string) (Filter, time.Time) {
	f := Filter{Name: name, Kind: "time"}
	for _, layout := range []string{LocalTime, LocalTime + ":05", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, v.Query(name), v.Zone); err == nil {
			f.Value = at.In(v.Zone).Format(LocalTime)
			return f, at
		}
	}
	return f, time.Time{}
}

// sinces has the spans that end now, by their names in the URL.
var sinces = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

// SpanFilter returns the filters by the time of creation, and the span that they select. If
// from or to is given, since is ignored.
func (v *Visit) SpanFilter() (f Filters, from, to time.Time) {
	since := v.Choice("since", "since", "1h", "24h", "7d")
	fromFilter, from := v.TimeFilter("from")
	toFilter, to := v.TimeFilter("to")
	if ago := sinces[since.Value]; ago > 0 && from.IsZero() && to.IsZero() {
		from = v.Now.Add(-ago)
	}
	return Filters{since, fromFilter, toFilter}, from, to
}

// Listed is the data of a page with a list. Faults has the filters that the API refused, with the
// reasons; the person corrects them in place.
type Listed[T any] struct {
	List[T]

	Faults map[string]string
}

// RowsOf returns a page of items from the API as rows.
func RowsOf[T, R any](items apitypes.Page[T], row func(T) R) apitypes.Page[R] {
	rows := apitypes.Page[R]{NextCursor: items.NextCursor}
	for _, item := range items.Data {
		rows.Data = append(rows.Data, row(item))
	}
	return rows
}

// ShowList ends the handler of a list. items and err are what the API returned.
func ShowList[T any](v *Visit, p View, items apitypes.Page[T], err error) error {
	faults := v.Faulty(err)
	if err != nil && faults == nil {
		return err
	}
	p.Data = Listed[T]{ListOf(v, items, p.Filters), faults}
	p.Refused = faults != nil
	return v.Show(p)
}

// Command returns the CLI command for the last call of the API. Each parameter of the call is a
// flag of the same name. The cursor and the limit are left out, because they belong to the page.
func (v *Visit) Command(name string) string {
	if len(v.calls.made) == 0 {
		return name
	}
	_, raw, _ := strings.Cut(v.calls.made[len(v.calls.made)-1].Path, "?")
	query, _ := url.ParseQuery(raw) // the client made the query, so it can be parsed
	for _, parameter := range slices.Sorted(maps.Keys(query)) {
		flag, value := " --"+strings.ReplaceAll(parameter, "_", "-"), query.Get(parameter)
		switch {
		case parameter == "limit", parameter == "cursor":
		case value == "true":
			name += flag
		default:
			name += flag + "=" + ShellWord(value)
		}
	}
	return name
}

// plainWord matches text that a shell needs no quotes for.
var plainWord = regexp.MustCompile(`^[\w.:@/+-]+$`)

// ShellWord returns a value as one word of a shell command.
func ShellWord(value string) string {
	if plainWord.MatchString(value) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// textID is a pointer to an id that can be parsed from text.
type textID[I any] interface {
	*I
	encoding.TextUnmarshaler
}

// OfID returns the handler of a page about the object whose id is in the path. If the text is not
// an id, the error matches postrider.ErrNotFound.
func OfID[I any, P textID[I]](name string, handle func(*Visit, I) error) func(*Visit) error {
	return func(v *Visit) error {
		id, err := PathID[I, P](v, name)
		if err != nil {
			return err
		}
		return handle(v, id)
	}
}

// IDFilter returns a filter by an id, and the id. If the text is not an id, IDFilter returns the
// error, because the client takes only ids.
func IDFilter[I any, P textID[I]](v *Visit, name string) (f Filter, id I, err error) {
	f = v.TextFilter(name)
	if f.Value == "" {
		return f, id, nil
	}
	if id, err = postrider.ParseID[I, P](f.Value); err != nil {
		err = &client.Error{Status: http.StatusUnprocessableEntity, Fields: []apitypes.Fault{{Field: name, Reason: v.T("filter.no_id")}}}
	}
	return f, id, err
}
