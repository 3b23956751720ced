package postrider

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of error that callers distinguish. Every other error is a fault of
// Postrider or of its database. A failed attempt is not an error; it has an
// [Outcome].
var (
	// ErrNotFound: nothing has that identifier, or the caller may not see it.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the same request can never succeed; see [InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the request contradicts what is stored.
	ErrConflict = errors.New("conflict")
	// ErrGone: the object existed, and its data was deleted for good.
	ErrGone = errors.New("gone")
	// ErrBusy: the same request may succeed later.
	ErrBusy = errors.New("busy")
	// ErrFenced: another node has taken over the lease or the job that the caller held.
	ErrFenced = errors.New("fenced")
)

// InvalidError is an [ErrInvalid] for one field. Field is its name as the caller
// wrote it (retry.delays_ms[2]); Reason says what the field must be.
type InvalidError struct {
	Field  string
	Reason string
}

// Error returns the field and the reason: "concurrency must be at least 1".
func (e *InvalidError) Error() string { return fmt.Sprintf("%s %s", e.Field, e.Reason) }

// Unwrap returns [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// Faults returns every [InvalidError] inside err, joined errors included, in
// the order they were joined.
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
func (f *faults) add(wrong bool, field, reason string) {
	if wrong {
		*f = append(*f, &InvalidError{Field: field, Reason: reason})
	}
}

// join appends err, which may be nil.
func (f *faults) join(err error) { *f = append(*f, err) }

func (f *faults) joined() error { return errors.Join(*f...) }

// KeyTakenError is an [ErrConflict]: the idempotency key was used for an event
// with other content. Index is the place of the refused event in its batch, from 0.
type KeyTakenError struct{ Index int }

// Error names the event, but not the key.
func (e *KeyTakenError) Error() string {
	return fmt.Sprintf("the idempotency key of event %d was used for other content", e.Index)
}

// Unwrap returns [ErrConflict].
func (e *KeyTakenError) Unwrap() error { return ErrConflict }

// OverloadError is an [ErrBusy]: publishers send more than the node can deliver.
// Nothing was stored. RetryAfter is how long the caller should wait.
type OverloadError struct{ RetryAfter time.Duration }

// Error says why nothing was stored.
func (e *OverloadError) Error() string { return "more events are published than can be delivered" }

// Unwrap returns [ErrBusy].
func (e *OverloadError) Unwrap() error { return ErrBusy }
