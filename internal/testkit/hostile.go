package testkit

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/postrider/postrider"
)

// Hostile is one way in which a receiver, its TLS or its DNS misbehaves, and the outcomes that a
// sender may record for it.
type Hostile struct {
	Name     string   // description of the misbehaviour
	Group    string   // tcp, head, length, body, answer, tls or dns
	Rows     string   // the threats that it tests, by their numbers in the catalogue
	Schemes  []string // http, https or both
	Verdicts []Verdict
	Flood    bool // sends until the sender stops it
	Slow     bool // lasts longer than the sender's deadline
	Big      bool // shows only if the request is larger than the buffers of sockets
	Kept     bool // its connection may be used for a further request

	steps []step
	// start is used instead of steps. It starts the listener, or a port without one. Nil: steps.
	start  func() (*spot, error)
	config func(*wardrobe) (*tls.Config, error) // nil: a good configuration
	raw    bool                                 // the steps run before TLS
	// name is a name in the rig's DNS. The URL has it instead of the address. Empty: the address.
	name string
	lie  lie // answers of the DNS for that name
}

// Verdict is the outcome that a sender records for a misbehaviour.
type Verdict struct {
	Outcome postrider.Outcome
	Error   string // start of the attempt's error; empty: no error
}

// mostKept is how many bytes of a head and of a body an attempt may keep at most.
const mostKept = 16 << 10

// Check returns what is wrong with an attempt at such a receiver; nil if it is right.
func (h Hostile) Check(a postrider.Attempt) error {
	switch answered := a.Outcome != postrider.OutcomeBroken && a.Outcome != postrider.OutcomeTimedOut &&
		a.Outcome != postrider.OutcomeUnreachable && a.Outcome != postrider.OutcomeBlocked; {
	case !h.allows(a):
		return fmt.Errorf("outcome %s, error %q; want one of %v", a.Outcome, a.Error, h.Verdicts)
	case answered != (a.StatusCode != 0):
		return fmt.Errorf("outcome %s with status %d", a.Outcome, a.StatusCode)
	case len(a.ResponseHead) > mostKept || len(a.ResponseBody) > mostKept:
		return fmt.Errorf("kept %d bytes of head, %d of body", len(a.ResponseHead), len(a.ResponseBody))
	case strings.ContainsFunc(a.Error+a.FinalURL, unfit):
		return fmt.Errorf("error %q, final URL %q: what a receiver said, as it said it", a.Error, a.FinalURL)
	case bytes.Contains(a.RequestHead, []byte("whsec_")):
		return fmt.Errorf("kept request head %q", a.RequestHead)
	}
	return nil
}

func (h Hostile) allows(a postrider.Attempt) bool {
	for _, v := range h.Verdicts {
		if a.Outcome == v.Outcome && strings.HasPrefix(a.Error, v.Error) && (v.Error == "") == (a.Error == "") {
			return true
		}
	}
	return false
}

// unfit reports whether pages, terminals or logs could treat the character as more than text.
func unfit(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>"&`, r) }

// The functions below make the rows of the tables. Each sets the outcome that the sender must
// record. The methods of Hostile that follow add special properties.

func hostile(name string, outcome postrider.Outcome, err string, steps []step) Hostile {
	return Hostile{
		Name: name, Schemes: []string{"http", "https"},
		Verdicts: []Verdict{{outcome, err}}, steps: steps,
	}
}

func accepted(name string, steps ...step) Hostile {
	return hostile(name, postrider.OutcomeAccepted, "", steps)
}

func timedOut(name string, steps ...step) Hostile { return timedOutAt("timeout", name, steps...) }

// timedOutAt is timedOut with another error: the step in which the deadline passes.
func timedOutAt(err, name string, steps ...step) Hostile {
	return hostile(name, postrider.OutcomeTimedOut, err, steps).slow()
}

func cut(name string, steps ...step) Hostile {
	return hostile(name, postrider.OutcomeBroken, "connection_cut", steps)
}

func alarmed(name string, steps ...step) Hostile {
	return hostile(name, postrider.OutcomeBroken, "tls_refused", steps)
}

func garbled(name string, steps ...step) Hostile {
	return hostile(name, postrider.OutcomeBroken, "bad_response", steps)
}

func rejected(name, err string, steps ...step) Hostile {
	return hostile(name, postrider.OutcomeRejected, err, steps)
}

func unreachable(name, err string, steps ...step) Hostile {
	return hostile(name, postrider.OutcomeUnreachable, err, steps)
}

func blocked(name string) Hostile {
	return hostile(name, postrider.OutcomeBlocked, "target_forbidden", nil)
}

func (h Hostile) rows(rows string) Hostile { h.Rows = rows; return h }

func (h Hostile) flood() Hostile { h.Flood = true; return h }

func (h Hostile) slow() Hostile { h.Slow = true; return h }

func (h Hostile) big() Hostile { h.Big = true; return h }

// kept makes the steps start again on the same connection.
func (h Hostile) kept() Hostile { h.Kept = true; return h }

// over sets the only scheme of the misbehaviour.
func (h Hostile) over(scheme string) Hostile { h.Schemes = []string{scheme}; return h }

// or adds another verdict, since the sender does not always see the same.
func (h Hostile) or(outcome postrider.Outcome, err string) Hostile {
	h.Verdicts = append(h.Verdicts, Verdict{outcome, err})
	return h
}

// in sets the group of every element, and sets rows for the elements that have none.
func in(group, rows string, list ...Hostile) []Hostile {
	for i := range list {
		list[i].Group = group
		if list[i].Rows == "" {
			list[i].Rows = rows
		}
	}
	return list
}
