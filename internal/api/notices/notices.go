// Package notices is the part of the API that lists notices, and serves the destinations to which
// notices are sent. [Readers] serves the links in emails.
//
// A new email address gets one message that asks its reader for confirmation. It gets no other
// message before the reader confirms.
package notices

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Notices is the method of store.Notices.
	Notices(ctx context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error)
	// Destinations is the method of store.Destinations.
	Destinations(ctx context.Context, q store.DestinationQuery) (store.Page[postrider.Destination], error)
	// PutDestination is the method of store.Destinations.
	PutDestination(ctx context.Context, d postrider.Destination, most int) error
	// ChangeDestination is the method of store.Destinations.
	ChangeDestination(ctx context.Context, c store.ChangeDestination) (postrider.Destination, error)
	// DeleteDestination is the method of store.Destinations.
	DeleteDestination(ctx context.Context, d postrider.DestinationID) error
}

// Guard checks the URLs of webhooks.
type Guard interface {
	// CheckURL returns the canonical form of raw, or a *postrider.InvalidError
	// for the field "url".
	CheckURL(raw string) (string, error)
}

// Deps has what the routes of notices need.
type Deps struct {
	*rest.Shared

	Store Store
	Guard Guard
	// PublicURL is the URL at which people reach this server. Empty: no links can be made.
	PublicURL string
	// Mail is true if the server has a mail server. Without one, no email address can be added.
	Mail bool
}

// Routes serves notices and their destinations.
type Routes struct {
	Deps

	// confirmations limits the confirmation messages of one account. addresses limits those to one
	// email address. tests limits the test messages to one destination.
	confirmations *rest.Limiter[postrider.AccountID]
	addresses     *rest.Limiter[string]
	tests         *rest.Limiter[postrider.DestinationID]
}

// New returns the routes of notices.
func New(d Deps) *Routes {
	return &Routes{
		Deps: d,
		confirmations: rest.NewLimiter[postrider.AccountID](confirmEvery, 10,
			"an account can have ten confirmations sent at once, then one every six minutes; see Retry-After"),
		addresses: rest.NewLimiter[string](addressEvery, 3,
			"an address gets at most three confirmations at once, then one an hour; see Retry-After"),
		tests: rest.NewLimiter[postrider.DestinationID](testEvery, 3,
			"a destination gets at most three tests at once, then one a minute; see Retry-After"),
	}
}

// Register registers the routes of notices and of their destinations.
func (s *Routes) Register(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "list-notices", Path: "GET /notices",
		Summary: "List notices, newest first",
		Description: "A notice tells people what they should know without having to look: an endpoint that fails, was disabled or " +
			"has recovered, a replay that has finished, a chore of the server that keeps failing. A key that is bound to an account gets the " +
			"notices of its account, other keys get all.",
		Scope: postrider.ScopeWebhooksRead,
	}, s.listNotices)
	s.registerDestinations(rt)
}

// listNotices lists the notices that all given filters select.
func (s *Routes) listNotices(ctx context.Context, in *struct {
	Account string `query:"account" doc:"Id or uid of the account."`
	Kind    string `query:"kind" maxLength:"64" doc:"What they are about, such as endpoint.disabled."`
	Object  string `query:"object" maxLength:"256" doc:"Id of the endpoint or replay, or name of the chore."`
	rest.Span
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Notice]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(apitypes.NoticeOf)(s.Store.Notices(ctx, store.NoticeQuery{
		Account: account, Kind: postrider.NoticeKind(in.Kind), Object: in.Object, Span: in.Span.Of(), Paging: in.Paging.Of(),
	}))
}
