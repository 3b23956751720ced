package postrider

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of error that callers distinguish. Every other error is a fault of Postrider or of its
// database. A failed attempt is not an error but has an [Outcome].
var (
	// ErrNotFound: no object has that identifier, or the caller may not see it.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the same request can never succeed. See [InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the request contradicts the stored data.
	ErrConflict = errors.New("conflict")
	// ErrGone: the object existed, and its data was deleted for good.
	ErrGone = errors.New("gone")
	// ErrBusy: the same request may succeed later.
	ErrBusy = errors.New("busy")
	// ErrFenced: another node has taken over the lease or the job that the caller held.
	ErrFenced = errors.New("fenced")
	// ErrTooManyTries: too many attempts were made to log in or to open a link. It matches ErrBusy.
	ErrTooManyTries = fmt.Errorf("too many tries: %w", ErrBusy)
	// ErrTooManyReads: the account already has as many reads of the API or of pages under way as
	// its share allows.
	ErrTooManyReads = errors.New("too many reads of the account are under way")
	// ErrLoop: the event has passed [MaxHops] webhook senders.
	ErrLoop = errors.New("the event is in a loop of webhook senders")
	// ErrExpungeList: the list of expunges cannot be written, so nothing is expunged.
	ErrExpungeList = errors.New("the list of expunges cannot be written")
)

// FaultCode names a kind of fault that a field can have, for programs and for
// translations. A code never changes.
type FaultCode string

// The kinds of fault of a field.
const (
	// The value does not have the form or the type that the field needs.
	FaultMalformed  FaultCode = "malformed"
	FaultRequired   FaultCode = "required"     // the field is missing or empty
	FaultOutOfRange FaultCode = "out_of_range" // the number is not between Min and Max
	FaultWrongCount FaultCode = "wrong_count"  // the list does not have Min to Max elements
	FaultTooLong    FaultCode = "too_long"     // the text has more than Max bytes
	FaultNotAChoice FaultCode = "not_a_choice" // the value is not one of the allowed values
	FaultRepeated   FaultCode = "repeated"     // the value occurs twice in the request
	// The value names an object that does not exist, or that the caller may not see.
	FaultNotFound      FaultCode = "not_found"
	FaultNotAllowed    FaultCode = "not_allowed"   // the field must be left out here, or the caller may not set it
	FaultContradictory FaultCode = "contradictory" // the value contradicts another field
	FaultUnknown       FaultCode = "unknown_field" // the request has no such field
	// The URL does not begin with https://, and the operator allows only https://.
	FaultNotHTTPS       FaultCode = "not_https"
	FaultNotHTTP        FaultCode = "not_http"        // the URL begins neither with https:// nor with http://, and the operator allows both
	FaultNotPublic      FaultCode = "not_public"      // requests may not be sent to the host or the port of the URL
	FaultHasCredentials FaultCode = "has_credentials" // the URL contains a user name or a password
)

// InvalidError is an [ErrInvalid] for one field.
type InvalidError struct {
	// Field is the name of the field in the caller's notation (retry.delays_ms[2]).
	Field string
	// Code is the kind of fault. Empty means [FaultMalformed].
	Code FaultCode
	// Reason says in English what the value must be.
	Reason string
	// Min and Max are the limits of FaultOutOfRange, FaultWrongCount and FaultTooLong, in the unit
	// of the field. Both are 0 for other faults.
	Min, Max int64
}

// OutOfRange returns the fault of a number that must be between least and most.
func OutOfRange(field string, least, most int64) *InvalidError {
	return &InvalidError{Field: field, Code: FaultOutOfRange, Reason: fmt.Sprintf("must be %d to %d", least, most), Min: least, Max: most}
}

// Error returns the field and the reason: "concurrency must be at least 1".
func (e *InvalidError) Error() string { return fmt.Sprintf("%s %s", e.Field, e.Reason) }

// Unwrap returns [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// Faults returns every [InvalidError] inside err, including the ones inside joined errors, in the
// order in which they were joined.
func Faults(err error) []*InvalidError {
	var faults []*InvalidError
	switch e := err.(type) { //nolint:errorlint // this walks the tree that errors.As would search
	case nil:
	case *InvalidError:
		faults = append(faults, e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			faults = append(faults, Faults(inner)...)
		}
	case interface{ Unwrap() error }:
		faults = Faults(e.Unwrap())
	}
	return faults
}

// faults collects the errors of several fields.
type faults []error

// add appends an [InvalidError] for the field if wrong is true.
func (f *faults) add(wrong bool, field string, code FaultCode, reason string) {
	if wrong {
		*f = append(*f, &InvalidError{Field: field, Code: code, Reason: reason})
	}
}

// within appends an [InvalidError] for the field unless n is between least and most.
func (f *faults) within(field string, n, least, most int64) {
	if n < least || n > most {
		*f = append(*f, OutOfRange(field, least, most))
	}
}

// short appends an [InvalidError] for the field if the text has more than most bytes.
func (f *faults) short(field, text string, most int) {
	if len(text) > most {
		*f = append(*f, &InvalidError{Field: field, Code: FaultTooLong, Reason: "is too long", Max: int64(most)})
	}
}

// join appends err, unless it is nil.
func (f *faults) join(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

// lasts does what within does, for a duration. The error's limits are in milliseconds, as in the
// API.
func (f *faults) lasts(field string, d, least, most time.Duration) {
	if d < least || d > most {
		*f = append(*f, OutOfRange(field, least.Milliseconds(), most.Milliseconds()))
	}
}

func (f *faults) joined() error { return errors.Join(*f...) }

// KeyTakenError is an [ErrConflict]: the idempotency key was used before, for an event with
// different content. Index is the place of the refused event in its batch, from 0.
type KeyTakenError struct{ Index int }

// Error names the event, but not the key.
func (e *KeyTakenError) Error() string {
	return fmt.Sprintf("the idempotency key of event %d was used for other content", e.Index)
}

// Unwrap returns [ErrConflict].
func (e *KeyTakenError) Unwrap() error { return ErrConflict }

// LockedError is an [ErrBusy]: another database transaction has locked the ordering key, the
// idempotency key or the outbox row of an event for longer than a publish waits. Nothing was stored.
type LockedError struct {
	Index int    // place of the event in its batch, from 0
	Field string // ordering_key, idempotency_key or outbox_id
	Key   string
}

// Error names the event, but not the key.
func (e *LockedError) Error() string {
	return fmt.Sprintf("the %s of event %d is locked by another transaction of the database", e.Field, e.Index)
}

// Unwrap returns [ErrBusy].
func (e *LockedError) Unwrap() error { return ErrBusy }

// OverloadError is an [ErrBusy]: publishers send more than the node can deliver.
// Nothing was stored. RetryAfter is how long the caller should wait.
type OverloadError struct{ RetryAfter time.Duration }

// Error says why nothing was stored.
func (e *OverloadError) Error() string { return "more events are published than can be delivered" }

// Unwrap returns [ErrBusy].
func (e *OverloadError) Unwrap() error { return ErrBusy }

// FullError is an [ErrBusy]: the disk of the store is full, or nearly full. Nothing was
// stored. RetryAfter is how long the caller should wait.
type FullError struct{ RetryAfter time.Duration }

// Error says why nothing was stored.
func (e *FullError) Error() string { return "the disk of the store is full" }

// Unwrap returns [ErrBusy].
func (e *FullError) Unwrap() error { return ErrBusy }
