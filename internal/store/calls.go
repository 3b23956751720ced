package store

import (
	"fmt"
	"time"
)

// Call describes one finished call of a store verb.
type Call struct {
	Verb string // the method's name
	Took time.Duration
	Err  error // the error that the caller gets; nil if the call succeeded
}

// Calls is a function that a store calls at the end of each verb, in the goroutine of the verb's
// caller. A nil Calls is not called.
type Calls func(Call)

// Begin notes the start of a verb. Each verb of a store calls it in its first line:
//
//	defer s.calls.Begin("Cancel").End(&err, "cancel %s", c.Delivery)
func (c Calls) Begin(verb string) Calling { return Calling{c, verb, time.Now()} }

// Calling is a call of a verb that has begun and has not ended.
type Calling struct {
	calls Calls
	verb  string
	begun time.Time
}

// End ends the call. It prefixes the error with doing, formatted with args, and calls the
// [Calls].
func (c Calling) End(err *error, doing string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), *err)
	}
	if c.calls != nil {
		c.calls(Call{Verb: c.verb, Took: time.Since(c.begun), Err: *err})
	}
}
