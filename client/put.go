package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/postrider/postrider/apitypes"
)

// IfRevision returns a client whose changes of accounts, endpoints and event types are made only while
// the object has the revision. Otherwise the error matches [postrider.ErrConflict]. If a response was
// lost and the request is repeated, that can be because the first try has made the change.
func (c *Client) IfRevision(revision int64) *Client {
	conditional := *c
	conditional.ifMatch = strconv.Quote(strconv.FormatInt(revision, 10))
	return &conditional
}

// PutAccount creates the account with the uid, or replaces it: a field that a does not set gets its
// default. Its quotas, keys and endpoints stay. An id instead of a uid replaces the account.
func (c *Client) PutAccount(ctx context.Context, account string, a apitypes.AccountPut) (apitypes.Account, error) {
	return put[apitypes.Account](ctx, c, "/accounts/"+url.PathEscape(account), a)
}

// PutEndpoint creates the endpoint that is named ACCOUNT:UID, or with a key of its account UID, or
// replaces it: a field that e does not set gets its default. Its secrets, status, circuit and history
// stay. An id instead of a name replaces the endpoint. Only a response to a creation has the secret.
func (c *Client) PutEndpoint(ctx context.Context, name string, e apitypes.EndpointPut) (apitypes.Endpoint, error) {
	return put[apitypes.Endpoint](ctx, c, "/endpoints/"+url.PathEscape(name), e)
}

// PutEventType adds the event type to the catalogue, or replaces it: a field that t does not set gets
// its default.
func (c *Client) PutEventType(ctx context.Context, name string, t apitypes.EventTypePut) (apitypes.EventType, error) {
	return put[apitypes.EventType](ctx, c, "/event-types/"+url.PathEscape(name), t)
}
