package client

import (
	"context"
	"net/http"
	"net/url"
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

// Publish hands an event over. When it returns without an error, the event and
// its deliveries are on disk.
func (c *Client) Publish(ctx context.Context, e NewEvent) (Receipt, error) {
	return post[Receipt](ctx, c, "/events", e)
}

// ReplayEvent delivers an event again, and returns the new deliveries. The
// zero filter takes every endpoint that the event was for.
func (c *Client) ReplayEvent(ctx context.Context, id postrider.EventID, f ReplayFilter) ([]Delivery, error) {
	page, err := post[Page[Delivery]](ctx, c, "/events/"+id.String()+"/replay", f)
	return page.Items, err
}

// CreateEndpoint creates an endpoint. Its secret is in the answer.
func (c *Client) CreateEndpoint(ctx context.Context, e NewEndpoint) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints", e)
}

// Endpoints lists endpoints, newest first.
func (c *Client) Endpoints(ctx context.Context, f EndpointFilter) (Page[Endpoint], error) {
	return get[Page[Endpoint]](ctx, c, "/endpoints"+query(f.Paging, "account", f.Account, "status", string(f.Status)))
}

// Endpoint returns one endpoint.
func (c *Client) Endpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return get[Endpoint](ctx, c, "/endpoints/"+id.String())
}

// ChangeEndpoint changes what of an endpoint the change has.
func (c *Client) ChangeEndpoint(ctx context.Context, id postrider.EndpointID, change EndpointChange) (Endpoint, error) {
	var out Endpoint
	err := c.call(ctx, request{http.MethodPatch, "/endpoints/" + id.String(), change}, &out)
	return out, err
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

// PauseEndpoint holds an endpoint's deliveries back until it is resumed.
func (c *Client) PauseEndpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/pause", nil)
}

// ResumeEndpoint ends a pause.
func (c *Client) ResumeEndpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/resume", nil)
}

// EnableEndpoint ends what disabled an endpoint; what was queued goes on.
func (c *Client) EnableEndpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/enable", nil)
}

// DisableEndpoint holds what is queued, and skips what is published from now.
func (c *Client) DisableEndpoint(ctx context.Context, id postrider.EndpointID) (Endpoint, error) {
	return post[Endpoint](ctx, c, "/endpoints/"+id.String()+"/disable", nil)
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
// overlap, too: nil is the server's default, 0 ends them at once.
func (c *Client) RotateSecret(ctx context.Context, id postrider.EndpointID, overlap *time.Duration) (Secret, error) {
	body := map[string]int64{}
	if overlap != nil {
		body["overlap_ms"] = overlap.Milliseconds()
	}
	return post[Secret](ctx, c, "/endpoints/"+id.String()+"/secrets/rotate", body)
}

// Deliveries lists deliveries, newest first.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) (Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/deliveries"+query(f.Paging,
		"account", f.Account, "endpoint", text(f.Endpoint), "event_type", f.EventType, "status", string(f.Status)))
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

// DeadLetters lists the dead letters that wait for a person, and with
// f.Resolved those that did, newest first.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) (Page[DeadLetter], error) {
	resolved := ""
	if f.Resolved {
		resolved = "true"
	}
	return get[Page[DeadLetter]](ctx, c, "/dead-letters"+query(f.Paging,
		"account", f.Account, "endpoint", text(f.Endpoint), "event_type", f.EventType, "resolved", resolved))
}

// DiscardDeadLetter lays a dead letter aside, for the reason, which may be
// empty.
func (c *Client) DiscardDeadLetter(ctx context.Context, id postrider.DeliveryID, reason string) (DeadLetter, error) {
	var body struct {
		Reason string `json:"reason,omitempty"`
	}
	body.Reason = reason
	return post[DeadLetter](ctx, c, "/dead-letters/"+id.String()+"/discard", body)
}

// CreateKey makes an API key. Its text is in the answer, and nowhere else.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (Key, error) {
	return post[Key](ctx, c, "/api-keys", k)
}

// Keys lists API keys, newest first.
func (c *Client) Keys(ctx context.Context, p Paging) (Page[Key], error) {
	return get[Page[Key]](ctx, c, "/api-keys"+query(p))
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
	err := c.call(ctx, request{http.MethodPost, path, in}, &out)
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

// text returns the text of an endpoint's id; of none, nothing.
func text(id postrider.EndpointID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}
