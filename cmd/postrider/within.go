package main

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// within has the flags of the lists with a time range. From is inclusive, To is exclusive. A zero
// value means no bound.
type within struct {
	From        instant `placeholder:"TIME" help:"Only from this time on: RFC 3339, a date in UTC, or a time before now, for example -1h or -7d. Default: no bound."`
	To          instant `placeholder:"TIME" help:"Only before this time, in the same forms. Default: no bound."`
	oldestFirst `embed:""`
}

// oldestFirst has the flag for the order of a list.
type oldestFirst struct {
	OldestFirst bool `help:"List the oldest first. Default: newest first."`
}

// instant is a time on the command line. The zero value means that the flag is not given.
type instant struct{ time.Time }

// Decode reads the time. It pops the token itself, because kong would parse a value that begins
// with a hyphen, such as -1h, as a flag. It counts a relative time from this machine's clock; the
// server compares the result with its own records.
func (i *instant) Decode(ctx *kong.DecodeContext) (err error) {
	token := ctx.Scan.Pop()
	if token.IsEOL() {
		return errors.New("needs a time")
	}
	i.Time, err = parseInstant(token.String(), time.Now())
	return err
}

// decodeDuration reads a duration from a flag, a variable or the file. In addition to Go's units it
// accepts whole days of 24 hours, because the documentation states limits in days.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	span, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		span = time.Duration(n) * 24 * time.Hour
	}
	if err != nil {
		return errors.New("must be a duration, for example 90s, 24h or 7d")
	}
	target.Set(reflect.ValueOf(span))
	return nil
}

// errInstant shows all forms of a time.
var errInstant = errors.New("must be a time like 2026-05-04T12:00:00Z, a date like 2026-05-04, or how long ago, as in -1h or -7d")

// parseInstant returns the time that the text names. A duration, with or without a hyphen, counts
// back from now. Days are calendar days: -1d is the same time of day yesterday, also after a change
// to summer time.
func parseInstant(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	ago := strings.TrimPrefix(text, "-")
	if days, ok := strings.CutSuffix(ago, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return time.Time{}, errInstant
		}
		return now.AddDate(0, 0, -int(n)), nil
	}
	span, err := time.ParseDuration(ago)
	if err != nil || strings.ContainsAny(ago, "+-") {
		return time.Time{}, errInstant
	}
	return now.Add(-span), nil
}
