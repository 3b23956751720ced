package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A record is one line of a segment; each kind has its own type. Fields are only ever added.
// Bytes are base64. docs/operate/archive.md describes the records.

// eventRecord is an event.
type eventRecord struct {
	ID             postrider.EventID   `json:"id"`
	Account        postrider.AccountID `json:"account"`
	Type           string              `json:"type"`
	APIVersion     string              `json:"api_version,omitempty"`
	OrderingKey    string              `json:"ordering_key,omitempty"`
	Sequence       int64               `json:"sequence,omitempty"`
	Hops           int                 `json:"hops,omitempty"`
	MaxAttempts    int                 `json:"max_attempts,omitempty"`
	IdempotencyKey string              `json:"idempotency_key,omitempty"`
	TraceParent    []byte              `json:"trace_parent,omitempty"` // the producer's trace and span: 16 bytes and 8
	TraceState     string              `json:"trace_state,omitempty"`  // the producer's tracestate
	CreatedAt      time.Time           `json:"created_at"`
	Subject        string              `json:"subject,omitempty"`
	Channels       []string            `json:"channels,omitempty"`
	Metadata       map[string]string   `json:"metadata,omitempty"`
	Internal       map[string]string   `json:"internal,omitempty"`
	Previous       []byte              `json:"previous,omitempty"`
	ChangedPaths   []string            `json:"changed_paths,omitempty"`
	ContentType    string              `json:"content_type,omitempty"`
	Data           []byte              `json:"data"` // as base64: the bytes that were signed

	Endpoints []postrider.EndpointID `json:"endpoints,omitempty"` // the only ones that got the event

	OccurredAt time.Time          `json:"occurred_at,omitzero"`
	OutboxID   postrider.OutboxID `json:"outbox_id,omitzero"`
}

// attemptRecord is an attempt, or a decision without a request. The last record of a delivery has
// the final status of the delivery.
type attemptRecord struct {
	names

	Outcome      postrider.Outcome    `json:"outcome"`
	StatusCode   int                  `json:"status_code,omitempty"`
	Error        string               `json:"error,omitempty"`
	RetryAfterMS int64                `json:"retry_after_ms,omitempty"`
	StartedAt    time.Time            `json:"started_at"`
	DurationUS   int64                `json:"duration_us"`
	Timing       *timingRecord        `json:"timing,omitempty"`
	Stale        bool                 `json:"stale,omitempty"`
	StatusAfter  postrider.Status     `json:"status_after"`
	NextAt       *time.Time           `json:"next_at,omitempty"`
	FinalURL     string               `json:"final_url,omitempty"`
	ReplayedFrom postrider.DeliveryID `json:"replayed_from,omitzero"`
	ReplayJob    postrider.ReplayID   `json:"replay_job,omitzero"`
	// ResponseHead and ResponseBody are the head and the beginning of the response of an accepted
	// attempt. If the body is longer, both are in a bodyRecord instead.
	ResponseHead []byte `json:"response_head,omitempty"`
	ResponseBody []byte `json:"response_body,omitempty"`
}

// names are the ids of a record of an attempt.
type names struct {
	Delivery postrider.DeliveryID `json:"delivery"`
	Number   int                  `json:"number"`
	Event    postrider.EventID    `json:"event,omitzero"`
	Endpoint postrider.EndpointID `json:"endpoint,omitzero"`
	Account  postrider.AccountID  `json:"account,omitzero"`
	Type     string               `json:"type,omitempty"` // of the event
}

type timingRecord struct {
	DNSUS       int64 `json:"dns_us,omitempty"`
	ConnectUS   int64 `json:"connect_us,omitempty"`
	TLSUS       int64 `json:"tls_us,omitempty"`
	FirstByteUS int64 `json:"first_byte_us,omitempty"`
	Reused      bool  `json:"reused,omitempty"`
}

// bodyRecord has the heads and the body of an attempt.
type bodyRecord struct {
	names

	RequestHead  []byte `json:"request_head,omitempty"`
	ResponseHead []byte `json:"response_head,omitempty"`
	ResponseBody []byte `json:"response_body,omitempty"`
}

// encodeRecord appends a row as one line of JSON.
func encodeRecord(to *bytes.Buffer, kind store.Kind, r store.ArchivedRow) error {
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(recordOf(kind, r)); err != nil {
		return fmt.Errorf("encode %s: %w", textOf(kind, r.ID()), err)
	}
	return nil
}

func recordOf(kind store.Kind, r store.ArchivedRow) any {
	if e := r.Event; e != nil {
		var trace []byte
		if !e.TraceParent.IsZero() {
			trace = e.TraceParent[:]
		}
		return eventRecord{
			TraceParent: trace, TraceState: e.TraceState,
			ID: e.ID, Account: e.Account, Type: e.Type, APIVersion: e.APIVersion, OrderingKey: e.OrderingKey, Sequence: e.Sequence,
			Hops: e.Hops, MaxAttempts: e.MaxAttempts, IdempotencyKey: e.IdempotencyKey, CreatedAt: e.ID.Time().UTC(), Data: e.Data,
			Subject: e.About.Subject, Channels: e.About.Channels, Metadata: e.About.Metadata, Internal: e.About.Internal,
			Previous: e.About.Previous, ChangedPaths: e.About.ChangedPaths, ContentType: e.About.ContentType,
			Endpoints: e.Endpoints, OccurredAt: e.OccurredAt, OutboxID: e.Row,
		}
	}
	a := r.Attempt
	of := names{a.Delivery, a.Number, a.Event, a.Endpoint, r.Account, r.EventType}
	if kind == store.OldBodies {
		return bodyRecord{of, a.RequestHead, a.ResponseHead, a.ResponseBody}
	}
	record := attemptRecord{
		names: of, Outcome: a.Outcome, StatusCode: a.StatusCode, Error: a.Error, RetryAfterMS: a.RetryAfter.Milliseconds(),
		StartedAt: a.StartedAt.UTC(), DurationUS: a.Duration.Microseconds(), Stale: a.Stale, StatusAfter: a.StatusAfter, FinalURL: a.FinalURL,
		ReplayedFrom: r.ReplayedFrom, ReplayJob: r.ReplayJob, ResponseHead: a.ResponseHead, ResponseBody: a.ResponseBody,
	}
	if !a.NextAt.IsZero() {
		next := a.NextAt.UTC()
		record.NextAt = &next
	}
	if t := a.Timing; t != (postrider.Timing{}) {
		record.Timing = &timingRecord{
			t.DNS.Microseconds(), t.Connect.Microseconds(), t.TLS.Microseconds(), t.FirstByte.Microseconds(), t.Reused,
		}
	}
	return record
}

// decodeEvent parses the record of an event. It leaves out what only a request to an endpoint needs.
func decodeEvent(record []byte) (*postrider.Event, error) {
	var r eventRecord
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("read an event: %w", err)
	}
	return &postrider.Event{
		ID: r.ID, Account: r.Account, Type: r.Type, CreatedAt: r.CreatedAt, Data: r.Data, Endpoints: r.Endpoints,
		About: postrider.About{
			Subject: r.Subject, Channels: r.Channels, Metadata: r.Metadata, Internal: r.Internal, Previous: r.Previous,
			ChangedPaths: r.ChangedPaths, ContentType: r.ContentType,
		},
	}, nil
}

// named has the fields that a search reads, for a record of any kind.
type named struct {
	names

	ID postrider.EventID `json:"id"`
}

// decodeRecord parses a line of a segment. The record keeps the bytes of the line.
func decodeRecord(kind store.Kind, line []byte) (r store.RestoredRecord, err error) {
	var n named
	if err := json.Unmarshal(line, &n); err != nil {
		return r, fmt.Errorf("read a record: %w", err)
	}
	r = store.RestoredRecord{
		Kind: kind, ID: store.RowID(n.Delivery), Number: n.Number, Account: n.Account, Event: n.Event, Endpoint: n.Endpoint, Type: n.Type,
		Record: line,
	}
	if kind == store.OldEvents {
		r.ID, r.Event = store.RowID(n.ID), n.ID
	}
	return r, nil
}
