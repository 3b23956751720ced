// Package inspections is the part of the API that shows the requests that inspector endpoints
// received.
package inspections

import (
	"context"
	"unicode/utf8"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Inspections is the method of store.Inspections.
	Inspections(ctx context.Context, q store.InspectionQuery) (store.Page[postrider.Inspection], error)
}

// Routes serves the requests that inspector endpoints received.
type Routes struct {
	*rest.Shared

	Store Store
}

// Register registers the routes that read these requests.
func (s *Routes) Register(rt *rest.Router) {
	const kept = "The newest 100 are kept, for 24 hours. It is a conflict if the endpoint is no inspector."
	rest.Handle(rt, rest.Route{
		Name: "list-inspections", Path: "GET /endpoints/{endpoint}/requests",
		Summary: "List the requests that an inspector endpoint got, newest first", Description: kept,
		Codes: []string{"endpoint_no_inspector"},
		Scope: postrider.ScopeWebhooksRead,
	}, s.listInspections)
	rest.Handle(rt, rest.Route{
		Name: "get-inspection", Path: "GET /endpoints/{endpoint}/requests/{request}",
		Summary: "Get a request that an inspector endpoint got, with its body", Description: kept,
		Codes: []string{"endpoint_no_inspector"},
		Scope: postrider.ScopeWebhooksRead,
	}, s.getInspection)
}

// findInspector returns the endpoint if the caller may see the endpoint and it is an inspector.
func (s *Routes) findInspector(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.Names.Endpoint(ctx, text)
	if err == nil && e.Kind != postrider.KindInspector {
		err = rest.Conflict("endpoint_no_inspector", "the endpoint is no inspector: its requests are sent to its URL")
	}
	return e, err
}

func (s *Routes) listInspections(ctx context.Context, in *struct {
	rest.EndpointPath
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Inspection]], error) {
	e, err := s.findInspector(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewInspection)(s.Store.Inspections(ctx, store.InspectionQuery{Endpoint: e.ID, Paging: in.Paging.Of()}))
}

func (s *Routes) getInspection(ctx context.Context, in *struct {
	rest.EndpointPath
	Request string `path:"request"`
},
) (*rest.Reply[apitypes.Inspection], error) {
	e, err := s.findInspector(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	id, err := rest.ParseID[postrider.InspectionID](in.Request)
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(viewInspection)(store.First(s.Store.Inspections(ctx, store.InspectionQuery{Endpoint: e.ID, ID: id})))
}

// viewInspection returns a request in the form of a response. A body that is UTF-8 is returned as
// text, without a character that was cut at its end. Any other body is returned as bytes.
func viewInspection(i postrider.Inspection) apitypes.Inspection {
	view := apitypes.Inspection{
		ID: i.ID, Endpoint: i.Endpoint, Delivery: i.Delivery, Event: i.Event, EventType: i.EventType, Attempt: i.Attempt,
		At: render.Instant(i.At), Headers: render.Header(i.Header), BodyBytes: i.BodyBytes, Verdicts: []apitypes.Verdict{},
	}
	switch text := wholeCharacters(i.Body, i.BodyBytes); {
	case i.Body == nil:
	case utf8.Valid(text):
		view.Body = render.OrNull(string(text))
	default:
		view.BodyRaw = i.Body
	}
	for _, v := range i.Verdicts {
		view.Verdicts = append(view.Verdicts, apitypes.Verdict{
			Scheme: v.Scheme, Header: v.Header, Valid: v.Error == "", Secret: render.OrNull(v.Secret), Reason: render.OrNull(v.Error),
		})
	}
	return view
}

// wholeCharacters returns the body without a character that was cut at its end. size is the length
// of the whole body, in bytes.
func wholeCharacters(body []byte, size int) []byte {
	for n := 1; len(body) < size && n < utf8.UTFMax && n <= len(body); n++ {
		if start := len(body) - n; utf8.RuneStart(body[start]) {
			if !utf8.FullRune(body[start:]) {
				return body[:start]
			}
			break
		}
	}
	return body
}
