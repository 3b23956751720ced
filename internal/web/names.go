package web

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// shownName is what a list shows of an endpoint or an account instead of its id.
type shownName struct {
	Text  string // cut at its end where it is too long
	Title string // the whole

	// Of an endpoint: where its requests go, in three parts that are Text together. A list
	// that has no place for all of Start cuts it, so that Host and End tell endpoints apart.
	Host, Start, End string

	About   string              // the description of an endpoint
	Account postrider.AccountID // of an endpoint; zero: it is not known
}

// names has what the page shows for ids. The handler fills it before the page is rendered;
// an id that is not in it is shown as it is.
type names struct {
	endpoints map[postrider.EndpointID]shownName
	accounts  map[postrider.AccountID]shownName
}

// identifier is the id of an object.
type identifier interface {
	comparable
	String() string
}

// nameOr returns the name of an id, else the id.
func nameOr[I identifier](names map[I]shownName, of I) shownName {
	if n, ok := names[of]; ok {
		return n
	}
	return shownName{Text: of.String(), Title: of.String(), Start: of.String()}
}

// maxNames is how many names a visit keeps, and namesAtOnce how many one call asks for.
const (
	maxNames    = 1000 // a stream of the live tail begins anew then
	namesAtOnce = 100
)

// nameEndpoints reads the names of those endpoints that have none yet, all in one call.
func (v *visit) nameEndpoints(ctx context.Context, ids []postrider.EndpointID) error {
	if v.names.endpoints == nil || len(v.names.endpoints) > maxNames {
		v.names.endpoints = map[postrider.EndpointID]shownName{}
	}
	ids = slices.Clone(ids)
	slices.SortFunc(ids, postrider.EndpointID.Compare)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id postrider.EndpointID) bool {
		_, known := v.names.endpoints[id]
		return known
	})
	if len(ids) == 0 {
		return nil
	}
	page, err := v.api.Endpoints(ctx, client.EndpointFilter{IDs: ids[:min(len(ids), namesAtOnce)], Paging: client.Paging{Limit: namesAtOnce}})
	if err != nil {
		return err
	}
	for _, e := range page.Data {
		v.names.endpoints[e.ID] = v.nameOf(e)
	}
	return nil
}

// place returns where the requests of an endpoint go, without the scheme.
func place(v *visit, e apitypes.Endpoint) string {
	whole := where(v, e)
	if _, rest, absolute := strings.Cut(whole, "://"); absolute {
		return rest
	}
	return whole
}

// nameOf returns where the requests of an endpoint go, with its description and its account.
func (v *visit) nameOf(e apitypes.Endpoint) shownName {
	n := shownName{Text: place(v, e), Title: where(v, e), About: e.Description, Account: e.Account}
	if e.Description != "" {
		n.Title = e.Description + " · " + n.Title
	}
	n.Host, n.Start, n.End = parts(n.Text)
	return n
}

// wholeEnd is how long the last part of a path may be that is never cut.
const wholeEnd = 24

// parts returns the host of a place, the beginning of its path, and the end of its path,
// which is its last part, or the end of that.
func parts(place string) (host, start, end string) {
	slash := strings.IndexByte(place, '/')
	if slash < 0 {
		return place, "", ""
	}
	host, path := place[:slash], []rune(place[slash:])
	cut := len(path) - 1
	for cut > 0 && path[cut] != '/' {
		cut--
	}
	return host, string(path[:max(cut, len(path)-wholeEnd)]), string(path[max(cut, len(path)-wholeEnd):])
}

// nameAccount reads the name of one account, for the page of what belongs to it. An error is
// ignored: the page shows the id.
func (v *visit) nameAccount(id postrider.AccountID) {
	if v.who != operators {
		return
	}
	if a, err := v.api.Account(v.ctx, id.String()); err == nil && a.Name != "" {
		v.names.accounts = map[postrider.AccountID]shownName{id: {Text: a.Name, Title: a.Name}}
	}
}

// nameTroubled names the endpoints that need a person, and their accounts.
func (v *visit) nameTroubled(troubled []apitypes.TroubledEndpoint) {
	if v.names.endpoints == nil {
		v.names.endpoints = map[postrider.EndpointID]shownName{}
	}
	for _, t := range troubled {
		v.names.endpoints[t.Endpoint] = v.nameOf(apitypes.Endpoint{ID: t.Endpoint, Account: t.Account, URL: t.URL, Description: t.Description})
	}
	if v.names.accounts == nil && v.who == operators {
		v.accountFilter()
	}
}

// listItem is a delivery or a dead letter.
type listItem interface {
	apitypes.Delivery | apitypes.DeadLetter
}

// nameItems reads the names of the endpoints of a list.
func nameItems[T listItem](v *visit, items []T) error {
	var ids []postrider.EndpointID
	for _, item := range items {
		switch item := any(item).(type) {
		case apitypes.Delivery:
			ids = append(ids, item.Endpoint)
		case apitypes.DeadLetter:
			ids = append(ids, item.Endpoint)
		}
	}
	return v.nameEndpoints(v.ctx, ids)
}

// endpointFilter returns a filter by an endpoint, with the newest endpoints to choose from.
// Its text is an id, or what the search finds one endpoint by: a part of its URL,
// description or uid.
func (v *visit) endpointFilter() (f filter, id postrider.EndpointID, err error) {
	f = v.textFilter("endpoint")
	page, err := v.api.Endpoints(v.ctx, client.EndpointFilter{Account: v.query("account"), Paging: client.Paging{Limit: pageSize}})
	if _, refused := v.faulty(err); err != nil && !refused { // a refused account is the fault of its own filter
		return f, id, err
	}
	for _, e := range page.Data {
		f.Options = append(f.Options, choice{e.ID.String(), v.nameOf(e).Title})
	}
	if f.Value == "" {
		return f, id, nil
	}
	if id, err = postrider.ParseID[postrider.EndpointID](f.Value); err == nil {
		return f, id, nil
	}
	hits, err := v.api.Search(v.ctx, f.Value)
	if err != nil {
		return f, id, err
	}
	hits = slices.DeleteFunc(hits, func(h apitypes.SearchHit) bool { return h.Kind != "endpoint" })
	if len(hits) == 1 {
		id, err = postrider.ParseID[postrider.EndpointID](hits[0].ID)
		return f, id, err
	}
	return f, id, &client.Error{Status: http.StatusUnprocessableEntity, Fields: []apitypes.Fault{{
		Field: "endpoint", Reason: v.t("filter.no_endpoint", "n", len(hits)),
	}}}
}

// accountFilter returns a filter by an account, by its id or uid, with the newest accounts
// to choose from. The page shows the names of these accounts. An error is ignored: without
// the accounts to choose from it is still a filter, and the list reports a store that is
// away.
func (v *visit) accountFilter() filter {
	f := v.textFilter("account")
	page, _ := v.api.Accounts(v.ctx, client.Paging{Limit: namesAtOnce})
	v.names.accounts = map[postrider.AccountID]shownName{}
	for _, a := range page.Data {
		if a.Name == "" {
			continue
		}
		v.names.accounts[a.ID] = shownName{Text: a.Name, Title: a.Name}
		f.Options = append(f.Options, choice{a.ID.String(), a.Name})
	}
	return f
}
