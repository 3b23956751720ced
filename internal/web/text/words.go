package text

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// Explained is the explanation of a delivery in the language of the person. The page shows At
// between Before and After.
type Explained struct {
	Why, Before, After, Action string

	Failure *apitypes.LastFailure // of the endpoint; nil: it is not the reason
	At      *apitypes.Time        // nil: there is no time
}

// Explain returns the explanation of a delivery in the language of the catalogue. to is the endpoint
// of the delivery.
func (c *Catalogue) Explain(d apitypes.Delivery, to apitypes.Endpoint) Explained {
	x := d.Explanation
	if x == nil { // lists do not explain
		return Explained{}
	}
	result, note, lastError := "", "", fmt.Sprint(Deref(d.LastError))
	switch {
	case d.LastStatusCode != nil && !postrider.Unanswered(lastError):
		result = fmt.Sprintf(" (HTTP %d)", *d.LastStatusCode)
	case lastError != "":
		result = " (" + c.Cause(lastError) + ")"
	}
	if x.Note != nil && *x.Note != "" {
		note = " (" + *x.Note + ")"
	}
	e := Explained{
		Why: c.Get("why."+x.Why, "attempt", x.Attempt, "last", x.Attempt-1, "result", result, "note", note,
			"limit", to.Concurrency.Value(), "rate", c.rate(to)),
		At: x.At, Failure: x.Failure,
	}
	if x.Others != nil {
		e.Why += " " + c.Get("why.others", "n", *x.Others)
	}
	key := "next." + string(x.Next)
	if x.At != nil && c.Has(key+".at") {
		key += ".at"
	} else {
		e.At = nil
	}
	if x.Next != postrider.NextNothing {
		e.Before, e.After, _ = strings.Cut(c.Get(key, "attempt", x.Attempt), "{at}")
	}
	if x.Action != "" {
		e.Action = c.Get("action." + string(x.Action))
	}
	return e
}

// rate returns the words for the rate of an endpoint, to follow its concurrency limit. Empty: it
// has none.
func (c *Catalogue) rate(e apitypes.Endpoint) string {
	if r := e.Rate.Value(); r.Attempts > 0 {
		return c.Get("why.rate", "n", r.Attempts, "per", c.Duration(time.Duration(r.PerMS)*time.Millisecond))
	}
	return ""
}

// Cause puts the error of an attempt into words, with the detail in brackets. An error that the
// server does not know is returned unchanged.
func (c *Catalogue) Cause(err string) string {
	name, detail, _ := strings.Cut(err, ": ")
	key := "cause." + name
	switch {
	case !c.Has(key):
		return err
	case name == string(postrider.FailureStatus):
		return c.Get(key, "code", detail)
	case detail != "":
		return c.Get(key) + " (" + detail + ")"
	}
	return c.Get(key)
}

// ReasonOf says in words why a request failed.
func (c *Catalogue) ReasonOf(f *apitypes.LastFailure) string {
	if f.Error != nil {
		return c.Cause(*f.Error)
	}
	return c.Get(fmt.Sprint("outcome.", f.Outcome))
}

// Advice says what the owner of the receiver can do about a failed request; empty: there is no
// advice, or no failed request.
func (c *Catalogue) Advice(f *apitypes.LastFailure) string {
	if f == nil {
		return ""
	}
	if key := "advice." + adviceOf(f); c.Has(key) {
		return c.Get(key)
	}
	return ""
}

// adviceOf returns the key of the advice about a failed request.
func adviceOf(f *apitypes.LastFailure) string {
	cause, _, _ := strings.Cut(fmt.Sprint(Deref(f.Error)), ":")
	code := 0
	if f.StatusCode != nil {
		code = *f.StatusCode
	}
	switch {
	case cause != string(postrider.FailureStatus):
		family, _, _ := strings.Cut(cause, "_")
		return family
	case code == 401 || code == 403:
		return "refused_signature"
	case code == 404 || code == 405:
		return "no_path"
	case code == 410:
		return "gone"
	case code == 429:
		return "too_many"
	case code >= 500:
		return "receiver_fails"
	}
	return "receiver_refuses"
}

// Detail returns the text problem.CODE; if there is none, the text of the API. If a receiver did
// not agree, the text also has the detail of the API, which only the receiver knows.
func (c *Catalogue) Detail(problem *client.Error) string {
	if key := "problem." + problem.Code; c.Has(key) {
		return c.Get(key, "detail", problem.Detail)
	}
	return problem.Detail
}

// Element matches the position of an element in the name of a field.
var Element = regexp.MustCompile(`\[\d+\]`)

// Reason returns the text fault.FIELD.CODE of a fault, else fault.CODE, else the text of the API,
// which is English.
func (c *Catalogue) Reason(f apitypes.Fault) string {
	var limits []any
	if f.Min != nil && f.Max != nil {
		least, most := any(*f.Min), any(*f.Max)
		if strings.HasSuffix(Element.ReplaceAllString(f.Field, ""), "_ms") {
			most = time.Duration(*f.Max) * time.Millisecond
			if *f.Min != 0 {
				least = time.Duration(*f.Min) * time.Millisecond
			}
		}
		limits = []any{"min", least, "max", most}
	}
	if _, detail, found := strings.Cut(f.Reason, ": "); found {
		limits = append(limits, "detail", detail)
	}
	key := "fault." + string(f.Code)
	limited := f.Code == postrider.FaultOutOfRange || f.Code == postrider.FaultWrongCount || f.Code == postrider.FaultTooLong
	if limited && f.Max == nil { // the text is about the limits
		key = "fault." + string(postrider.FaultMalformed)
	}
	names := strings.Split(Element.ReplaceAllString(f.Field, ""), ".")
	owns := []string{strings.Join(names, ".")}
	if names[0] == "filter" || names[0] == "condition" { // the last name may be an operator; the others are places
		owns = []string{names[0], names[0] + "." + names[len(names)-1]}
	}
	for _, own := range owns {
		if own = "fault." + own + "." + string(f.Code); c.Has(own) {
			key = own
		}
	}
	if !c.Has(key) {
		return f.Reason
	}
	return c.Get(key, limits...)
}

// Label returns the label of a field of the API: the text field.NAME, else the label of the
// option or filter with this name, else the name. An element of a list has the label of its list.
// A part of an option has the labels of the option and of the part.
func (c *Catalogue) Label(field string) string {
	name := Element.ReplaceAllString(field, "")
	above, _, nested := strings.Cut(name, ".")
	for _, prefix := range []string{"field.", "option.", "filter."} {
		if c.Has(prefix + name) {
			return c.Get(prefix + name)
		}
	}
	if nested && c.Has("option."+above) {
		return c.Get("option."+above) + " (" + strings.TrimPrefix(field, above+".") + ")"
	}
	return field
}

// Or returns the text of the first key that has one; otherwise the given text.
func (c *Catalogue) Or(otherwise string, keys ...string) string {
	for _, key := range keys {
		if c.Has(key) {
			return c.Get(key)
		}
	}
	return otherwise
}

// RateWords returns a rate in words, with its burst if that is more than one.
func (c *Catalogue) RateWords(r apitypes.Rate) string {
	said := c.Get("rate.words", "n", r.Attempts, "per", time.Duration(r.PerMS)*time.Millisecond)
	if r.Burst > 1 {
		said += ", " + c.Get("rate.burst", "n", r.Burst)
	}
	return said
}
