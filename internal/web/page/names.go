package page

import (
	"context"
	"net/http"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// Words returns the values of a list of named string types as strings.
func Words[T ~string](values []T) []string {
	out := make([]string, 0, len(values))
	for _, value := range values {
		out = append(out, string(value))
	}
	return out
}

// Name is what a list shows instead of the id of an endpoint or an account.
type Name struct {
	Text  string // cut at its end if it is too long
	Title string // the uncut text

	// Host, Start and End are the three parts of Text, for an endpoint. If a list has no space
	// for Start, it cuts Start, so that Host and End still tell endpoints apart.
	Host, Start, End string

	About   string              // the description of an endpoint
	Account postrider.AccountID // of an endpoint; zero: unknown
}

// Names has the names that the page shows instead of ids. The handler fills it before the page is
// rendered. If an id has no name, the page shows the id.
type Names struct {
	Endpoints map[postrider.EndpointID]Name
	Accounts  map[postrider.AccountID]Name
}

// identifier is the id of an object.
type identifier interface {
	comparable
	String() string
}

// nameOr returns the name of an id, else the id.
func nameOr[I identifier](names map[I]Name, of I) Name {
	if n, ok := names[of]; ok {
		return n
	}
	return Name{Text: of.String(), Title: of.String(), Start: of.String()}
}

// maxNames limits the names that a visit keeps; namesAtOnce limits the names of one call.
const (
	maxNames    = 1000 // beyond it, a stream of the live tail drops its names and reads them again
	namesAtOnce = 100
)

// NameEndpoints reads the names of the endpoints that have no name yet, all in one call.
func (v *Visit) NameEndpoints(ctx context.Context, ids []postrider.EndpointID) error {
	if v.Names.Endpoints == nil || len(v.Names.Endpoints) > maxNames {
		v.Names.Endpoints = map[postrider.EndpointID]Name{}
	}
	ids = slices.Clone(ids)
	slices.SortFunc(ids, postrider.EndpointID.Compare)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id postrider.EndpointID) bool {
		_, known := v.Names.Endpoints[id]
		return known
	})
	if len(ids) == 0 {
		return nil
	}
	page, err := v.API.Endpoints(ctx, client.EndpointFilter{IDs: ids[:min(len(ids), namesAtOnce)], Paging: client.Paging{Limit: namesAtOnce}})
	if err != nil {
		return err
	}
	for _, e := range page.Data {
		v.Names.Endpoints[e.ID] = v.NameOf(e)
	}
	return nil
}

// NameAccount reads the name of an account for a page about one of its objects. It ignores an
// error; the page then shows the id.
func (v *Visit) NameAccount(id postrider.AccountID) {
	if v.Who != Operators {
		return
	}
	if a, err := v.API.Account(v.Context, id.String()); err == nil && a.Name != "" {
		v.Names.Accounts = map[postrider.AccountID]Name{id: {Text: a.Name, Title: a.Name}}
	}
}

// item is a delivery or a dead letter.
type item interface {
	apitypes.Delivery | apitypes.DeadLetter
}

// NameItems reads the names of the endpoints of a list.
func NameItems[T item](v *Visit, items []T) error {
	var ids []postrider.EndpointID
	for _, item := range items {
		switch item := any(item).(type) {
		case apitypes.Delivery:
			ids = append(ids, item.Endpoint)
		case apitypes.DeadLetter:
			ids = append(ids, item.Endpoint)
		}
	}
	return v.NameEndpoints(v.Context, ids)
}

// EndpointFilter returns a filter by an endpoint, with the newest endpoints as choices. A person
// may type an id, or a part of the URL, description or uid with which the search finds one
// endpoint.
func (v *Visit) EndpointFilter() (f Filter, id postrider.EndpointID, err error) {
	f = v.TextFilter("endpoint")
	page, err := v.API.Endpoints(v.Context, client.EndpointFilter{Account: v.Query("account"), Paging: client.Paging{Limit: Size}})
	if err != nil && v.Faulty(err) == nil { // if the API refused the account, the filter of the account shows the fault
		return f, id, err
	}
	for _, e := range page.Data {
		f.Options = append(f.Options, Choice{e.ID.String(), v.NameOf(e).Title})
	}
	if f.Value == "" {
		return f, id, nil
	}
	if id, err = postrider.ParseID[postrider.EndpointID](f.Value); err == nil {
		return f, id, nil
	}
	hits, err := v.API.Search(v.Context, f.Value)
	if err != nil {
		return f, id, err
	}
	hits = slices.DeleteFunc(hits, func(h apitypes.SearchHit) bool { return h.Kind != "endpoint" })
	if len(hits) == 1 {
		id, err = postrider.ParseID[postrider.EndpointID](hits[0].ID)
		return f, id, err
	}
	return f, id, &client.Error{Status: http.StatusUnprocessableEntity, Fields: []apitypes.Fault{{
		Field: "endpoint", Reason: v.T("filter.no_endpoint", "n", len(hits)),
	}}}
}

// AccountFilter returns a filter by an account, by its id or uid, with the newest accounts as
// choices. The page shows the names of these accounts. Customers get no filter, because they see
// one account. AccountFilter ignores an error: the filter works without choices, and the list
// itself reports a store that is unreachable.
func (v *Visit) AccountFilter() Filters {
	if v.Who != Operators {
		return nil
	}
	f := v.TextFilter("account")
	page, _ := v.API.Accounts(v.Context, client.AccountFilter{Paging: client.Paging{Limit: namesAtOnce}})
	v.Names.Accounts = map[postrider.AccountID]Name{}
	for _, a := range page.Data {
		if a.Name == "" {
			continue
		}
		v.Names.Accounts[a.ID] = Name{Text: a.Name, Title: a.Name}
		f.Options = append(f.Options, Choice{a.ID.String(), a.Name})
	}
	return Filters{f}
}
