package postrider

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Event is a message that a producer published. It never changes. Data has exactly the bytes that
// the producer sent.
type Event struct {
	ID          EventID
	Account     AccountID
	Type        string
	Data        []byte // JSON, unless About has a ContentType
	APIVersion  string // the producer's own API version; may be empty
	OrderingKey string // may be empty
	// Place among the account's events with this ordering key, from 1; 0: the event has no ordering
	// key.
	Sequence int64
	// Number of senders that forwarded the event before; the producer's Webhook-Hops header says
	// so.
	Hops        int
	TraceParent TraceParent // zero: the producer gave none
	TraceState  string      // value of the header tracestate, see [ParseTraceState]; empty: none, or no TraceParent
	// Limit of the attempts of each of its deliveries, up to [MaxRetryAttempts]; 0: only
	// the endpoint's policy limits them.
	MaxAttempts int
	CreatedAt   time.Time
	About       About
	// The only endpoints that get the event, ordered by id, whatever their types and filters are.
	// Empty: those that subscribe to it.
	Endpoints []EndpointID

	// IdempotencyKey makes a repeated publish harmless. For some days (7 by default) the key stands
	// for the first event that was published with it. Empty: the producer gave none.
	IdempotencyKey string

	// When it happened, as its producer says; endpoints see it as the time of the event. Zero: CreatedAt.
	OccurredAt time.Time
	// The row of a producer's outbox that the event was read from; zero: it came by the API. A row is
	// published once, however long ago that was.
	Row OutboxID
}

// The limits of an event, in bytes.
const (
	MaxEventKey   = 256 // of an idempotency key and of an ordering key
	MaxAPIVersion = 64
)

// MaxEventEndpoints is the largest number of endpoints that an event may name.
const MaxEventEndpoints = 100

// MaxHops is the number of senders at which an event counts as being in a loop. A receiver that
// publishes because of a webhook copies the header Webhook-Hops, and each sender adds one.
const MaxHops = 8

// Check returns all faults of an event that is about to be published, joined: an [InvalidError]
// for each field, by its name in the API, and [ErrLoop]. maxData is the largest data, in bytes.
//
// All that the event says of itself counts towards maxData, beside the data.
//
// Every way to publish an event calls Check, by HTTP or not, so that all have the same limits and
// texts. Check does not parse the data: the decoder of the request has checked that it is JSON. Check
// refuses the types of the server's own events, so a receiver can trust that nobody else sends a
// postrider.test.
func (e *Event) Check(maxData int) error {
	var f faults
	if IsOperational(e.Type) {
		f.add(true, "type", FaultNotAllowed, "must not begin with "+OperationalPrefix+", which is for the server's own events")
	} else {
		f.join(CheckType("type", e.Type))
	}
	f.short("idempotency_key", e.IdempotencyKey, MaxEventKey)
	f.short("ordering_key", e.OrderingKey, MaxEventKey)
	f.short("api_version", e.APIVersion, MaxAPIVersion)
	if e.MaxAttempts != 0 {
		f.within("max_attempts", int64(e.MaxAttempts), 1, MaxRetryAttempts)
	}
	f.join(e.About.Check())
	switch {
	case len(e.Data) > maxData:
		f.join(&InvalidError{Field: "data", Code: FaultTooLong, Reason: fmt.Sprintf("must be at most %d bytes", maxData), Max: int64(maxData)})
	case e.Size() > maxData:
		field, reason := "data", "must be, with what the event says of itself, at most %d bytes"
		if len(e.About.Previous) > 0 {
			field, reason = "previous", "must be, with data and what else the event says of itself, at most %d bytes"
		}
		f.join(&InvalidError{Field: field, Code: FaultTooLong, Reason: fmt.Sprintf(reason, maxData), Max: int64(maxData)})
	}
	if e.Hops >= MaxHops {
		f.join(ErrLoop)
	}
	return f.joined()
}

// MaxAhead is how far ahead of the server's time an event may have occurred, because clocks differ.
const MaxAhead = 10 * time.Minute

// CheckOccurred returns an [InvalidError] unless OccurredAt is after 1970 and at most MaxAhead after now.
func (e *Event) CheckOccurred(now time.Time) error {
	if e.OccurredAt.Unix() < 0 || e.OccurredAt.After(now.Add(MaxAhead)) {
		return &InvalidError{Field: "occurred_at", Code: FaultOutOfRange, Reason: "must be after 1970 and at most 10 minutes ahead"}
	}
	return nil
}

// Happened returns the time of the event that its endpoints see: OccurredAt, or else CreatedAt.
func (e *Event) Happened() time.Time {
	if e.OccurredAt.IsZero() {
		return e.CreatedAt
	}
	return e.OccurredAt
}

// Size returns the number of bytes of the data, of what the event says of itself, and of the ids of its
// Endpoints.
func (e *Event) Size() int { return len(e.Data) + e.About.Size() + len(e.Endpoints)*len(EndpointID{}) }

// IsFor reports whether the event names the endpoint or, if it names none, whether the endpoint
// subscribes to its type.
func (e *Event) IsFor(to *Endpoint) bool {
	if len(e.Endpoints) > 0 {
		return slices.Contains(e.Endpoints, to.ID)
	}
	return to.Subscribes(e.Type)
}

// TestEventID turns the id into the id of a test event: an event that no producer published and that
// was made to try out an endpoint. The UUID gets version 8 instead of 7. Therefore a delivery, an
// attempt or a dead letter, which has the event's id, shows whether it belongs to a test.
func TestEventID(id EventID) EventID {
	id[6] = id[6]&0x0f | 0x80
	return id
}

// IsTest reports whether the id is the id of a test event; see [TestEventID].
func IsTest(id EventID) bool { return id[6]>>4 == 8 }

// Receipt is the response to a publish. When the producer gets it, the event is stored durably.
type Receipt struct {
	ID EventID // id of the event; for a duplicate, the id of the first event
	// True: an event with this idempotency key and content was published before, so nothing is sent
	// again.
	Duplicate bool
	// Number of deliveries that were created, not counting skipped ones; 0 for a duplicate; unknown
	// with FanOut.
	Deliveries int
	FanOut     bool // a fan-out job creates the deliveries
}

// MaxTypeLength is the longest event type, in bytes.
const MaxTypeLength = 128

// CheckType returns an [InvalidError] for the field unless name is an event type: segments of
// letters, digits, _ and -, joined by dots.
func CheckType(field, name string) error {
	if len(name) > MaxTypeLength || !isType(name) {
		return &InvalidError{Field: field, Reason: fmt.Sprintf(
			"must be segments of letters, digits, _ and - joined by dots, at most %d bytes", MaxTypeLength)}
	}
	return nil
}

func isType(name string) bool {
	dot := true // true: the next character must begin a segment
	for i := range len(name) {
		switch c := name[i]; {
		case c == '.' && !dot:
			dot = true
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			dot = false
		default:
			return false
		}
	}
	return !dot
}

// OperationalPrefix is the prefix of event types that only the server publishes: events about
// notices, and test events to which no other type was given.
const OperationalPrefix = "postrider."

// IsOperational reports whether only the server publishes events of the type.
func IsOperational(eventType string) bool { return strings.HasPrefix(eventType, OperationalPrefix) }

// Pattern selects event types. It is a whole type (order.created), everything below a segment
// (order.*, which matches order.created and order.item.added but not order), or everything that
// producers publish (*). Only an operational type itself, or a pattern such as postrider.*, matches
// an operational event, so that nobody gets such events without asking.
type Pattern string

// Check returns an [InvalidError] for the field unless the pattern has one of
// the three forms.
func (p Pattern) Check(field string) error {
	if p == "*" {
		return nil
	}
	if CheckType(field, strings.TrimSuffix(string(p), ".*")) != nil {
		return &InvalidError{Field: field, Reason: "must be an event type (order.created), a prefix (order.*) or *"}
	}
	return nil
}

// Matches reports whether the pattern selects the event type.
func (p Pattern) Matches(eventType string) bool {
	if p == "*" {
		return eventType != "" && !IsOperational(eventType)
	}
	if prefix, ok := strings.CutSuffix(string(p), "*"); ok {
		return strings.HasPrefix(eventType, prefix) && eventType != prefix
	}
	return string(p) == eventType
}
