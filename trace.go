package postrider

import (
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// TraceID identifies a trace of W3C Trace Context. All spans of one event have the same TraceID.
type TraceID [16]byte

// String returns the id in hexadecimal digits, as tracing tools show it.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// SpanID identifies a span within its trace.
type SpanID [8]byte

// String returns the id in hexadecimal digits.
func (s SpanID) String() string { return hex.EncodeToString(s[:]) }

// TraceParent has the trace in which a producer published an event, in 16 bytes, and the producer's
// span, in 8 bytes. It comes from the header traceparent of the publish. Zero: the producer sent
// none. The producer's sampled flag is not kept: this server decides itself which events it records
// ([Sampled]).
type TraceParent [24]byte

// IsZero reports whether the producer sent no traceparent.
func (p TraceParent) IsZero() bool { return p == TraceParent{} }

// Trace returns the producer's trace.
func (p TraceParent) Trace() TraceID { return TraceID(p[:16]) }

// Span returns the producer's span.
func (p TraceParent) Span() SpanID { return SpanID(p[16:]) }

// TraceParentHeader is the name of the header as the specification writes it. Header names are not
// case-sensitive.
const TraceParentHeader = "traceparent"

// traceParentLength is the length of the header traceparent in version 00:
// 00-<32 digits of the trace>-<16 of the span>-<2 of flags>.
const traceParentLength = 55

// ParseTraceParent reads the header traceparent of W3C Trace Context, level 1. It returns false if
// the text has another form: letters other than 0 to 9 and a to f, an id of zeros, version ff, or
// more fields than version 00 has. From a header of a later version it reads only the fields of
// version 00, as the specification demands.
func ParseTraceParent(text string) (p TraceParent, ok bool) {
	if len(text) < traceParentLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return TraceParent{}, false
	}
	version, ids, flags := text[:2], text[3:35]+text[36:52], text[53:traceParentLength]
	if strings.ContainsFunc(version+ids+flags, notHex) || version == "ff" {
		return TraceParent{}, false
	}
	rest := text[traceParentLength:]
	if rest != "" && (version == "00" || rest[0] != '-') {
		return TraceParent{}, false
	}
	if _, err := hex.Decode(p[:], []byte(ids)); err != nil || p.Trace() == (TraceID{}) || p.Span() == (SpanID{}) {
		return TraceParent{}, false
	}
	return p, true
}

// notHex reports whether the rune is no hexadecimal digit of Trace Context, which allows only
// lower-case letters.
func notHex(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }

// AppendTraceParent appends a header traceparent of version 00. sampled says whether the span is
// recorded.
func AppendTraceParent(b []byte, trace TraceID, span SpanID, sampled bool) []byte {
	b = hex.AppendEncode(append(b, "00-"...), trace[:])
	b = hex.AppendEncode(append(b, '-'), span[:])
	if sampled {
		return append(b, "-01"...)
	}
	return append(b, "-00"...)
}

// TraceStateHeader is the name of the header in which tracing tools pass each other their own data
// about a trace. Header names are not case-sensitive.
const TraceStateHeader = "tracestate"

// The limits of the header tracestate. A longer header loses members, as the specification says:
// first members of more than 128 bytes, then members from the end.
const (
	maxTraceState   = 512 // bytes that are passed on; the specification demands at least as many
	maxTraceMembers = 32
	longTraceMember = 128
)

var traceMember = regexp.MustCompile(`^([a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})` +
	`=[ -+\--<>-~]{0,255}[!-+\--<>-~]$`)

// ParseTraceState reads the lines of the header tracestate of W3C Trace Context, level 1, and
// returns them as one value of at most 512 bytes. It returns "" if a member is not valid, a key
// occurs twice, or there are more than 32 members. The specification says that such a header is
// dropped and the request is processed.
func ParseTraceState(lines []string) string {
	var members []string
	seen := map[string]bool{}
	size := -1 // of all members and the commas between them
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			member = strings.Trim(member, " \t")
			if member == "" {
				continue
			}
			key, _, _ := strings.Cut(member, "=")
			if !traceMember.MatchString(member) || seen[key] {
				return ""
			}
			seen[key] = true
			members = append(members, member)
			size += len(member) + 1
		}
	}
	if len(members) > maxTraceMembers {
		return ""
	}
	for size > maxTraceState {
		i := len(members) - 1
		for j, member := range members {
			if len(member) > longTraceMember {
				i = j
			}
		}
		size -= len(members[i]) + 1
		members = slices.Delete(members, i, i+1)
	}
	return strings.Join(members, ",")
}

// Trace returns the trace of the event: the producer's trace, or else one that is computed from the
// event's id. So every node can compute it for as long as the event is kept. The last eight bytes are a
// hash, because collectors sample by these bytes and expect that they are random (W3C Trace Context
// 2, 2.2.4), and those of an event's id are not.
func (e *Event) Trace() TraceID {
	if !e.TraceParent.IsZero() {
		return e.TraceParent.Trace()
	}
	trace := TraceID(e.ID)
	binary.BigEndian.PutUint64(trace[8:], mixed(e.ID, endOfTrace))
	return trace
}

// The spans that each event has once. Their ids are computed from the event's id, and the ids of
// attempts are computed from the delivery's id. So every node can compute the id of a span that
// another node recorded, or that was not sampled.
const (
	spanPublish = iota + 1
	spanCommit
	endOfTrace // not a span: see Event.Trace
)

// PublishSpan returns the id of the span of the event's publish.
func PublishSpan(id EventID) SpanID { return spanOf(id, spanPublish) }

// CommitSpan returns the id of the span of the commit that stored the event. The spans of attempts
// and of the chunks of a fan-out job are its children.
func CommitSpan(id EventID) SpanID { return spanOf(id, spanCommit) }

// ChunkSpan returns the id of the span of a chunk of a fan-out job. The chunk begins after the
// endpoint behind.
func ChunkSpan(id EventID, behind EndpointID) SpanID {
	return spanOf(id, mixed(behind, 0))
}

// AttemptSpan returns the id of the span of an attempt. No two attempts of a delivery have the
// same number, so no two requests have the same span.
func AttemptSpan(id DeliveryID, attempt int) SpanID { return spanOf(id, uint64(attempt)) }

// Sampled reports whether the spans of an event are recorded, if the given share (0 to 1) of all
// events is recorded. Only the event's id decides, and the server makes that id. So all nodes with
// the same share agree, and no producer can have its own events recorded.
func Sampled(id EventID, share float64) bool { return float64(mixed(id, 0)>>11)/(1<<53) < share }

// spanOf returns the id of a span. An id must not be all zeros.
func spanOf[I ~[16]byte](id I, which uint64) (s SpanID) {
	binary.BigEndian.PutUint64(s[:], max(1, mixed(id, which)))
	return s
}

// mixed returns a hash of an id and a number. Each bit of the two changes about half of the
// result's bits. The steps are from SplitMix64.
func mixed[I ~[16]byte](id I, number uint64) uint64 {
	b := [16]byte(id)
	x := uint64(0)
	for _, part := range [...]uint64{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), number} {
		x += part + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
