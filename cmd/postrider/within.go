package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// within is the span of time that a list is of.
type within struct {
	From        instant `placeholder:"TIME" help:"From this time on: RFC 3339, a date in UTC, or how long ago, as in -1h or -7d."`
	To          instant `placeholder:"TIME" help:"Before this time."`
	oldestFirst `embed:""`
}

// oldestFirst is the order of a list.
type oldestFirst struct {
	OldestFirst bool `help:"Oldest first."`
}

// instant is a time of the command line.
type instant struct{ time.Time }

// Decode reads the time. It takes the token itself, since kong takes one that
// begins with a hyphen for a flag.
func (i *instant) Decode(ctx *kong.DecodeContext) (err error) {
	token := ctx.Scan.Pop()
	if token.IsEOL() {
		return errors.New("needs a time")
	}
	i.Time, err = parseInstant(token.String(), time.Now())
	return err
}

var errInstant = errors.New("must be a time like 2026-05-04T12:00:00Z, a date like 2026-05-04, or how long ago, as in -1h or -7d")

// parseInstant reads a time; one that is relative is before now, with a hyphen
// or without.
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
