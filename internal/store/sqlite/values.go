package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// This file converts domain values to arguments, and columns to domain values. Ids are blobs of
// 16 bytes, times are microseconds of UTC, and a zero value is null if the column allows null.
// Each destination checks the type of the column, so that a wrong column is an error and not a
// zero value.

// blob returns the id as an argument.
func blob[I ~[16]byte](id I) []byte { return id[:] }

// blobOrNull returns the id as an argument; the zero id is null.
func blobOrNull[I ~[16]byte](id I) any {
	if id == (I{}) {
		return nil
	}
	return id[:]
}

// micros returns the time as an argument.
func micros(t time.Time) int64 { return t.UnixMicro() }

// microsOrNull returns the time as an argument; the zero time is null.
func microsOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// textOrNull returns the string as an argument; the empty string is null.
func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// bytesOrNull returns the bytes as an argument; an empty slice is null.
func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// someBytes returns the bytes as an argument that is never null.
func someBytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// tokenOrNull returns the token as an argument; the zero token, which is no lease, is null.
func tokenOrNull(t postrider.Token) any {
	if t == 0 {
		return nil
	}
	return int64(t)
}

// laneNumber returns the lane's number in the queue: its index in postrider.Lanes.
func laneNumber(l postrider.Lane) int64 { return int64(slices.Index(postrider.Lanes, l)) }

// intoID scans 16 bytes into an id; null is the zero id.
type intoID[I ~[16]byte] struct{ id *I }

func toID[I ~[16]byte](id *I) intoID[I] { return intoID[I]{id} }

// Scan sets the id.
func (d intoID[I]) Scan(v any) error {
	*d.id = I{}
	if v == nil {
		return nil
	}
	b, ok := v.([]byte)
	if !ok || len(b) != len(I{}) {
		return fmt.Errorf("scan %T as an id", v)
	}
	*d.id = I(b)
	return nil
}

// intoTime scans microseconds into a UTC time; null is the zero time.
type intoTime struct{ at *time.Time }

func toTime(at *time.Time) intoTime { return intoTime{at} }

// Scan sets the time.
func (d intoTime) Scan(v any) error {
	*d.at = time.Time{}
	switch v := v.(type) {
	case nil:
	case int64:
		*d.at = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("scan %T as a time", v)
	}
	return nil
}

// intoWait scans microseconds into a duration; null is 0.
type intoWait struct{ wait *time.Duration }

func toWait(wait *time.Duration) intoWait { return intoWait{wait} }

// Scan sets the duration.
func (d intoWait) Scan(v any) error {
	n, ok := v.(int64)
	if !ok && v != nil {
		return fmt.Errorf("scan %T as a duration", v)
	}
	*d.wait = time.Duration(n) * time.Microsecond
	return nil
}

// intoString scans text into a string type; null is the empty string.
type intoString[S ~string] struct{ s *S }

func toString[S ~string](s *S) intoString[S] { return intoString[S]{s} }

// Scan sets the string.
func (d intoString[S]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*d.s = ""
	case string:
		*d.s = S(v)
	default:
		return fmt.Errorf("scan %T as a text", v)
	}
	return nil
}

// intoFlag scans 0 or 1; null is false.
type intoFlag struct{ flag *bool }

func toFlag(flag *bool) intoFlag { return intoFlag{flag} }

// Scan sets the flag.
func (d intoFlag) Scan(v any) error {
	n, ok := v.(int64)
	if !ok && v != nil {
		return fmt.Errorf("scan %T as a flag", v)
	}
	*d.flag = n != 0
	return nil
}

// intoLane scans a lane's number.
type intoLane struct{ lane *postrider.Lane }

func toLane(lane *postrider.Lane) intoLane { return intoLane{lane} }

// Scan sets the lane.
func (d intoLane) Scan(v any) error {
	n, ok := v.(int64)
	if !ok || n < 0 || int(n) >= len(postrider.Lanes) {
		return fmt.Errorf("scan %v as a lane", v)
	}
	*d.lane = postrider.Lanes[n]
	return nil
}

// intoToken scans a token; null is the zero token, which is no lease.
type intoToken struct{ token *postrider.Token }

func toToken(token *postrider.Token) intoToken { return intoToken{token} }

// Scan sets the token.
func (d intoToken) Scan(v any) error {
	n, ok := v.(int64)
	if !ok && v != nil {
		return fmt.Errorf("scan %T as a token", v)
	}
	*d.token = postrider.Token(n)
	return nil
}

// tuples returns the placeholders of a bulk statement, for example "(?,?),(?,?)" for two rows of
// two columns. They are the only part of a statement that is not a constant.
func tuples(rows, columns int) string {
	tuple := "(" + strings.Repeat(",?", columns)[1:] + ")"
	return strings.Repeat(","+tuple, rows)[1:]
}

// intoAbout scans the trace and the About of an event; null is neither.
type intoAbout struct{ event *postrider.Event }

func toAbout(e *postrider.Event) intoAbout { return intoAbout{e} }

// Scan sets both.
func (d intoAbout) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok && v != nil {
		return fmt.Errorf("scan %T as what is known about an event", v)
	}
	return store.DecodeAbout(d.event, b)
}
