package store

import (
	"fmt"
	"time"
)

// Call is a call of a verb of a store that has ended.
type Call struct {
	Verb string // the method's name
	Took time.Duration
	Err  error // that the caller gets; nil: none
}

// Calls is called at the end of each call of a verb, by the caller's goroutine; nil: by none.
type Calls func(Call)

// Begin begins a call of a verb. Each verb of a store does so in its first line:
//
//	defer s.calls.Begin("Cancel").End(&err, "cancel %s", c.Delivery)
func (c Calls) Begin(verb string) Calling { return Calling{c, verb, time.Now()} }

// Calling is a call of a verb that has not ended.
type Calling struct {
	calls Calls
	verb  string
	begun time.Time
}

// End ends the call: it adds to its error what was being done, and calls the [Calls].
func (c Calling) End(err *error, doing string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), *err)
	}
	if c.calls != nil {
		c.calls(Call{Verb: c.verb, Took: time.Since(c.begun), Err: *err})
	}
}
