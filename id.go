package postrider

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// ID is a UUIDv7 with its own Go type for each kind of object. Its text is a TypeID: a prefix, an
// underscore and 26 characters of Crockford's base32, for instance evt_01h455vb4pex5vsknk084sn02q
// (github.com/jetify-com/typeid, spec 0.3). Ids of one type sort by the time at which they were
// made. The zero ID means that there is no object.
type ID[K kind] [16]byte

type kind interface{ prefix() string }

type (
	accountKind     struct{}
	eventKind       struct{}
	endpointKind    struct{}
	deliveryKind    struct{}
	secretKind      struct{}
	keyKind         struct{}
	replayKind      struct{}
	inspectionKind  struct{}
	sessionKind     struct{}
	auditKind       struct{}
	noticeKind      struct{}
	destinationKind struct{}
	expungeKind     struct{}
	sourceKind      struct{}
	outboxKind      struct{}
)

func (accountKind) prefix() string     { return "acc" }
func (eventKind) prefix() string       { return "evt" }
func (endpointKind) prefix() string    { return "ep" }
func (deliveryKind) prefix() string    { return "dlv" }
func (secretKind) prefix() string      { return "sec" }
func (keyKind) prefix() string         { return "key" }
func (replayKind) prefix() string      { return "rpl" }
func (inspectionKind) prefix() string  { return "ins" }
func (sessionKind) prefix() string     { return "ses" }
func (auditKind) prefix() string       { return "aud" }
func (noticeKind) prefix() string      { return "ntc" }
func (destinationKind) prefix() string { return "dst" }
func (expungeKind) prefix() string     { return "xpg" }
func (sourceKind) prefix() string      { return "src" }
func (outboxKind) prefix() string      { return "obx" }

// The ids of the domain's objects. Each kind of object has its own type, so the compiler refuses an
// id of another kind.
type (
	AccountID     = ID[accountKind]
	EventID       = ID[eventKind]
	EndpointID    = ID[endpointKind]
	DeliveryID    = ID[deliveryKind]
	SecretID      = ID[secretKind]
	KeyID         = ID[keyKind]
	ReplayID      = ID[replayKind]
	InspectionID  = ID[inspectionKind]
	SessionID     = ID[sessionKind]
	AuditID       = ID[auditKind]
	NoticeID      = ID[noticeKind]
	DestinationID = ID[destinationKind]
	ExpungeID     = ID[expungeKind]
	SourceID      = ID[sourceKind]
	// OutboxID is the id of a row of a producer's outbox. It is random (UUIDv4), so it has no time.
	OutboxID = ID[outboxKind]
)

// MakeID returns the UUIDv7 (RFC 9562, 5.7) for the time at, with the 74 low bits of random. A time
// before 1970 counts as 1970.
func MakeID[I ~[16]byte](at time.Time, random [10]byte) I {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(max(at.UnixMilli(), 0))<<16)
	copy(id[6:], random[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return I(id)
}

// The id of an event ends with ordinalBytes zero bytes. The ids of its deliveries have an ordinal
// there. So the deliveries of an event are a range of ids, and the id of a delivery names its event:
//
//	48 bits  milliseconds since 1970, of the event
//	 4 bits  version of the UUID: 7, or 8 for a test event
//	12 bits  fraction of the millisecond; it grows by one if the clock has not moved
//	 2 bits  variant of the UUID
//	 6 bits  cell: 0; reserved for installations with several databases
//	32 bits  node that made the id; no other living node has the same number
//	24 bits  ordinal of the delivery; 0 in the id of the event
//
// Not every delivery has such an id. A replay, a delivery that a fan-out job makes, and one whose
// publish had to wait can be much younger than the event, and belong to the day on which they were
// made. They have ids of their own, and the stores keep the id of the event beside them.
const ordinalBytes = 3

// MakeEventID returns the id of an event that was made at the time, to the millisecond, by the node.
// The fraction has 12 bits.
func MakeEventID(at time.Time, fraction uint16, node uint32) EventID {
	var low [10]byte
	binary.BigEndian.PutUint16(low[:], fraction)
	binary.BigEndian.PutUint32(low[3:], node)
	return MakeID[EventID](at, low)
}

// DeliveryOf returns the id of the delivery of an event that has the ordinal, of 24 bits. An event
// whose id was not made by [MakeEventID] has no such deliveries.
func DeliveryOf(event EventID, ordinal uint32) DeliveryID {
	id := DeliveryID(event)
	id[13], id[14], id[15] = byte(ordinal>>16), byte(ordinal>>8), byte(ordinal)
	return id
}

// EventOf returns the event that the id of a delivery carries. If the delivery has an id of its own,
// the result is the id of no event.
func EventOf(delivery DeliveryID) EventID {
	event := EventID(delivery)
	clear(event[len(event)-ordinalBytes:])
	return event
}

// ParseID reads the TypeID text of an id of type I, as in ParseID[EventID]("evt_…"). Any other
// text, also the text of another type's id, is an [InvalidError] for the field "id".
func ParseID[I any, P interface {
	*I
	UnmarshalText([]byte) error
}](text string) (I, error) {
	var id I
	err := P(&id).UnmarshalText([]byte(text))
	return id, err
}

// String returns the id's TypeID text.
func (id ID[K]) String() string {
	var k K
	text := make([]byte, 0, 32)
	text = append(text, k.prefix()...)
	text = append(text, '_')
	return string(appendBase32(text, id))
}

// IsZero reports whether the id is zero, which means that there is no object.
func (id ID[K]) IsZero() bool { return id == ID[K]{} }

// Time returns when the id was made, to the millisecond, in UTC.
func (id ID[K]) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// Compare returns -1, 0 or +1. The order is the order in which the ids were made.
func (id ID[K]) Compare(other ID[K]) int { return bytes.Compare(id[:], other[:]) }

// MarshalText returns the id's TypeID text.
func (id ID[K]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the TypeID text of an id of this type. If the text has another form, the id
// stays unchanged.
func (id *ID[K]) UnmarshalText(text []byte) error {
	var k K
	digits, ok := strings.CutPrefix(string(text), k.prefix()+"_")
	if !ok {
		return &InvalidError{Field: "id", Reason: fmt.Sprintf("must start with %s_", k.prefix())}
	}
	parsed, ok := parseBase32(digits)
	if !ok {
		return &InvalidError{Field: "id", Reason: fmt.Sprintf("must be %s_ and 26 characters of base32", k.prefix())}
	}
	*id = parsed
	return nil
}

const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// appendBase32 writes two zero bits and the 128 bits of the id as 26 digits of 5 bits each. TypeID
// pads on the left; encoding/base32 pads on the right.
func appendBase32(text []byte, id [16]byte) []byte {
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for shift := 125; shift >= 0; shift -= 5 {
		text = append(text, crockford[bitsAt(hi, lo, shift)])
	}
	return text
}

// bitsAt returns five bits of the 128-bit number hi:lo. The lowest of the five is bit number shift.
func bitsAt(hi, lo uint64, shift int) uint64 {
	if shift >= 64 {
		return hi >> (shift - 64) & 31
	}
	return (lo>>shift | hi<<(64-shift)) & 31
}

func parseBase32(digits string) (id [16]byte, ok bool) {
	if len(digits) != 26 || digits[0] > '7' { // a first digit over 7 would need 129 bits
		return id, false
	}
	var hi, lo uint64
	for i := range len(digits) {
		digit := strings.IndexByte(crockford, digits[i])
		if digit < 0 {
			return id, false
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(digit)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, true
}
