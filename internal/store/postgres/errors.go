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

// These are SQLSTATEs that have a name in this package, and the limits of [Store.retry].
const (
	codeMoved      = "PR001" // a subscription has changed; raised by postrider_check_version
	codeUnique     = "23505"
	codeFull       = "53100" // the disk is full
	codeTwice      = "21000" // "on conflict do update" met a row of its own statement
	codeLocked     = "55P03" // the statement did not get a lock within lockWait
	retryAttempts  = 5
	retryJitterMax = 50 * time.Millisecond
)

// class says what an error means for the transaction that got it.
type class int

const (
	classOther    class = iota // a fault of this program
	classInvalid               // the text can never be stored
	classConflict              // a unique index refused the row; nothing was stored
	classRetry                 // nothing was stored, and the same transaction may succeed now
	classUnsent                // the connection was lost before anything was sent
	classUnknown               // the connection was lost during the wait: the transaction may be stored
	classBusy                  // the server cannot take the transaction now; nothing was stored
	classLocked                // another transaction has a lock; nothing was stored
)

// codes maps SQLSTATEs, or their first two characters, to classes.
var codes = map[string]class{
	"40001":    classRetry,   // serialization failure
	"40P01":    classRetry,   // deadlock
	"08":       classUnknown, // connection exceptions
	"57P01":    classUnknown, // an administrator ended the session
	"57P02":    classUnknown, // the server crashed
	"57P03":    classBusy,    // the server is starting or stopping
	"25006":    classBusy,    // read-only: the server is a standby or becomes one
	"25P03":    classBusy,    // idle in transaction for too long
	"53":       classBusy,    // disk full, out of memory, too many connections
	codeLocked: classLocked,
	"57014":    classBusy, // the statement took too long
	"58030":    classBusy, // I/O error
	"22021":    classInvalid,
	"22P05":    classInvalid,

	codeUnique: classConflict,
}

// classify returns the class of an error. If no connection could be made, nothing was sent. An
// answer of the server has a SQLSTATE, which decides. If a connection broke, pgx knows whether
// anything was sent; if something was, the transaction may be stored.
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

// Temporary reports whether an error of [Open] can pass by itself. That is so if the server
// cannot be reached, is starting, cannot be written, is full or has no free connection. A wrong
// password or a missing database needs a person.
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

// fault converts the driver's error into one that package store promises.
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

// busyError matches [postrider.ErrBusy] and has only the driver's text. The word "busy" in front
// would be wrong for a refused connection.
type busyError struct{ error }

// Unwrap returns ErrBusy and the driver's error.
func (e busyError) Unwrap() []error { return []error{postrider.ErrBusy, e.error} }

// isCode reports whether the error is an answer of the server with the SQLSTATE code.
func isCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// once runs a transaction that must not run again if nobody knows whether it was stored. A second
// run would return another result, or do the work twice.
func (s *Store) once(ctx context.Context, do func() error) error {
	return s.retry(ctx, false, lockPatience, func(bool) error { return do() })
}

// briefly is like once, but gives up at the first lock that it does not get, so that nobody waits
// for the locks that it holds. It is for retention, which runs again anyway.
func (s *Store) briefly(ctx context.Context, do func() error) error {
	return s.retry(ctx, false, 0, func(bool) error { return do() })
}

// repeat runs a transaction that may run again if nobody knows whether it was stored. The
// parameter again of do says that an earlier run may be stored; do must then return what that run
// would have returned.
func (s *Store) repeat(ctx context.Context, do func(again bool) error) error {
	return s.retry(ctx, true, lockPatience, do)
}

// retry runs do until it succeeds or must not run again, at most retryAttempts times.
//
//   - A transaction that did not get a lock runs again, until patience has passed.
//   - A deadlock, or a connection that broke before anything was sent, always allows another run.
//   - If nobody knows whether the first run was stored, only a repeatable transaction runs again.
//     Then it also runs again while the server is busy: the server may be restarting, or the
//     first run may still be running, and the caller needs to know its result.
//
// The pause between runs is random and grows, so that nodes do not all return at once.
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
			continue // the statement has already waited for lockWait
		}
		if err == nil || ctx.Err() != nil || attempt == retryAttempts {
			return fault(err)
		}
		switch {
		case c == classUnknown && repeatable:
			again = true
		case (c == classBusy || c == classLocked) && again: // it is still unknown whether the first run was stored
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
