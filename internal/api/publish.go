package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/postrider/postrider"
)

// The bounds of an event, in bytes, and of a batch, in events.
const (
	maxEventKey   = 256 // idempotency key, ordering key
	maxAPIVersion = 64
	maxBatch      = 1000
)

type newEvent struct {
	Account        string          `json:"account,omitempty" doc:"Its id or uid. May be left out by a key that is bound to an account."`
	Type           string          `json:"type" example:"order.created"`
	Data           json.RawMessage `json:"data" doc:"Any JSON. It is stored, signed and sent to the byte as it is here."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"256" doc:"The same key and content again publishes nothing and answers with the first event's id."`
	OrderingKey    string          `json:"ordering_key,omitempty" maxLength:"256"`
	APIVersion     string          `json:"api_version,omitempty" maxLength:"64" doc:"The version of your own API that data follows."`
}

type newBatch struct {
	Events []newEvent `json:"events" nullable:"false" minItems:"1" maxItems:"1000"`
}

type receiptView struct {
	ID         string `json:"id" example:"evt_01h455vb4pex5vsknk084sn02q"`
	Duplicate  bool   `json:"duplicate,omitempty" doc:"The event was published before; nothing is sent twice."`
	Deliveries *int   `json:"deliveries" doc:"How many were made; null when a fan-out job makes them."`
	FanOut     bool   `json:"fanout,omitempty"`
}

func viewReceipt(r postrider.Receipt) receiptView {
	view := receiptView{ID: r.ID.String(), Duplicate: r.Duplicate, FanOut: r.FanOut}
	if !r.FanOut {
		view.Deliveries = &r.Deliveries
	}
	return view
}

type batchItem struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

// published is the answer to a publish: 202, or 200 for a duplicate.
type published struct {
	Status int
	Body   receiptView
}

func (s *server) publish(ctx context.Context, _ *none) (*published, error) {
	var body newEvent
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	e, err := s.event(ctx, "", body)
	if err != nil {
		return nil, err
	}
	receipts, err := s.Publisher.Publish(ctx, []postrider.Event{e})
	if err != nil {
		return nil, err
	}
	status := http.StatusAccepted
	if receipts[0].Duplicate {
		status = http.StatusOK
	}
	return &published{Status: status, Body: viewReceipt(receipts[0])}, nil
}

func (s *server) publishBatch(ctx context.Context, _ *none) (*reply[list[batchItem]], error) {
	var body newBatch
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	events, err := s.batch(ctx, body.Events)
	if err != nil {
		return nil, err
	}
	receipts, err := s.Publisher.Publish(ctx, events)
	if err != nil {
		return nil, err
	}
	answer := list[batchItem]{Data: make([]batchItem, 0, len(receipts))}
	for _, r := range receipts {
		answer.Data = append(answer.Data, batchItem{ID: r.ID.String(), Duplicate: r.Duplicate})
	}
	return answered(answer), nil
}

func (s *server) batch(ctx context.Context, bodies []newEvent) ([]postrider.Event, error) {
	if n := len(bodies); n < 1 || n > maxBatch {
		return nil, invalid("events", fmt.Sprintf("must have 1 to %d events", maxBatch))
	}
	events := make([]postrider.Event, 0, len(bodies))
	var faults []error
	for i, body := range bodies {
		e, err := s.event(ctx, fmt.Sprintf("events[%d].", i), body)
		if err != nil && !errors.Is(err, postrider.ErrInvalid) && !errors.Is(err, errTooLarge) {
			return nil, err // not the batch's fault: no use in looking further
		}
		if err != nil {
			faults = append(faults, err)
		}
		if len(faults) == maxFaults {
			break
		}
		events = append(events, e)
	}
	return events, errors.Join(faults...)
}

// event returns the event that a body asks for, or every fault of it. at is
// where the body stands in the request.
func (s *server) event(ctx context.Context, at string, b newEvent) (postrider.Event, error) {
	account, err := s.reachOne(ctx, at+"account", b.Account)
	err = errors.Join(err,
		postrider.CheckType(at+"type", b.Type),
		checkText(at+"idempotency_key", b.IdempotencyKey, maxEventKey),
		checkText(at+"ordering_key", b.OrderingKey, maxEventKey),
		checkText(at+"api_version", b.APIVersion, maxAPIVersion),
		s.checkData(at+"data", b.Data))
	return postrider.Event{
		Account: account, Type: b.Type, Data: b.Data, APIVersion: b.APIVersion,
		OrderingKey: b.OrderingKey, IdempotencyKey: b.IdempotencyKey,
	}, err
}

func (s *server) checkData(field string, data []byte) error {
	if len(data) <= s.opts.MaxData {
		return nil
	}
	return errors.Join(errTooLarge, invalid(field, fmt.Sprintf("must be at most %d bytes", s.opts.MaxData)))
}
