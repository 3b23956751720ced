package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// testEndpoint publishes a test event to an enabled endpoint. It ignores the endpoint's event
// types.
func (s *Routes) testEndpoint(
	ctx context.Context, in *rest.EndpointPath, body apitypes.EndpointTest,
) (*rest.Reply[apitypes.Receipt], error) {
	e, err := s.Names.ReadableEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	if e.Status != postrider.EndpointEnabled {
		// The test event would be skipped or would wait.
		return nil, rest.Conflict("endpoint_"+string(e.Status), "the endpoint is "+string(e.Status))
	}
	event, err := s.testEvent(ctx, e, body.Type)
	if err != nil {
		return nil, err
	}
	if err := s.manualSends.Allow(e.ID); err != nil {
		return nil, err
	}
	receipt, err := s.Publisher.PublishTo(observe.WithRoute(ctx, "/v1/webhooks/endpoints/{endpoint}/test"), event, e.ID)
	if err == nil {
		s.Circuits.Probe(ctx, e)
	}
	return rest.RespondWith(viewReceipt)(receipt, err)
}

// testEvent returns a test event of the named type for the endpoint. If the type is in the
// catalogue, the event has the data of its example. Any other type is refused: with types of its
// own, an account could send itself anything under the operator's name.
func (s *Routes) testEvent(ctx context.Context, e postrider.Endpoint, named string) (postrider.Event, error) {
	event, err := s.ownEvent(e, apitypes.TestType)
	if err != nil || named == "" || named == apitypes.TestType {
		return event, err
	}
	t, err := s.Catalogue.Find(ctx, named)
	if errors.Is(err, postrider.ErrNotFound) {
		return postrider.Event{}, rest.Invalid("type", postrider.FaultNotFound, "must be in the catalogue of event types, or "+apitypes.TestType)
	}
	if len(t.Example) > 0 {
		event.Data = t.Example
	}
	event.Type = t.Name
	return event, err
}

// ownEvent returns an event of the server for the endpoint. It names the endpoint.
func (s *Routes) ownEvent(e postrider.Endpoint, of string) (postrider.Event, error) {
	data, err := json.Marshal(map[string]string{"endpoint": e.ID.String()})
	if err != nil {
		return postrider.Event{}, fmt.Errorf("encode %s: %w", of, err)
	}
	id := postrider.TestEventID(store.NewEventID(s.IDs))
	return postrider.Event{ID: id, Account: e.Account, Type: of, Data: data, CreatedAt: id.Time()}, nil
}

// pingTime is how long a ping may delay the response to the change that it follows.
const pingTime = time.Second

// ping publishes an event of the type apitypes.PingType to an endpoint with a new URL, if the operator
// wants that. It is attempted once. An endpoint that is not enabled gets none, because it would get
// the ping at any later time. The change of the endpoint is stored already, so a ping that cannot be
// published is only logged.
func (s *Routes) ping(ctx context.Context, e postrider.Endpoint) {
	if !s.Ping || e.Kind != postrider.KindHTTP || e.Status != postrider.EndpointEnabled || s.pings.Allow(e.ID) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	event, err := s.ownEvent(e, apitypes.PingType)
	if event.MaxAttempts = 1; err == nil {
		_, err = s.Publisher.PublishTo(observe.WithRoute(ctx, "ping"), event, e.ID)
	}
	if err != nil {
		s.Log.WarnContext(ctx, "endpoint not pinged", "endpoint", e.ID.String(), "error", err)
	}
}

// viewReceipt returns a receipt in the form of a response. The number of deliveries is null if it
// is unknown. It is unknown for a duplicate, which creates no deliveries, and while a fan-out job
// creates the deliveries.
func viewReceipt(r postrider.Receipt) apitypes.Receipt {
	view := apitypes.Receipt{ID: r.ID, Duplicate: r.Duplicate, FanOut: r.FanOut}
	if !r.FanOut && !r.Duplicate {
		view.Deliveries = &r.Deliveries
	}
	return view
}
