package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// CreateAccount creates an account. If the uid is taken, the error matches
// [postrider.ErrConflict].
func (c *Client) CreateAccount(ctx context.Context, a apitypes.AccountCreate) (apitypes.Account, error) {
	return post[apitypes.Account](ctx, c, "/accounts", a)
}

// Accounts lists accounts, newest first.
func (c *Client) Accounts(ctx context.Context, f AccountFilter) (apitypes.Page[apitypes.Account], error) {
	return get[apitypes.Page[apitypes.Account]](ctx, c, "/accounts"+query(f.Paging, withMetadata(f.Metadata)...))
}

// Account returns an account by its id or uid.
func (c *Client) Account(ctx context.Context, account string) (apitypes.Account, error) {
	return get[apitypes.Account](ctx, c, "/accounts/"+url.PathEscape(account))
}

// ChangeAccount changes an account, which is named by its id or uid. A field that change does not
// set keeps its value.
func (c *Client) ChangeAccount(ctx context.Context, account string, change apitypes.AccountUpdate) (apitypes.Account, error) {
	return patch[apitypes.Account](ctx, c, "/accounts/"+url.PathEscape(account), change)
}

// DeleteAccount deletes an account. Its keys are revoked, its endpoints deleted
// and their pending deliveries cancelled. Its history stays.
func (c *Client) DeleteAccount(ctx context.Context, account string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/accounts/" + url.PathEscape(account)}, nil)
}

// AccountQuotas returns the limits of an account, and how much of them it has used. The account is
// named by its id or uid.
func (c *Client) AccountQuotas(ctx context.Context, account string) (apitypes.AccountQuotas, error) {
	return get[apitypes.AccountQuotas](ctx, c, "/accounts/"+url.PathEscape(account)+"/quotas")
}

// ChangeAccountQuotas changes the limits of an account. A limit that change does not set keeps its
// value.
func (c *Client) ChangeAccountQuotas(ctx context.Context, account string, change apitypes.QuotasUpdate) (apitypes.AccountQuotas, error) {
	return patch[apitypes.AccountQuotas](ctx, c, "/accounts/"+url.PathEscape(account)+"/quotas", change)
}

// Publish publishes an event. When it returns without an error, the event and its deliveries are on
// disk.
//
// After several tries, the receipt may report a duplicate although the event is new: an earlier try
// succeeded, but its response was lost.
func (c *Client) Publish(ctx context.Context, e apitypes.EventCreate) (apitypes.Receipt, error) {
	var out apitypes.Receipt
	if e.IdempotencyKey == "" && c.opts.Attempts > 1 {
		e.IdempotencyKey = newKey()
	}
	r := request{
		method: http.MethodPost, path: "/events", in: e, keyed: e.IdempotencyKey != "", hops: e.Hops, trace: e.TraceParent,
		traceState: e.TraceState,
	}
	err := c.call(ctx, r, &out)
	return out, err
}

// PublishBatch publishes up to 1,000 events, either all or none. The receipts are in the order of
// the events. If an idempotency key was used before for different content, the [*Error] has the
// Index of the event.
func (c *Client) PublishBatch(ctx context.Context, events []apitypes.EventCreate) ([]apitypes.BatchReceipt, error) {
	r := request{method: http.MethodPost, path: "/events/batch", keyed: true}
	events = slices.Clone(events)
	for i := range events {
		if events[i].IdempotencyKey == "" && c.opts.Attempts > 1 {
			events[i].IdempotencyKey = newKey()
		}
		r.keyed = r.keyed && events[i].IdempotencyKey != ""
		r.hops = max(r.hops, events[i].Hops)
		if r.trace == "" {
			r.trace, r.traceState = events[i].TraceParent, events[i].TraceState
		}
	}
	r.in = events
	var out apitypes.List[apitypes.BatchReceipt]
	err := c.call(ctx, r, &out)
	return out.Data, err
}

// Events lists events, without their data.
func (c *Client) Events(ctx context.Context, f EventFilter) (apitypes.Page[apitypes.Event], error) {
	return get[apitypes.Page[apitypes.Event]](ctx, c, "/events"+query(f.Paging,
		"account", f.Account, "type", f.Type, "idempotency_key", f.IdempotencyKey, "ordering_key", f.OrderingKey, "where", f.Where,
		"from", instant(f.From), "to", instant(f.To), "order", order(f.OldestFirst)))
}

// Event returns an event. It includes the data for as long as the server keeps the data.
func (c *Client) Event(ctx context.Context, id postrider.EventID) (apitypes.Event, error) {
	return get[apitypes.Event](ctx, c, "/events/"+id.String())
}

// ExplainEvent says whether an endpoint, named by its id or uid, wanted an event when it was published, and why.
func (c *Client) ExplainEvent(ctx context.Context, id postrider.EventID, endpoint string) (apitypes.EventExplanation, error) {
	return get[apitypes.EventExplanation](ctx, c, "/events/"+id.String()+"/explain"+query(Paging{}, "endpoint", endpoint))
}

// TrySubscription compares an event with a subscription. Nothing is published.
func (c *Client) TrySubscription(ctx context.Context, d apitypes.DryRun) (apitypes.Comparison, error) {
	return post[apitypes.Comparison](ctx, c, "/events/dry-run", d)
}

// WhatIf compares the stored events of an endpoint's account with a change of its subscription. The
// result may have a cursor with which the same call goes on.
func (c *Client) WhatIf(ctx context.Context, id postrider.EndpointID, w apitypes.WhatIf) (apitypes.WhatIfResult, error) {
	return post[apitypes.WhatIfResult](ctx, c, "/endpoints/"+id.String()+"/what-if", w)
}

// EventAttempts lists the attempts of all of an event's deliveries.
func (c *Client) EventAttempts(ctx context.Context, id postrider.EventID, p Paging) (apitypes.Page[apitypes.Attempt], error) {
	return get[apitypes.Page[apitypes.Attempt]](ctx, c, "/events/"+id.String()+"/attempts"+query(p))
}

// ReplayEvent creates a job of the server that replays the last delivery of an event to each
// endpoint; see [Client.Replay]. The zero filter selects all endpoints of the event.
func (c *Client) ReplayEvent(ctx context.Context, id postrider.EventID, f apitypes.EventReplay) (apitypes.Replay, error) {
	return post[apitypes.Replay](ctx, c, "/events/"+id.String()+"/replay", f)
}

// CreateEndpoint creates an endpoint. The response has its secret.
func (c *Client) CreateEndpoint(ctx context.Context, e apitypes.EndpointCreate) (apitypes.Endpoint, error) {
	return post[apitypes.Endpoint](ctx, c, "/endpoints", e)
}

// Endpoints lists endpoints, newest first.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (apitypes.Page[apitypes.Endpoint], error) {
	failing := ""
	if f.Failing != nil {
		failing = strconv.FormatBool(*f.Failing)
	}
	ids := make([]string, 0, len(f.IDs))
	for _, id := range f.IDs {
		ids = append(ids, id.String())
	}
	return get[apitypes.Page[apitypes.Endpoint]](ctx, c,
		"/endpoints"+query(f.Paging, withMetadata(f.Metadata, "account", f.Account, "uid", f.UID, "ids", strings.Join(ids, ","),
			"status", string(f.Status), "health", string(f.Health), "circuit", string(f.Circuit), "failing", failing)...))
}

// Endpoint returns an endpoint, also a deleted one.
func (c *Client) Endpoint(ctx context.Context, id postrider.EndpointID) (apitypes.Endpoint, error) {
	return get[apitypes.Endpoint](ctx, c, "/endpoints/"+id.String())
}

// ChangeEndpoint changes an endpoint. A field that change does not set keeps its value.
func (c *Client) ChangeEndpoint(ctx context.Context, id postrider.EndpointID, change apitypes.EndpointUpdate) (apitypes.Endpoint, error) {
	return patch[apitypes.Endpoint](ctx, c, "/endpoints/"+id.String(), change)
}

// VerifyEndpoint asks an endpoint's receiver whether it wants events. If the endpoint is paused
// until its receiver agrees, an agreement enables it. The method is challenge or cloudevents. If it
// is empty, the server uses the method that its operator has configured. If the receiver does not
// agree, the error matches [postrider.ErrConflict] and has the code verification_failed.
func (c *Client) VerifyEndpoint(ctx context.Context, id postrider.EndpointID, method string) (apitypes.Endpoint, error) {
	return post[apitypes.Endpoint](ctx, c, "/endpoints/"+id.String()+"/verify", apitypes.EndpointVerification{Method: method})
}

// Stats returns the statistics of everything that the key may see.
func (c *Client) Stats(ctx context.Context, q StatsQuery) (apitypes.Stats, error) {
	return get[apitypes.Stats](ctx, c, "/stats"+q.query())
}

// AccountStats returns the statistics of an account, which is named by its id or uid.
func (c *Client) AccountStats(ctx context.Context, account string, q StatsQuery) (apitypes.Stats, error) {
	return get[apitypes.Stats](ctx, c, "/accounts/"+url.PathEscape(account)+"/stats"+q.query())
}

// EndpointStats returns the statistics of an endpoint.
func (c *Client) EndpointStats(ctx context.Context, id postrider.EndpointID, q StatsQuery) (apitypes.Stats, error) {
	leftOut := ""
	if q.LeftOut {
		leftOut = "true"
	}
	return get[apitypes.Stats](ctx, c, "/endpoints/"+id.String()+"/stats"+q.query("left_out", leftOut))
}

func (q StatsQuery) query(more ...string) string {
	return query(Paging{}, append(more, "from", instant(q.From), "to", instant(q.To), "step", q.Step, "type", q.Type, "tz", q.TZ)...)
}

// Circuit returns an endpoint's circuit.
func (c *Client) Circuit(ctx context.Context, id postrider.EndpointID) (apitypes.Circuit, error) {
	return get[apitypes.Circuit](ctx, c, "/endpoints/"+id.String()+"/circuit")
}

// SetCircuit sets an endpoint's circuit to a status that a person chose. Open opens it for its
// longest cooldown. Closed closes it. With half_open it stays open until the next delivery, which
// is the probe.
func (c *Client) SetCircuit(ctx context.Context, id postrider.EndpointID, to postrider.CircuitStatus) (apitypes.Circuit, error) {
	return post[apitypes.Circuit](ctx, c, "/endpoints/"+id.String()+"/circuit", apitypes.CircuitUpdate{Status: to})
}

// OrderingKeys lists the ordering keys of an endpoint that have waiting deliveries or are paused,
// sorted by key.
func (c *Client) OrderingKeys(ctx context.Context, id postrider.EndpointID, p Paging) (apitypes.Page[apitypes.OrderedKey], error) {
	return get[apitypes.Page[apitypes.OrderedKey]](ctx, c, "/endpoints/"+id.String()+"/ordering-keys"+query(p))
}

// EndpointHealth lists the changes of an endpoint's health, newest first: when it was warned about
// failures, disabled for them, or healthy again.
func (c *Client) EndpointHealth(ctx context.Context, id postrider.EndpointID, p Paging) (apitypes.Page[apitypes.EndpointHealth], error) {
	return get[apitypes.Page[apitypes.EndpointHealth]](ctx, c, "/endpoints/"+id.String()+"/health"+query(p))
}

// PauseEndpoint makes an endpoint's deliveries wait until it is resumed. The reason may be empty.
func (c *Client) PauseEndpoint(ctx context.Context, id postrider.EndpointID, reason string) (apitypes.Endpoint, error) {
	return post[apitypes.Endpoint](ctx, c, "/endpoints/"+id.String()+"/pause", apitypes.EndpointReason{Reason: reason})
}

// ResumeEndpoint resumes a paused endpoint.
func (c *Client) ResumeEndpoint(ctx context.Context, id postrider.EndpointID) (apitypes.Endpoint, error) {
	return post[apitypes.Endpoint](ctx, c, "/endpoints/"+id.String()+"/resume", nil)
}

// EnableEndpoint enables a disabled endpoint and closes its circuit. Its
// pending deliveries continue.
func (c *Client) EnableEndpoint(ctx context.Context, id postrider.EndpointID) (apitypes.Endpoint, error) {
	return post[apitypes.Endpoint](ctx, c, "/endpoints/"+id.String()+"/enable", nil)
}

// DisableEndpoint disables an endpoint. Pending deliveries wait, and events
// published from now on are skipped. The reason may be empty.
func (c *Client) DisableEndpoint(ctx context.Context, id postrider.EndpointID, reason string) (apitypes.Endpoint, error) {
	return post[apitypes.Endpoint](ctx, c, "/endpoints/"+id.String()+"/disable", apitypes.EndpointReason{Reason: reason})
}

// TestEndpoint publishes a test event to one endpoint, also if the endpoint does not subscribe to
// its type. The zero test publishes an event of the type postrider.test.
func (c *Client) TestEndpoint(ctx context.Context, id postrider.EndpointID, test apitypes.EndpointTest) (apitypes.Receipt, error) {
	return post[apitypes.Receipt](ctx, c, "/endpoints/"+id.String()+"/test", test)
}

// DeleteEndpoint deletes an endpoint and cancels its pending deliveries.
func (c *Client) DeleteEndpoint(ctx context.Context, id postrider.EndpointID) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/endpoints/" + id.String()}, nil)
}

// SecretStates returns the secrets that sign an endpoint's requests, newest first,
// without their texts.
func (c *Client) SecretStates(ctx context.Context, id postrider.EndpointID) ([]apitypes.SecretState, error) {
	list, err := get[apitypes.List[apitypes.SecretState]](ctx, c, "/endpoints/"+id.String()+"/secret-states")
	return list.Data, err
}

// RevealSecret returns one secret of an endpoint with its text.
func (c *Client) RevealSecret(ctx context.Context, id postrider.EndpointID, secret postrider.SecretID) (apitypes.Secret, error) {
	return post[apitypes.Secret](ctx, c, "/endpoints/"+id.String()+"/secrets/"+secret.String()+"/reveal", nil)
}

// Secrets returns the secrets that sign an endpoint's requests, newest first, with their texts.
func (c *Client) Secrets(ctx context.Context, id postrider.EndpointID) ([]apitypes.Secret, error) {
	list, err := get[apitypes.List[apitypes.Secret]](ctx, c, "/endpoints/"+id.String()+"/secrets")
	return list.Data, err
}

// RotateSecret gives an endpoint a new secret. The old secrets still sign until the overlap ends.
func (c *Client) RotateSecret(ctx context.Context, id postrider.EndpointID, r apitypes.SecretRotation) (apitypes.Secret, error) {
	return post[apitypes.Secret](ctx, c, "/endpoints/"+id.String()+"/secrets/rotate", r)
}

// RevokeSecret ends one of an endpoint's secrets at once. If it is the only secret, the error
// matches [postrider.ErrConflict].
func (c *Client) RevokeSecret(ctx context.Context, id postrider.EndpointID, secret postrider.SecretID) error {
	path := "/endpoints/" + id.String() + "/secrets/" + secret.String()
	return c.call(ctx, request{method: http.MethodDelete, path: path}, nil)
}

// PublicKeys lists the public keys that verify signatures, newest first. The
// zero id selects all endpoints.
func (c *Client) PublicKeys(ctx context.Context, endpoint postrider.EndpointID, p Paging) (apitypes.Page[apitypes.PublicKey], error) {
	keys, err := get[apitypes.PublicKeys](ctx, c, wellKnown+"webhook-keys"+query(p, "endpoint", idText(endpoint)))
	return apitypes.Page[apitypes.PublicKey]{Data: keys.Keys, NextCursor: keys.NextCursor}, err
}

// Reencrypt re-encrypts the server's stored secrets with the newest encryption key. One call works
// for some seconds. Repeat it until Done is true.
func (c *Client) Reencrypt(ctx context.Context) (apitypes.Reencrypted, error) {
	return post[apitypes.Reencrypted](ctx, c, "/secrets/reencrypt", nil)
}

// Deliveries lists deliveries.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) (apitypes.Page[apitypes.Delivery], error) {
	return get[apitypes.Page[apitypes.Delivery]](ctx, c, "/deliveries"+query(f.Paging,
		"account", f.Account, "endpoint", idText(f.Endpoint), "event", idText(f.Event), "event_type", f.EventType,
		"status", string(f.Status), "replay_job", idText(f.ReplayJob), "from", instant(f.From), "to", instant(f.To), "order",
		order(f.OldestFirst)))
}

// EndpointDeliveries lists the deliveries of an endpoint.
func (c *Client) EndpointDeliveries(
	ctx context.Context, id postrider.EndpointID, f EndpointDeliveryFilter,
) (apitypes.Page[apitypes.Delivery], error) {
	return get[apitypes.Page[apitypes.Delivery]](ctx, c, "/endpoints/"+id.String()+"/deliveries"+query(f.Paging,
		"event", idText(f.Event), "event_type", f.EventType, "status", string(f.Status), "replay_job", idText(f.ReplayJob),
		"from", instant(f.From), "to", instant(f.To), "order", order(f.OldestFirst)))
}

// EventDeliveries lists the deliveries of an event.
func (c *Client) EventDeliveries(ctx context.Context, id postrider.EventID, p Paging) (apitypes.Page[apitypes.Delivery], error) {
	return get[apitypes.Page[apitypes.Delivery]](ctx, c, "/events/"+id.String()+"/deliveries"+query(p))
}

// Delivery returns one delivery.
func (c *Client) Delivery(ctx context.Context, id postrider.DeliveryID) (apitypes.Delivery, error) {
	return get[apitypes.Delivery](ctx, c, "/deliveries/"+id.String())
}

// Attempts lists the attempts of a delivery, oldest first.
func (c *Client) Attempts(ctx context.Context, id postrider.DeliveryID, p Paging) (apitypes.Page[apitypes.Attempt], error) {
	return get[apitypes.Page[apitypes.Attempt]](ctx, c, "/deliveries/"+id.String()+"/attempts"+query(p))
}

// Inspections lists the requests that an inspector endpoint got, newest first, without
// their bodies. For an endpoint that is no inspector the error matches
// [postrider.ErrConflict].
func (c *Client) Inspections(ctx context.Context, id postrider.EndpointID, p Paging) (apitypes.Page[apitypes.Inspection], error) {
	return get[apitypes.Page[apitypes.Inspection]](ctx, c, "/endpoints/"+id.String()+"/requests"+query(p))
}

// Inspection returns one request that an inspector endpoint got.
func (c *Client) Inspection(ctx context.Context, id postrider.EndpointID, request postrider.InspectionID) (apitypes.Inspection, error) {
	return get[apitypes.Inspection](ctx, c, "/endpoints/"+id.String()+"/requests/"+request.String())
}

// AttemptRequest returns the request of the attempt with this number, with signatures and
// credentials masked, and the content that each scheme signs. If the attempt made no request, the
// error matches [postrider.ErrConflict].
func (c *Client) AttemptRequest(ctx context.Context, id postrider.DeliveryID, attempt int) (apitypes.AttemptRequest, error) {
	return get[apitypes.AttemptRequest](ctx, c, "/deliveries/"+id.String()+"/attempts/"+strconv.Itoa(attempt)+"/request")
}

// ReplayDelivery makes a new delivery from an old one, due at once.
func (c *Client) ReplayDelivery(ctx context.Context, id postrider.DeliveryID) (apitypes.Delivery, error) {
	return post[apitypes.Delivery](ctx, c, "/deliveries/"+id.String()+"/replay", nil)
}

// CancelDelivery cancels a pending delivery. For any other delivery the error
// matches [postrider.ErrConflict].
func (c *Client) CancelDelivery(ctx context.Context, id postrider.DeliveryID) (apitypes.Delivery, error) {
	return post[apitypes.Delivery](ctx, c, "/deliveries/"+id.String()+"/cancel", nil)
}

// RetryDelivery makes the next attempt of a delivery due now, if the delivery waits for the time of
// that attempt. If the delivery has ended or waits for something else, the error matches
// [postrider.ErrConflict] and says what it waits for.
func (c *Client) RetryDelivery(ctx context.Context, id postrider.DeliveryID) (apitypes.Delivery, error) {
	return post[apitypes.Delivery](ctx, c, "/deliveries/"+id.String()+"/retry", nil)
}

// ReleaseDelivery releases a parked delivery, which is then attempted apart from others. If the
// delivery is not parked, the error matches [postrider.ErrConflict].
func (c *Client) ReleaseDelivery(ctx context.Context, id postrider.DeliveryID) (apitypes.Delivery, error) {
	return post[apitypes.Delivery](ctx, c, "/deliveries/"+id.String()+"/release", nil)
}

// DeadLetters lists the unresolved dead letters. If f.Resolved is true, it also lists the resolved
// ones.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) (apitypes.Page[apitypes.DeadLetter], error) {
	resolved := ""
	if f.Resolved {
		resolved = "true"
	}
	return get[apitypes.Page[apitypes.DeadLetter]](ctx, c, "/dead-letters"+query(f.Paging,
		"account", f.Account, "endpoint", idText(f.Endpoint), "event_type", f.EventType, "reason", f.Reason,
		"resolved", resolved, "from", instant(f.From), "to", instant(f.To), "order", order(f.OldestFirst)))
}

// DeadLetterGroups lists the unresolved dead letters, grouped by endpoint and cause.
func (c *Client) DeadLetterGroups(ctx context.Context, f DeadLetterGroupFilter) (apitypes.Page[apitypes.DeadLetterGroup], error) {
	return get[apitypes.Page[apitypes.DeadLetterGroup]](ctx, c, "/dead-letters/groups"+query(f.Paging,
		"account", f.Account, "endpoint", idText(f.Endpoint)))
}

// Nodes lists the servers that share the store.
func (c *Client) Nodes(ctx context.Context) ([]apitypes.Node, error) {
	list, err := get[apitypes.List[apitypes.Node]](ctx, c, "/nodes")
	return list.Data, err
}

// Hold says whether the store is held after a restore, and how many deliveries may be sent twice
// when it is resumed.
func (c *Client) Hold(ctx context.Context) (apitypes.Hold, error) {
	return get[apitypes.Hold](ctx, c, "/hold")
}

// ResumeAfterRestore ends the hold of a restored store. The result says how many deliveries may be
// sent twice.
func (c *Client) ResumeAfterRestore(ctx context.Context) (apitypes.Hold, error) {
	return post[apitypes.Hold](ctx, c, "/hold/resume", nil)
}

// TroubledEndpoints returns the endpoints that most need a person's attention.
func (c *Client) TroubledEndpoints(ctx context.Context) (apitypes.TroubledEndpoints, error) {
	return get[apitypes.TroubledEndpoints](ctx, c, "/troubled-endpoints")
}

// Search finds objects by an id, a key or a part of a name.
func (c *Client) Search(ctx context.Context, text string) ([]apitypes.SearchHit, error) {
	found, err := c.SearchHits(ctx, SearchFilter{Text: text})
	return found.Data, err
}

// SearchHits does what Search does, in one account if the filter names one. It also returns the total
// number of objects found.
func (c *Client) SearchHits(ctx context.Context, f SearchFilter) (apitypes.SearchHits, error) {
	return get[apitypes.SearchHits](ctx, c, "/search"+query(Paging{}, "q", f.Text, "account", f.Account))
}

// DeadLetter returns a dead letter, resolved or not.
func (c *Client) DeadLetter(ctx context.Context, id postrider.DeliveryID) (apitypes.DeadLetter, error) {
	return get[apitypes.DeadLetter](ctx, c, "/dead-letters/"+id.String())
}

// DiscardDeadLetter resolves a dead letter without a replay. The reason may be
// empty.
func (c *Client) DiscardDeadLetter(ctx context.Context, id postrider.DeliveryID, reason string) (apitypes.DeadLetter, error) {
	return post[apitypes.DeadLetter](ctx, c, "/dead-letters/"+id.String()+"/discard", apitypes.DeadLetterDiscard{Reason: reason})
}

// ReplayDeadLetter makes a new delivery from a dead letter, due at once, and resolves the dead
// letter. If another replay of the dead letter is pending, the [*Error] has the id of that replay.
func (c *Client) ReplayDeadLetter(ctx context.Context, id postrider.DeliveryID) (apitypes.Delivery, error) {
	return post[apitypes.Delivery](ctx, c, "/dead-letters/"+id.String()+"/replay", nil)
}

// CreateReplay creates a job of the server that replays or discards all deliveries that the request
// selects. The job runs on the server; see [Client.Replay].
func (c *Client) CreateReplay(ctx context.Context, r apitypes.ReplayCreate) (apitypes.Replay, error) {
	return post[apitypes.Replay](ctx, c, "/replays", r)
}

// CountReplay counts the deliveries that CreateReplay would select. It changes nothing.
func (c *Client) CountReplay(ctx context.Context, r apitypes.ReplayCreate) (apitypes.ReplayCount, error) {
	return post[apitypes.ReplayCount](ctx, c, "/replays/dry-run", r)
}

// Backfill creates a job of the server that makes deliveries of old events which the endpoint wants and
// did not get. The job is a replay; see [Client.Replay].
func (c *Client) Backfill(ctx context.Context, id postrider.EndpointID, b apitypes.Backfill) (apitypes.Replay, error) {
	return post[apitypes.Replay](ctx, c, "/endpoints/"+id.String()+"/backfill", b)
}

// CountBackfill counts the deliveries that Backfill would make. It changes nothing.
func (c *Client) CountBackfill(ctx context.Context, id postrider.EndpointID, b apitypes.Backfill) (apitypes.ReplayCount, error) {
	return post[apitypes.ReplayCount](ctx, c, "/endpoints/"+id.String()+"/backfill/dry-run", b)
}

// Replays lists replays, newest first.
func (c *Client) Replays(ctx context.Context, f ReplayFilter) (apitypes.Page[apitypes.Replay], error) {
	return get[apitypes.Page[apitypes.Replay]](ctx, c, "/replays"+query(f.Paging, "account", f.Account, "status", string(f.Status)))
}

// Replay returns a replay with its progress and the statuses of the deliveries that it made.
func (c *Client) Replay(ctx context.Context, id postrider.ReplayID) (apitypes.Replay, error) {
	return get[apitypes.Replay](ctx, c, "/replays/"+id.String())
}

// PauseReplay pauses a replay. If the replay has ended, the error matches [postrider.ErrConflict].
// The same is true for ResumeReplay and CancelReplay.
func (c *Client) PauseReplay(ctx context.Context, id postrider.ReplayID) (apitypes.Replay, error) {
	return post[apitypes.Replay](ctx, c, "/replays/"+id.String()+"/pause", nil)
}

// ResumeReplay resumes a paused replay.
func (c *Client) ResumeReplay(ctx context.Context, id postrider.ReplayID) (apitypes.Replay, error) {
	return post[apitypes.Replay](ctx, c, "/replays/"+id.String()+"/resume", nil)
}

// CancelReplay ends a replay. The deliveries that it has made are still attempted.
func (c *Client) CancelReplay(ctx context.Context, id postrider.ReplayID) (apitypes.Replay, error) {
	return post[apitypes.Replay](ctx, c, "/replays/"+id.String()+"/cancel", nil)
}

// CreateEventType adds an event type to the catalogue.
func (c *Client) CreateEventType(ctx context.Context, t apitypes.EventTypeCreate) (apitypes.EventType, error) {
	return post[apitypes.EventType](ctx, c, "/event-types", t)
}

// EventTypes lists the event types of the catalogue, sorted by name.
func (c *Client) EventTypes(ctx context.Context, p Paging) (apitypes.Page[apitypes.EventType], error) {
	return get[apitypes.Page[apitypes.EventType]](ctx, c, "/event-types"+query(p))
}

// EventType returns one event type.
func (c *Client) EventType(ctx context.Context, name string) (apitypes.EventType, error) {
	return get[apitypes.EventType](ctx, c, "/event-types/"+url.PathEscape(name))
}

// ChangeEventType changes the description or the example of an event type.
func (c *Client) ChangeEventType(ctx context.Context, name string, change apitypes.EventTypeUpdate) (apitypes.EventType, error) {
	return patch[apitypes.EventType](ctx, c, "/event-types/"+url.PathEscape(name), change)
}

// DeleteEventType removes an event type from the catalogue. Events of the type stay.
func (c *Client) DeleteEventType(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/event-types/" + url.PathEscape(name)}, nil)
}

// CreateKey creates an API key. Only this response has the key's text.
func (c *Client) CreateKey(ctx context.Context, k apitypes.KeyCreate) (apitypes.Key, error) {
	return post[apitypes.Key](ctx, c, "/api-keys", k)
}

// Keys lists API keys, newest first.
func (c *Client) Keys(ctx context.Context, f KeyFilter) (apitypes.Page[apitypes.Key], error) {
	return get[apitypes.Page[apitypes.Key]](ctx, c, "/api-keys"+query(f.Paging, "account", f.Account))
}

// Key returns one API key, without its text.
func (c *Client) Key(ctx context.Context, id postrider.KeyID) (apitypes.Key, error) {
	return get[apitypes.Key](ctx, c, "/api-keys/"+id.String())
}

// RevokeKey revokes an API key.
func (c *Client) RevokeKey(ctx context.Context, id postrider.KeyID) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/api-keys/" + id.String()}, nil)
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	err := c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

func post[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	var out T
	err := c.call(ctx, request{method: http.MethodPost, path: path, in: in}, &out)
	return out, err
}

func patch[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	var out T
	err := c.call(ctx, request{method: http.MethodPatch, path: path, in: in}, &out)
	return out, err
}

// query returns the query string of a list: the pairs that have a value, and the page. It is empty
// or begins with a question mark.
func query(p Paging, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if p.Limit > 0 {
		values.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		values.Set("cursor", p.Cursor)
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// idText returns the text of an id; empty for the zero id.
func idText[I interface {
	IsZero() bool
	String() string
}](id I) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// order returns the query parameter for the order; empty for the default, which is newest first.
func order(oldestFirst bool) string {
	if oldestFirst {
		return "asc"
	}
	return ""
}

// instant returns a time as a query parameter; empty for the zero time.
func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
