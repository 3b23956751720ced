package testkit

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/postrider/postrider"
)

// Hostile is one way in which a receiver, or what leads to it, misbehaves, and
// what a sender must make of it.
type Hostile struct {
	Name     string   // what it does
	Group    string   // tcp, head, length, body, answer, tls or dns
	Rows     string   // the threats that it is a test of, by the catalogue's numbers
	Schemes  []string // http, https or both
	Verdicts []Verdict
	Flood    bool // sends until it is stopped
	Slow     bool // goes on until the sender's deadline has passed
	Big      bool // shows only when the request is larger than what sockets hold
	Kept     bool // its connection may be used for another request

	steps  []step
	start  func() (*spot, error)                // instead of steps: what listens, or does not
	config func(*wardrobe) (*tls.Config, error) // nil: in good order
	raw    bool                                 // the steps begin before TLS
	name   string                               // a name of the rig's DNS, instead of the address
	lie    lie                                  // what the DNS says of it
}

// Verdict is what a sender makes of a misbehaviour.
type Verdict struct {
	Outcome postrider.Outcome
	Error   string // how the attempt's error begins; empty: there is none
}

// The most that an attempt may keep of a head and of a body.
const mostKept = 16 << 10

// Check returns what is wrong with an attempt at such a receiver, or nil.
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

// unfit are what pages, terminals and logs take for more than a text.
func unfit(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>"&`, r) }

// The makers of the table. Each says what the sender must conclude; the methods
// below add what is particular.

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

// timedOutAt names the step at which the time is over.
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

// kept lets the steps begin again on the same connection.
func (h Hostile) kept() Hostile { h.Kept = true; return h }

// over names the only scheme that it goes with.
func (h Hostile) over(scheme string) Hostile { h.Schemes = []string{scheme}; return h }

// or adds another verdict: what a sender sees is not always its choice.
func (h Hostile) or(outcome postrider.Outcome, err string) Hostile {
	h.Verdicts = append(h.Verdicts, Verdict{outcome, err})
	return h
}

// in puts every one of them into the group, and those of no row into rows.
func in(group, rows string, list ...Hostile) []Hostile {
	for i := range list {
		list[i].Group = group
		if list[i].Rows == "" {
			list[i].Rows = rows
		}
	}
	return list
}
