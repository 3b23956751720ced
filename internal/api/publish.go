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

// keyHeader may have the idempotency key of an event that is published alone.
const keyHeader = "Idempotency-Key"

type newEvent struct {
	Account        string          `json:"account,omitempty" doc:"Its id or uid. May be left out by a key that is bound to an account."`
	Type           string          `json:"type" example:"order.created"`
	Data           json.RawMessage `json:"data" doc:"Any JSON. It is stored, signed and sent to the byte as it is here."`
	IdempotencyKey *string         `json:"idempotency_key,omitempty" minLength:"1" maxLength:"256" doc:"The same key and content again publishes nothing and answers with the first event's id."`
	OrderingKey    string          `json:"ordering_key,omitempty" maxLength:"256" doc:"Events of one key get a sequence, in the order they were accepted. Ordered delivery by key is not offered yet."`
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
	headerErr := body.takeKey(callOf(ctx).header)
	e, err := s.event(ctx, "", body)
	if err := errors.Join(headerErr, err); err != nil {
		return nil, err
	}
	receipts, err := s.Publisher.Publish(ctx, []postrider.Event{e})
	if errors.As(err, new(*postrider.KeyTakenError)) {
		return nil, errKeyTaken // without an index: there is no batch
	}
	if err != nil {
		return nil, err
	}
	status := http.StatusAccepted
	if receipts[0].Duplicate {
		status = http.StatusOK
	}
	return &published{Status: status, Body: viewReceipt(receipts[0])}, nil
}

// takeKey makes the key that the header has the event's own.
func (b *newEvent) takeKey(header http.Header) error {
	keys := header.Values(keyHeader)
	switch {
	case len(keys) == 0:
		return nil
	case len(keys) > 1:
		return invalid(keyHeader, "must be there once")
	case !isText(keys[0]):
		return invalid(keyHeader, "must be UTF-8 without control characters")
	case b.IdempotencyKey != nil && *b.IdempotencyKey != keys[0]:
		return invalid(keyHeader, "must be the idempotency_key of the body, where both are there")
	case b.IdempotencyKey != nil:
		return nil // checked with the body
	}
	if err := checkKey(keyHeader, &keys[0]); err != nil {
		return err
	}
	b.IdempotencyKey = &keys[0]
	return nil
}

// checkKey returns the fault of an idempotency key. An empty one is not the
// same as none: it is a client's variable that nobody set.
func checkKey(field string, key *string) error {
	if key != nil && *key == "" {
		return invalid(field, "must not be empty")
	}
	return checkText(field, value(key), maxEventKey)
}

func (s *server) publishBatch(ctx context.Context, _ *none) (*reply[list[batchItem]], error) {
	if len(callOf(ctx).header.Values(keyHeader)) > 0 {
		return nil, invalid(keyHeader, "must not be there: each event of a batch has its own idempotency_key")
	}
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
		checkKey(at+"idempotency_key", b.IdempotencyKey),
		checkText(at+"ordering_key", b.OrderingKey, maxEventKey),
		checkText(at+"api_version", b.APIVersion, maxAPIVersion),
		s.checkData(at+"data", b.Data))
	return postrider.Event{
		Account: account, Type: b.Type, Data: b.Data, APIVersion: b.APIVersion,
		OrderingKey: b.OrderingKey, IdempotencyKey: value(b.IdempotencyKey),
	}, err
}

func (s *server) checkData(field string, data []byte) error {
	if len(data) <= s.opts.MaxData {
		return nil
	}
	return errors.Join(errTooLarge, invalid(field, fmt.Sprintf("must be at most %d bytes", s.opts.MaxData)))
}
