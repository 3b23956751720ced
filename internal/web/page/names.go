package page

import (
	"context"
	"net/http"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// Words returns the values of a list of named strings.
func Words[T ~string](values []T) []string {
	out := make([]string, 0, len(values))
	for _, value := range values {
		out = append(out, string(value))
	}
	return out
}

// Name is what a list shows of an endpoint or an account instead of its id.
type Name struct {
	Text  string // cut at its end where it is too long
	Title string // the whole

	// Of an endpoint: where its requests go, in three parts that are Text together. A list
	// that has no place for all of Start cuts it, so that Host and End tell endpoints apart.
	Host, Start, End string

	About   string              // the description of an endpoint
	Account postrider.AccountID // of an endpoint; zero: it is not known
}

// Names has what the page shows for ids. The handler fills it before the page is rendered;
// an id that is not in it is shown as it is.
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

// maxNames is how many names a visit keeps, and namesAtOnce how many one call asks for.
const (
	maxNames    = 1000 // a stream of the live tail begins anew then
	namesAtOnce = 100
)

// NameEndpoints reads the names of those endpoints that have none yet, all in one call.
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

// NameAccount reads the name of one account, for the page of what belongs to it. An error is
// ignored: the page shows the id.
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

// EndpointFilter returns a filter by an endpoint, with the newest endpoints to choose from.
// Its text is an id, or what the search finds one endpoint by: a part of its URL,
// description or uid.
func (v *Visit) EndpointFilter() (f Filter, id postrider.EndpointID, err error) {
	f = v.TextFilter("endpoint")
	page, err := v.API.Endpoints(v.Context, client.EndpointFilter{Account: v.Query("account"), Paging: client.Paging{Limit: Size}})
	if err != nil && v.Faulty(err) == nil { // a refused account is the fault of its own filter
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

// AccountFilter returns a filter by an account, by its id or uid, with the newest accounts
// to choose from; none for customers, who see one account. The page shows the names of these
// accounts. An error is ignored: without the accounts to choose from it is still a filter, and
// the list reports a store that is away.
func (v *Visit) AccountFilter() Filters {
	if v.Who != Operators {
		return nil
	}
	f := v.TextFilter("account")
	page, _ := v.API.Accounts(v.Context, client.Paging{Limit: namesAtOnce})
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
