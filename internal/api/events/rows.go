package events

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/jsonx"
)

// Rows finds rows of the outboxes of producers.
type Rows interface {
	// Unpublished returns a 404 that says where the row is whose event the store does not have.
	Unpublished(ctx context.Context, row postrider.OutboxID) error
}

// Convert returns the event that a row of an outbox publishes, or all its faults. It refuses what a publish
// by a caller without an account refuses.
func (s *Routes) Convert(ctx context.Context, b *apitypes.EventCreate) (postrider.Event, error) {
	if err := strict(b); err != nil {
		return postrider.Event{}, err
	}
	e, err := s.event(ctx, b, nil)
	if e.Hops = b.Hops; e.Hops >= postrider.MaxHops {
		err = errors.Join(postrider.ErrLoop, err)
	}
	if parent, ok := postrider.ParseTraceParent(b.TraceParent); ok {
		e.TraceParent, e.TraceState = parent, postrider.ParseTraceState([]string{b.TraceState})
	}
	return e, err
}

// strict returns the faults that the decoder of requests finds in a body. PostgreSQL accepts more JSON, and
// texts with control characters.
func strict(b *apitypes.EventCreate) error {
	var faults []error
	for _, text := range []struct{ field, value string }{
		{"account", b.Account}, {"idempotency_key", b.IdempotencyKey}, {"ordering_key", b.OrderingKey}, {"api_version", b.APIVersion},
	} {
		if !postrider.IsText(text.value) {
			faults = append(faults, rest.Invalid(text.field, postrider.FaultMalformed, "must be UTF-8 without control characters"))
		}
	}
	body := append([]byte(`{"data":`), b.Data...)
	if b.Previous != nil {
		body = append(append(body, `,"previous":`...), b.Previous...)
	}
	var raw struct {
		Data     json.RawMessage `json:"data"`
		Previous json.RawMessage `json:"previous,omitempty"`
	}
	return errors.Join(append(faults, jsonx.Decode(append(body, '}'), &raw))...)
}
