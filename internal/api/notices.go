package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// notices registers the route of notices.
func (rt *router) notices() {
	handle(rt, route{
		name: "list-notices", path: "GET /notices",
		summary: "List notices, newest first",
		description: "A notice tells people what they should know without having to look: an endpoint that fails, was disabled or " +
			"has recovered, a replay that has finished, a chore of the server that keeps failing. A key that is bound to an account gets the " +
			"notices of its account, other keys get all.",
		scope: postrider.ScopeWebhooksRead,
	}, rt.listNotices)
}

// listNotices lists the notices that all given filters select.
func (s *server) listNotices(ctx context.Context, in *struct {
	Account string `query:"account" doc:"Id or uid of the account."`
	Kind    string `query:"kind" maxLength:"64" doc:"What they are about, such as endpoint.disabled."`
	Object  string `query:"object" maxLength:"256" doc:"Id of the endpoint or replay, or name of the chore."`
	Span
	Paging
},
) (*reply[apitypes.Page[apitypes.Notice]], error) {
	account, err := s.resolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return respondPage(apitypes.NoticeOf)(s.Store.Notices(ctx, store.NoticeQuery{
		Account: account, Kind: postrider.NoticeKind(in.Kind), Object: in.Object, Span: in.Span.of(), Paging: in.Paging.of(),
	}))
}
