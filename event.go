package postrider

import (
	"fmt"
	"strings"
	"time"
)

// Event is a message that a producer published. It never changes afterwards. Data
// has exactly the bytes that the producer sent.
type Event struct {
	ID          EventID
	Account     AccountID
	Type        string
	Data        []byte      // JSON
	APIVersion  string      // the producer's own; may be empty
	OrderingKey string      // may be empty
	Sequence    int64       // place among the account's events with this ordering key, from 1; 0: it has no key
	Hops        int         // number of senders that forwarded it before, by their Webhook-Hops header
	TraceParent TraceParent // zero: the producer gave none
	TraceState  string      // what tools for traces told each other of the trace, see [ParseTraceState]; empty: nothing, or no TraceParent
	MaxAttempts int         // attempts that each of its deliveries has at most, up to [MaxRetryAttempts]; 0: as many as the endpoint's policy says
	CreatedAt   time.Time

	// IdempotencyKey makes a repeated publish harmless: for some days, 7 by
	// default, the key stands for the first event that was published with it.
	// Empty: the producer gave none.
	IdempotencyKey string
}

// The limits of an event, in bytes.
const (
	MaxEventKey   = 256 // of an idempotency key and of an ordering key
	MaxAPIVersion = 64
)

// MaxHops is the count of senders from which on an event is in a loop. A receiver that
// publishes because of a webhook copies the header Webhook-Hops, and each sender adds one.
const MaxHops = 8

// Check returns all faults of an event that is about to be published, joined: an [InvalidError]
// for each field, by its name in the API, and [ErrLoop]. maxData is the largest data, in bytes.
//
// Every way to publish checks its events so, whether they come by HTTP or not, so that all have
// the same limits and texts. That the data is JSON, whoever decodes it has checked. The types of
// the server's own events are refused: a receiver can trust that nobody else sends a
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
	if len(e.Data) > maxData {
		f.join(&InvalidError{Field: "data", Code: FaultTooLong, Reason: fmt.Sprintf("must be at most %d bytes", maxData), Max: int64(maxData)})
	}
	if e.Hops >= MaxHops {
		f.join(ErrLoop)
	}
	return f.joined()
}

// TestEventID returns the id as that of a test event: an event that was made to try out an
// endpoint, and that no producer published. Its UUID has version 8 instead of 7. So what has
// the id of an event knows whether it is a test: its deliveries, attempts and dead letters.
func TestEventID(id EventID) EventID {
	id[6] = id[6]&0x0f | 0x80
	return id
}

// IsTest reports whether the event of the id is a test event; see [TestEventID].
func IsTest(id EventID) bool { return id[6]>>4 == 8 }

// Receipt is the response to a publish. The event is stored for good when the
// producer gets it.
type Receipt struct {
	ID         EventID // of a duplicate: the id of the first event
	Duplicate  bool    // an event with this idempotency key and content was published before; nothing is sent again
	Deliveries int     // number of deliveries that were created, without skipped ones; 0 for a duplicate; unknown with FanOut
	FanOut     bool    // a fan-out job creates the deliveries
}

// MaxTypeLength is the longest event type, in bytes.
const MaxTypeLength = 128

// CheckType returns an [InvalidError] for the field unless name is an event
// type: segments of letters, digits, _ and -, joined by dots.
func CheckType(field, name string) error {
	if len(name) > MaxTypeLength || !isType(name) {
		return &InvalidError{Field: field, Reason: fmt.Sprintf(
			"must be segments of letters, digits, _ and - joined by dots, at most %d bytes", MaxTypeLength)}
	}
	return nil
}

func isType(name string) bool {
	dot := true // where a segment must begin
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

// OperationalPrefix begins the types of events that only the server publishes: those of
// notices, and test events without another type.
const OperationalPrefix = "postrider."

// IsOperational reports whether only the server publishes events of the type.
func IsOperational(eventType string) bool { return strings.HasPrefix(eventType, OperationalPrefix) }

// Pattern selects event types: a whole type (order.created), everything below
// a segment (order.*, which is order.created and order.item.added but not
// order), or everything that producers publish (*). Operational events are selected by
// their type or by postrider.*, and by no other pattern, so that nobody gets them without asking.
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
