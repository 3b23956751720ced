package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The SQLSTATEs that this package tells apart by themselves.
const (
	codeMoved      = "PR001" // raised by postrider_check_version
	codeUnique     = "23505"
	codeFull       = "53100" // disk full
	codeTwice      = "21000" // on conflict do update met a row of its own statement
	codeLocked     = "55P03" // a lock was not to be had within lockWait
	retryAttempts  = 5
	retryJitterMax = 50 * time.Millisecond
)

// class says what an error means for the transaction that met it.
type class int

const (
	classOther    class = iota // our own fault
	classInvalid               // the text can never be stored
	classConflict              // a unique index refuses the row; nothing was stored
	classRetry                 // nothing was stored; the same transaction may pass now
	classUnsent                // the connection was gone before anything was sent
	classUnknown               // the connection broke while we waited: stored or not
	classBusy                  // the server will not take it now; nothing was stored
	classLocked                // another transaction has a lock; nothing was stored
)

// codes maps SQLSTATEs, or the first two characters of them, to classes.
var codes = map[string]class{
	"40001":    classRetry,   // serialization failure
	"40P01":    classRetry,   // deadlock
	"08":       classUnknown, // connection exceptions
	"57P01":    classUnknown, // an administrator ended the session
	"57P02":    classUnknown, // the server crashed
	"57P03":    classBusy,    // the server is starting or stopping
	"25006":    classBusy,    // read-only: a standby, or one to be
	"25P03":    classBusy,    // idle in transaction for too long
	"53":       classBusy,    // disk full, out of memory, too many connections
	codeLocked: classLocked,
	"57014":    classBusy, // the statement took too long
	"58030":    classBusy, // I/O error
	"22021":    classInvalid,
	"22P05":    classInvalid,

	codeUnique: classConflict,
}

// classify returns the class of an error. A connection that could not be made has sent
// nothing. What the server answers is decided by its SQLSTATE. For a connection that
// broke, pgx knows whether anything was sent; if it was, the transaction may be stored or
// not.
func classify(err error) class {
	var pgErr *pgconn.PgError
	var connectErr *pgconn.ConnectError
	var netErr net.Error
	switch {
	case errors.As(err, &connectErr):
		return classBusy
	case errors.As(err, &pgErr):
		if c, ok := codes[pgErr.Code]; ok {
			return c
		}
		return codes[pgErr.Code[:min(2, len(pgErr.Code))]]
	case pgconn.SafeToRetry(err):
		return classUnsent
	case errors.As(err, &netErr), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return classUnknown
	}
	return classOther
}

// Temporary reports whether an error of [Open] may pass by itself: the server
// cannot be reached, is starting, cannot be written, is full or has no connection
// free. A wrong password or a database that does not exist needs a person.
func Temporary(err error) bool {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch classify(pgErr) {
		case classRetry, classUnknown, classBusy, classLocked:
			return true
		case classOther, classInvalid, classConflict, classUnsent:
		}
		return false
	}
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, pgconn.ErrReadOnlyConnection) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// fault turns the driver's error into one that package store promises.
func fault(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch classify(err) {
	case classInvalid:
		return fmt.Errorf("%w: %w", &postrider.InvalidError{Field: "text", Reason: "must be UTF-8 without NUL"}, err)
	case classConflict:
		return fmt.Errorf("%w: %w", postrider.ErrConflict, err)
	case classRetry, classUnsent, classUnknown, classBusy, classLocked:
		if isCode(err, codeFull) {
			return fmt.Errorf("%w: %w", store.ErrFull, err)
		}
		return busyError{err}
	case classOther:
	}
	return err
}

// busyError is a [postrider.ErrBusy] with only the driver's text: the word "busy" before
// it would be wrong for a connection that was refused.
type busyError struct{ error }

// Unwrap returns ErrBusy and the driver's error.
func (e busyError) Unwrap() []error { return []error{postrider.ErrBusy, e.error} }

// isCode reports whether the server answered with the SQLSTATE.
func isCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// once runs a transaction that must not be repeated when its fate is unknown: a second run
// would give another result, or do twice what the first one did.
func (s *Store) once(ctx context.Context, do func() error) error {
	return s.retry(ctx, false, lockPatience, func(bool) error { return do() })
}

// briefly is once for retention, which comes again by itself: it gives up at the first lock that
// it does not get, so that nobody waits for the locks that it has already.
func (s *Store) briefly(ctx context.Context, do func() error) error {
	return s.retry(ctx, false, 0, func(bool) error { return do() })
}

// repeat runs a transaction that may be repeated when its fate is unknown. If the first
// run was stored, do must answer as that one would have. again tells it that this is
// possible.
func (s *Store) repeat(ctx context.Context, do func(again bool) error) error {
	return s.retry(ctx, true, lockPatience, do)
}

// retry runs do until it succeeds or must not run again, at most retryAttempts times. A
// transaction that did not get a lock is tried again for as long as patience. A deadlock,
// and a connection that broke before anything was sent, may always be tried again. After
// an unknown fate only a repeatable transaction is, and then the server may be busy too: it
// is restarting, or the first try still runs, and the caller needs to know what became of
// that. The pause is random and grows, so that nodes do not come back all at once.
func (s *Store) retry(ctx context.Context, repeatable bool, patience time.Duration, do func(again bool) error) error {
	again, told, begun := false, false, time.Now()
	for attempt := 1; ; attempt++ {
		err := do(again)
		c := classify(err)
		if c == classLocked && ctx.Err() == nil && time.Since(begun) < patience {
			attempt--
			if !told && time.Since(begun) > tellAfter {
				told = true
				s.tellBlockers(ctx)
			}
			continue // it has waited already
		}
		if err == nil || ctx.Err() != nil || attempt == retryAttempts {
			return fault(err)
		}
		switch {
		case c == classUnknown && repeatable:
			again = true
		case (c == classBusy || c == classLocked) && again: // the fate of the first try is still unknown
		case c != classRetry && c != classUnsent:
			return fault(err)
		}
		pause := time.NewTimer(rand.N(retryJitterMax << attempt))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
}
