package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// timingReused is the flag of an attempt that used an open connection.
const timingReused = 1

// EncodeTiming returns the stored form of an attempt's timing: a byte of flags, followed by the
// parts as varints of microseconds, in the order FirstByte, Connect, TLS and DNS. Only a new
// connection has the last three parts. Zero parts at the end are left out, so most attempts need
// 3 or 4 bytes. The form of the zero timing is nil.
func EncodeTiming(t postrider.Timing) []byte {
	if t == (postrider.Timing{}) {
		return nil
	}
	b := make([]byte, 1, 8)
	if t.Reused {
		b[0] = timingReused
	}
	parts := [...]time.Duration{t.FirstByte, t.Connect, t.TLS, t.DNS}
	used := len(parts)
	for used > 0 && parts[used-1] < time.Microsecond {
		used--
	}
	for _, part := range parts[:used] {
		b = binary.AppendUvarint(b, uint64(max(part, 0).Microseconds()))
	}
	return b
}

// DecodeTiming reads the stored form of a timing.
func DecodeTiming(b []byte) (t postrider.Timing, err error) {
	if len(b) == 0 {
		return t, nil
	}
	t.Reused = b[0]&timingReused != 0
	b = b[1:]
	for _, part := range []*time.Duration{&t.FirstByte, &t.Connect, &t.TLS, &t.DNS} {
		if len(b) == 0 {
			break
		}
		micros, n := binary.Uvarint(b)
		if n <= 0 {
			return postrider.Timing{}, errors.New("read the timing of an attempt: it is cut")
		}
		*part, b = time.Duration(micros)*time.Microsecond, b[n:]
	}
	return t, nil
}
