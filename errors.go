package postrider

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of error that callers tell apart. Every other error means that
// our own machinery broke. What goes wrong with a delivery is no error but an
// [Outcome].
var (
	// ErrNotFound: there is nothing of that name that the caller may see.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request can never succeed as it is; see [InvalidError].
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the request contradicts what is stored.
	ErrConflict = errors.New("conflict")
	// ErrGone: it was there, and its bytes were deleted for good.
	ErrGone = errors.New("gone")
	// ErrBusy: not now; the same request may succeed later.
	ErrBusy = errors.New("busy")
	// ErrFenced: the lease or the cursor that the caller holds is no longer its.
	ErrFenced = errors.New("fenced")
)

// InvalidError is an [ErrInvalid] that names the field at fault, as the caller
// wrote it (retry.delays_ms[2]), and what the field must be.
type InvalidError struct {
	Field  string
	Reason string
}

// Error returns "field reason", a sentence without a subject of its own.
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

// faults gathers what is wrong with the parts of a whole.
type faults []error

// add notes a fault of the field, if there is one.
func (f *faults) add(wrong bool, field, reason string) {
	if wrong {
		*f = append(*f, &InvalidError{Field: field, Reason: reason})
	}
}

// join notes the faults inside err.
func (f *faults) join(err error) { *f = append(*f, err) }

func (f *faults) joined() error { return errors.Join(*f...) }

// KeyTakenError is an [ErrConflict]: an idempotency key stands for an event of
// other content. Index is the event's place in its batch.
type KeyTakenError struct{ Index int }

// Error says that the key is taken, without the key.
func (e *KeyTakenError) Error() string {
	return fmt.Sprintf("the idempotency key of event %d was used for other content", e.Index)
}

// Unwrap returns [ErrConflict].
func (e *KeyTakenError) Unwrap() error { return ErrConflict }

// OverloadError is an [ErrBusy] that is the caller's share of it: more is
// published than can be taken. Nothing was stored.
type OverloadError struct{ RetryAfter time.Duration }

// Error says that too much is published.
func (e *OverloadError) Error() string { return "more is published than can be taken" }

// Unwrap returns [ErrBusy].
func (e *OverloadError) Unwrap() error { return ErrBusy }
