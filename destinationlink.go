package postrider

import (
	"encoding/binary"
	"time"
)

// DestinationLink says what a link in a message does. The URL carries it signed; see
// [DestinationLink.Encode].
type DestinationLink struct {
	Destination DestinationID
	Action      LinkAction
	Kind        NoticeKind // LinkUnsubscribe: the kind, or [AllKinds]; otherwise empty
	ExpiresAt   time.Time  // in whole seconds; zero: the link never expires
}

// LinkAction is what a link does. It is a part of the path of the link's page.
type LinkAction string

// The actions.
const (
	LinkConfirm     LinkAction = "confirm"     // the reader agrees to get notices
	LinkUnsubscribe LinkAction = "unsubscribe" // the reader wants no notices of the kind
)

// Encode returns the bytes that are signed: the id, the expiry in seconds, the length of the
// action, the action and the kind.
func (l DestinationLink) Encode() []byte {
	var expires uint64
	if !l.ExpiresAt.IsZero() {
		expires = uint64(l.ExpiresAt.Unix())
	}
	out := binary.BigEndian.AppendUint64(append([]byte{}, l.Destination[:]...), expires)
	out = append(out, byte(len(l.Action)))
	return append(append(out, l.Action...), l.Kind...)
}

// DecodeDestinationLink reads the bytes that [DestinationLink.Encode] returned. It returns false
// for other bytes.
func DecodeDestinationLink(b []byte) (l DestinationLink, ok bool) {
	const head = 16 + 8 + 1
	if len(b) < head || len(b) < head+int(b[head-1]) {
		return l, false
	}
	copy(l.Destination[:], b)
	expires := binary.BigEndian.Uint64(b[16:])
	if expires != 0 {
		l.ExpiresAt = time.Unix(int64(expires), 0).UTC()
	}
	l.Action, l.Kind = LinkAction(b[head:head+int(b[head-1])]), NoticeKind(b[head+int(b[head-1]):])
	return l, expires < 1<<62 && (l.Action == LinkConfirm && l.Kind == "" || l.Action == LinkUnsubscribe && l.Kind != "")
}
