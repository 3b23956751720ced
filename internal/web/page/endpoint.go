package page

import (
	"net/http"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// Endpoint returns the endpoint in the path of the request.
func (v *Visit) Endpoint() (apitypes.Endpoint, error) {
	id, err := PathID[postrider.EndpointID](v, "endpoint")
	if err != nil {
		return apitypes.Endpoint{}, err
	}
	return v.API.Endpoint(v.Context, id)
}

// deletedError says that the endpoint of a page is deleted. It is also the data of the error
// page.
type deletedError struct {
	Endpoint apitypes.Endpoint
	Tab      string
}

// Error says which endpoint is deleted.
func (e *deletedError) Error() string { return "endpoint " + e.Endpoint.ID.String() + " is deleted" }

// OfEndpoint returns the handler of a page about the endpoint in the path. For a deleted endpoint
// it returns a deletedError. For a page (GET), it reads the name of the account.
func OfEndpoint(handle func(*Visit, apitypes.Endpoint) error) func(*Visit) error {
	return func(v *Visit) error {
		e, err := v.Endpoint()
		switch {
		case err != nil:
			return err
		case e.Status == postrider.EndpointDeleted:
			return &deletedError{Endpoint: e}
		case v.Request.Method == http.MethodGet:
			v.NameAccount(e.Account)
		}
		return handle(v, e)
	}
}

// Where returns the URL of an endpoint; for an inspector, a text that says so.
func Where(v *Visit, e apitypes.Endpoint) string {
	if e.Kind == postrider.KindInspector {
		return v.T("endpoint.inspector")
	}
	return e.URL
}

// place returns what Where returns, without the scheme.
func place(v *Visit, e apitypes.Endpoint) string {
	whole := Where(v, e)
	if _, rest, absolute := strings.Cut(whole, "://"); absolute {
		return rest
	}
	return whole
}

// NameOf returns where the requests of an endpoint go, with its description and its account.
func (v *Visit) NameOf(e apitypes.Endpoint) Name {
	n := Name{Text: place(v, e), Title: Where(v, e), About: e.Description, Account: e.Account}
	if e.Description != "" {
		n.Title = e.Description + " · " + n.Title
	}
	n.Host, n.Start, n.End = parts(n.Text)
	return n
}

// wholeEnd is the length up to which the last part of a path is not cut.
const wholeEnd = 24

// parts splits a place into the host, the beginning of the path, and the end of the path. The end
// is the last part of the path; if the last part is long, it is only the end of that part.
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

// TestTypes returns the types for a test event for the endpoint: the standard type, and the types
// of the catalogue that the endpoint subscribed to.
func TestTypes(v *Visit, e apitypes.Endpoint) ([]string, error) {
	catalogue, err := v.API.EventTypes(v.Context, client.Paging{Limit: 250})
	if err != nil {
		return nil, err
	}
	types := []string{apitypes.TestType}
	for _, t := range catalogue.Data {
		if slices.ContainsFunc(e.EventTypes, func(p string) bool { return postrider.Pattern(p).Matches(t.Name) }) {
			types = append(types, t.Name)
		}
	}
	return types, nil
}
