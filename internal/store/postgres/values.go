package postgres

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// This file converts domain values to parameters, and columns to domain values.

// column is an array parameter that is encoded without copies. pgx asks for each value as an
// interface. A value in an interface is copied to the heap, and a settlement has 25 values. So
// Index returns a pointer into the column. T is a type of pgtype, which pgx encodes without
// reflection.
type column[T any] []T

type (
	uuids   = column[pgtype.UUID]
	texts   = column[pgtype.Text]
	numbers = column[pgtype.Int8] // for all integer types; pgx checks the range when it encodes them
	times   = column[pgtype.Timestamptz]
	abouts  = column[about]
)

// Dimensions returns nil for a nil column, which makes it null.
func (c column[T]) Dimensions() []pgtype.ArrayDimension { return pgtype.FlatArray[T](c).Dimensions() }

// Index returns a pointer to a value.
func (c column[T]) Index(i int) any { return &c[i] }

// IndexType returns a value of the type that Index returns.
func (c column[T]) IndexType() any { return (*T)(nil) }

// uuid returns the id as a parameter; the zero id is null.
func uuid[I ~[16]byte](id I) pgtype.UUID {
	return pgtype.UUID{Bytes: id, Valid: id != I{}}
}

// someUUID returns the id as a parameter that is never null.
func someUUID[I ~[16]byte](id I) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// instant returns the time as a parameter; the zero time is null.
func instant(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

// text returns the string as a parameter; the empty string is null.
func text(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// about is a parameter with the result of [store.EncodeAbout]; nil is null.
type about []byte

// BytesValue returns the bytes to store.
func (a *about) BytesValue() ([]byte, error) { return *a, nil }

// someText returns the string as a parameter that is never null.
func someText[S ~string](s S) pgtype.Text { return pgtype.Text{String: string(s), Valid: true} }

// number returns the integer as a parameter.
func number[N ~int | ~int16 | ~int64 | ~uint64](n N) pgtype.Int8 {
	return pgtype.Int8{Int64: int64(n), Valid: true}
}

// micros returns the duration as a parameter, in microseconds.
func micros(d time.Duration) pgtype.Int8 { return number(d.Microseconds()) }

// token returns the token as a parameter; the zero token, which is no lease, is null.
func token(t postrider.Token) pgtype.Int8 { return pgtype.Int8{Int64: int64(t), Valid: t != 0} }

// bytesOrNull returns nil for an empty slice, so that it is stored as null.
func bytesOrNull(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// intoID scans a uuid into an id; null is the zero id.
type intoID[I ~[16]byte] struct{ id *I }

func toID[I ~[16]byte](id *I) intoID[I] { return intoID[I]{id} }

// ScanUUID sets the id.
func (d intoID[I]) ScanUUID(v pgtype.UUID) error {
	*d.id = I{}
	if v.Valid {
		*d.id = v.Bytes
	}
	return nil
}

// intoAbout scans a bytea into the trace and the About of an event; null is neither.
type intoAbout struct{ event *postrider.Event }

func toAbout(e *postrider.Event) intoAbout { return intoAbout{e} }

// ScanBytes sets both.
func (d intoAbout) ScanBytes(v []byte) error { return store.DecodeAbout(d.event, v) }

// intoTime scans a timestamptz into a UTC time; null is the zero time.
type intoTime struct{ at *time.Time }

func toTime(at *time.Time) intoTime { return intoTime{at} }

// ScanTimestamptz sets the time.
func (d intoTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	*d.at = time.Time{}
	if v.Valid {
		*d.at = v.Time.UTC()
	}
	return nil
}

// intoWait scans microseconds into a duration.
type intoWait struct{ wait *time.Duration }

func toWait(wait *time.Duration) intoWait { return intoWait{wait} }

// ScanInt64 sets the duration.
func (d intoWait) ScanInt64(v pgtype.Int8) error {
	*d.wait = time.Duration(v.Int64) * time.Microsecond
	return nil
}

// laneNumber returns the number of a lane in the queue: its index in postrider.Lanes.
func laneNumber(l postrider.Lane) int16 { return int16(slices.Index(postrider.Lanes, l)) }

// intoLane scans a lane's number.
type intoLane struct{ lane *postrider.Lane }

func toLane(lane *postrider.Lane) intoLane { return intoLane{lane} }

// ScanInt64 sets the lane.
func (d intoLane) ScanInt64(v pgtype.Int8) error {
	*d.lane = postrider.Lanes[v.Int64]
	return nil
}
