package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/postrider/postrider"
)

// CreateAccount creates an account. A uid that is taken is
// [postrider.ErrConflict].
func (c *Client) CreateAccount(ctx context.Context, a NewAccount) (Account, error) {
	return post[Account](ctx, c, "/accounts", a)
}

// Accounts lists accounts, newest first.
func (c *Client) Accounts(ctx context.Context, p Paging) (Page[Account], error) {
	return get[Page[Account]](ctx, c, "/accounts"+query(p))
}

// Account returns one account, by its id or your own uid.
func (c *Client) Account(ctx context.Context, account string) (Account, error) {
	return get[Account](ctx, c, "/accounts/"+url.PathEscape(account))
}

// ChangeAccount changes what of an account the change has. The account is named
// by its id or your own uid.
func (c *Client) ChangeAccount(ctx context.Context, account string, change AccountChange) (Account, error) {
	return patch[Account](ctx, c, "/accounts/"+url.PathEscape(account), change)
}

// DeleteAccount deletes an account: its keys are revoked, its endpoints deleted,
// what is queued for them cancelled. Its history stays.
func (c *Client) DeleteAccount(ctx context.Context, account string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/accounts/" + url.PathEscape(account)}, nil)
}

// Publish hands an event over. When it returns without an error, the event and
// its deliveries are on disk.
//
// Where it takes several tries, the receipt may call the event a duplicate: of
// itself, since a try got through whose answer was lost.
func (c *Client) Publish(ctx context.Context, e NewEvent) (Receipt, error) {
	var out Receipt
	if e.IdempotencyKey == "" && c.opts.Attempts > 1 {
		e.IdempotencyKey = newKey()
	}
	r := request{method: http.MethodPost, path: "/events", in: e, keyed: e.IdempotencyKey != "", hops: e.Hops}
	err := c.call(ctx, r, &out)
	return out, err
}

// PublishBatch hands up to 1,000 events over, all or none, and answers in their
// order. Where the idempotency key of one was used for other content,
// the [*Error] has its Index.
func (c *Client) PublishBatch(ctx context.Context, events []NewEvent) ([]BatchReceipt, error) {
	r := request{method: http.MethodPost, path: "/events/batch", keyed: true}
	events = slices.Clone(events)
	for i := range events {
		if events[i].IdempotencyKey == "" && c.opts.Attempts > 1 {
			events[i].IdempotencyKey = newKey()
		}
		r.keyed = r.keyed && events[i].IdempotencyKey != ""
		r.hops = max(r.hops, events[i].Hops)
	}
	r.in = events
	var out Page[BatchReceipt]
	err := c.call(ctx, r, &out)
	return out.Items, err
}

// Events lists events, without their data.
func (c *Client) Events(ctx context.Context, f EventFilter) (Page[Event], error) {
	return get[Page[Event]](ctx, c, "/events"+query(f.Paging,
		"account", f.Account, "type", f.Type, "idempotency_key", f.IdempotencyKey,
		"from", instant(f.From), "to", instant(f.To), "order", order(f.OldestFirst)))
}

// Event returns one event, with its data for as long as its bytes are kept.
func (c *Client) Event(ctx context.Context, id postrider.EventID) (Event, error) {
	return get[Event](ctx, c, "/events/"+id.String())
}

// EventAttempts lists the attempts of all of an event's deliveries.
func (c *Client) EventAttempts(ctx context.Context, id postrider.EventID, p Paging) (Page[Attempt], error) {
	return get[Page[Attempt]](ctx, c, "/events/"+id.String()+"/attempts"+query(p))
}

// ReplayEvent delivers an event again, in as many requests as that takes, and
// returns the new deliveries, with an error those of the requests before it. The
// zero filter takes every endpoint that the event was for.
func (c *Client) ReplayEvent(ctx context.Context, id postrider.EventID, f ReplayFilter) ([]Delivery, error) {
	var all []Delivery
	for {
		answer, err := post[eventReplays](ctx, c, "/events/"+id.String()+"/replay", f)
		all = append(all, answer.Items...)
		if err != nil || answer.MadeBefore == nil {
			return all, err
		}
		f.MadeBefore = *answer.MadeBefore
	}
}

// CreateEndpoint creates an endpoint. Its secret is in the answer.
func (c *Client) CreateEndpoint(ctx context.Context, e NewEndpoint) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints", e)
}

// Endpoints lists endpoints, newest first.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (Page[Endpoint], error) {
	return get[Page[Endpoint]](ctx, c, "/endpoints"+query(f.Paging, "account", f.Account, "uid", f.UID, "status", string(f.Status)))
}

// Endpoint returns one endpoint.
func (c *Client) Endpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return get[Endpoint](ctx, c, "/endpoints/"+id.String())
}

// ChangeEndpoint changes what of an endpoint the change has.
func (c *Client) ChangeEndpoint(ctx context.Context, id postrider.EndpointID, change EndpointChange) (Endpoint, error) {
	return patch[Endpoint](ctx, c, "/endpoints/"+id.String(), change)
}

// VerifyEndpoint asks an endpoint's receiver whether it wants events, and
// enables the endpoint if it waited for that. The method is challenge or
// cloudevents; empty: the one that the server's operator chose. A receiver that
// does not agree is [postrider.ErrConflict], with the code verification_failed.
func (c *Client) VerifyEndpoint(ctx context.Context, id postrider.EndpointID, method string) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/verify", verification{method})
}

// Circuit returns an endpoint's circuit.
func (c *Client) Circuit(ctx context.Context, id postrider.EndpointID) (Circuit, error) {
	return get[Circuit](ctx, c, "/endpoints/"+id.String()+"/circuit")
}

// SetCircuit opens an endpoint's circuit for its longest cooldown, closes it,
// or, with half_open, has it probed as soon as something waits: until then it
// is open.
func (c *Client) SetCircuit(ctx context.Context, id postrider.EndpointID, to postrider.CircuitStatus) (Circuit, error) {
	return post[Circuit](ctx, c, "/endpoints/"+id.String()+"/circuit", map[string]string{"status": string(to)})
}

// OrderingKeys lists the ordering keys of an endpoint that have something
// waiting or are paused, by key.
func (c *Client) OrderingKeys(ctx context.Context, id postrider.EndpointID, p Paging) (Page[OrderedKey], error) {
	return get[Page[OrderedKey]](ctx, c, "/endpoints/"+id.String()+"/ordering-keys"+query(p))
}

// Standings lists how an endpoint has stood, newest first: when it was warned
// of its failures, disabled for them, and good again.
func (c *Client) Standings(ctx context.Context, id postrider.EndpointID, p Paging) (Page[Standing], error) {
	return get[Page[Standing]](ctx, c, "/endpoints/"+id.String()+"/standings"+query(p))
}

// PauseEndpoint holds an endpoint's deliveries back until it is resumed, for
// the reason, which may be empty.
func (c *Client) PauseEndpoint(ctx context.Context, id postrider.EndpointID, reason string) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/pause", because{reason})
}

// ResumeEndpoint ends a pause.
func (c *Client) ResumeEndpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/resume", nil)
}

// EnableEndpoint ends what disabled an endpoint; what was queued goes on.
func (c *Client) EnableEndpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/enable", nil)
}

// DisableEndpoint holds what is queued, and skips what is published from now,
// for the reason, which may be empty.
func (c *Client) DisableEndpoint(ctx context.Context, id postrider.EndpointID, reason string) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/disable", because{reason})
}

// TestEndpoint publishes an event of the type postrider.test to one endpoint
// alone.
func (c *Client) TestEndpoint(ctx context.Context, id postrider.EndpointID) (Receipt, error) {
	return post[Receipt](ctx, c, "/endpoints/"+id.String()+"/test", nil)
}

// DeleteEndpoint deletes an endpoint and cancels what is queued for it.
func (c *Client) DeleteEndpoint(ctx context.Context, id postrider.EndpointID) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/endpoints/" + id.String()}, nil)
}

// Secrets returns the secrets that an endpoint's requests are signed with,
// newest first.
func (c *Client) Secrets(ctx context.Context, id postrider.EndpointID) ([]Secret, error) {
	page, err := get[Page[Secret]](ctx, c, "/endpoints/"+id.String()+"/secrets")
	return page.Items, err
}

// RotateSecret gives an endpoint a new secret. The old ones sign for the
// overlap, too.
func (c *Client) RotateSecret(ctx context.Context, id postrider.EndpointID, r SecretRotation) (Secret, error) {
	body := map[string]any{}
	if r.Secret != "" {
		body["secret"] = r.Secret
	}
	if r.KeyType != "" {
		body["key_type"] = r.KeyType
	}
	if r.Overlap != nil {
		body["overlap_ms"] = r.Overlap.Milliseconds()
	}
	return post[Secret](ctx, c, "/endpoints/"+id.String()+"/secrets/rotate", body)
}

// RevokeSecret ends one of an endpoint's secrets at once. The last one is
// [postrider.ErrConflict].
func (c *Client) RevokeSecret(ctx context.Context, id postrider.EndpointID, secret postrider.SecretID) error {
	path := "/endpoints/" + id.String() + "/secrets/" + secret.String()
	return c.call(ctx, request{method: http.MethodDelete, path: path}, nil)
}

// PublicKeys lists what signatures of private keys are verified with, newest
// first: those of one endpoint, or with the zero id of all.
func (c *Client) PublicKeys(ctx context.Context, endpoint postrider.EndpointID, p Paging) (Page[PublicKey], error) {
	var answer struct {
		Keys []PublicKey `json:"keys"`
		Next string      `json:"next_cursor"`
	}
	err := c.call(ctx, request{method: http.MethodGet, path: wellKnown + "webhook-keys" + query(p, "endpoint", idText(endpoint))}, &answer)
	return Page[PublicKey]{Items: answer.Keys, Next: answer.Next}, err
}

// Reencrypt has the server encrypt its stored secrets again with the newest
// encryption key, for some seconds. Repeat the call until Done is true.
func (c *Client) Reencrypt(ctx context.Context) (Reencrypted, error) {
	return post[Reencrypted](ctx, c, "/secrets/reencrypt", nil)
}

// Deliveries lists deliveries.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) (Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/deliveries"+query(f.Paging,
		"account", f.Account, "endpoint", idText(f.Endpoint), "event", idText(f.Event), "event_type", f.EventType,
		"status", string(f.Status), "from", instant(f.From), "to", instant(f.To), "order", order(f.OldestFirst)))
}

// EndpointDeliveries lists the deliveries of an endpoint.
func (c *Client) EndpointDeliveries(
	ctx context.Context, id postrider.EndpointID, f EndpointDeliveryFilter,
) (Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/endpoints/"+id.String()+"/deliveries"+query(f.Paging,
		"event", idText(f.Event), "event_type", f.EventType, "status", string(f.Status),
		"from", instant(f.From), "to", instant(f.To), "order", order(f.OldestFirst)))
}

// EventDeliveries lists the deliveries of an event.
func (c *Client) EventDeliveries(ctx context.Context, id postrider.EventID, p Paging) (Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/events/"+id.String()+"/deliveries"+query(p))
}

// Delivery returns one delivery.
func (c *Client) Delivery(ctx context.Context, id postrider.DeliveryID) (Delivery, error) {
	return get[Delivery](ctx, c, "/deliveries/"+id.String())
}

// Attempts lists the attempts of a delivery, oldest first.
func (c *Client) Attempts(ctx context.Context, id postrider.DeliveryID, p Paging) (Page[Attempt], error) {
	return get[Page[Attempt]](ctx, c, "/deliveries/"+id.String()+"/attempts"+query(p))
}

// ReplayDelivery makes a new delivery of an old one, due at once.
func (c *Client) ReplayDelivery(ctx context.Context, id postrider.DeliveryID) (Delivery, error) {
	return post[Delivery](ctx, c, "/deliveries/"+id.String()+"/replay", nil)
}

// CancelDelivery ends a pending delivery. One that is not pending is
// [postrider.ErrConflict].
func (c *Client) CancelDelivery(ctx context.Context, id postrider.DeliveryID) (Delivery, error) {
	return post[Delivery](ctx, c, "/deliveries/"+id.String()+"/cancel", nil)
}

// ReleaseDelivery lets a parked delivery be attempted again, alone. One that is
// not parked is [postrider.ErrConflict].
func (c *Client) ReleaseDelivery(ctx context.Context, id postrider.DeliveryID) (Delivery, error) {
	return post[Delivery](ctx, c, "/deliveries/"+id.String()+"/release", nil)
}

// DeadLetters lists the dead letters that wait for a person, and with
// f.Resolved those that did.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) (Page[DeadLetter], error) {
	resolved := ""
	if f.Resolved {
		resolved = "true"
	}
	return get[Page[DeadLetter]](ctx, c, "/dead-letters"+query(f.Paging,
		"account", f.Account, "endpoint", idText(f.Endpoint), "event_type", f.EventType, "reason", f.Reason,
		"resolved", resolved, "from", instant(f.From), "to", instant(f.To), "order", order(f.OldestFirst)))
}

// DeadLetter returns one dead letter, resolved or not.
func (c *Client) DeadLetter(ctx context.Context, id postrider.DeliveryID) (DeadLetter, error) {
	return get[DeadLetter](ctx, c, "/dead-letters/"+id.String())
}

// DiscardDeadLetter lays a dead letter aside, for the reason, which may be
// empty.
func (c *Client) DiscardDeadLetter(ctx context.Context, id postrider.DeliveryID, reason string) (DeadLetter, error) {
	return post[DeadLetter](ctx, c, "/dead-letters/"+id.String()+"/discard", because{reason})
}

// ReplayDeadLetter makes a new delivery of a dead letter, due at once, and
// resolves it. While a replay of it is under way, the [*Error] names that one.
func (c *Client) ReplayDeadLetter(ctx context.Context, id postrider.DeliveryID) (Delivery, error) {
	return post[Delivery](ctx, c, "/dead-letters/"+id.String()+"/replay", nil)
}

// CreateEventType puts an event type into the catalogue.
func (c *Client) CreateEventType(ctx context.Context, t NewEventType) (EventType, error) {
	return post[EventType](ctx, c, "/event-types", t)
}

// EventTypes lists the catalogue by name.
func (c *Client) EventTypes(ctx context.Context, p Paging) (Page[EventType], error) {
	return get[Page[EventType]](ctx, c, "/event-types"+query(p))
}

// EventType returns one event type.
func (c *Client) EventType(ctx context.Context, name string) (EventType, error) {
	return get[EventType](ctx, c, "/event-types/"+url.PathEscape(name))
}

// DescribeEventType changes the description of an event type.
func (c *Client) DescribeEventType(ctx context.Context, name, description string) (EventType, error) {
	return patch[EventType](ctx, c, "/event-types/"+url.PathEscape(name), eventTypeChange{description})
}

// DeleteEventType takes an event type out of the catalogue. What was published
// of it stays.
func (c *Client) DeleteEventType(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/event-types/" + url.PathEscape(name)}, nil)
}

// CreateKey makes an API key. Its text is in the answer, and nowhere else.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (Key, error) {
	return post[Key](ctx, c, "/api-keys", k)
}

// Keys lists API keys, newest first.
func (c *Client) Keys(ctx context.Context, p Paging) (Page[Key], error) {
	return get[Page[Key]](ctx, c, "/api-keys"+query(p))
}

// Key returns one API key, without its text.
func (c *Client) Key(ctx context.Context, id postrider.KeyID) (Key, error) {
	return get[Key](ctx, c, "/api-keys/"+id.String())
}

// RevokeKey ends an API key.
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

// query returns the query of a list: the pairs that have a value, and the page.
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

// idText returns the text of an id; of the zero id, nothing.
func idText[I interface {
	IsZero() bool
	String() string
}](id I) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// order returns the order of a list of history as the API takes it; of the
// default, nothing.
func order(oldestFirst bool) string {
	if oldestFirst {
		return "asc"
	}
	return ""
}

// instant returns a time as the API takes it; of none, nothing.
func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// All walks every page of a list. It ends with the first error.
//
//	for endpoint, err := range client.All(func(p client.Paging) (client.Page[client.Endpoint], error) {
//		return c.Endpoints(ctx, client.EndpointFilter{Account: "acme", Paging: p})
//	}) { … }
func All[T any](page func(Paging) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for p := (Paging{Limit: maxLimit}); ; {
			got, err := page(p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range got.Items {
				if !yield(item, nil) {
					return
				}
			}
			if p.Cursor = got.Next; p.Cursor == "" {
				return
			}
		}
	}
}

const maxLimit = 250 // of a page
