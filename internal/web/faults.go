package web

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// faulty reports whether the API refused the form, and returns why, by field, in the
// language of the person. The handler then shows the form again, with what the person
// typed. The field "" is what is wrong with the form as a whole.
func (v *visit) faulty(err error) (map[string]string, bool) {
	problem, ok := errors.AsType[*client.Error](err)
	if !ok {
		return nil, false
	}
	faults := map[string]string{}
	switch problem.Status {
	case http.StatusUnprocessableEntity:
		for _, f := range problem.Fields {
			faults[f.Field] = v.reason(f)
		}
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
	default:
		return nil, false
	}
	if len(faults) == 0 {
		faults[""] = v.detail(problem)
	}
	return faults, true
}

// detail returns the text problem.CODE, or what the API said if there is none. The text
// about a receiver that did not agree has what the API said, which only the receiver knows.
func (v *visit) detail(problem *client.Error) string {
	if key := "problem." + problem.Code; v.text.has(key) {
		return v.t(key, "detail", problem.Detail)
	}
	return problem.Detail
}

// element matches the position of an element in the name of a field.
var element = regexp.MustCompile(`\[\d+\]`)

// reason returns the text fault.FIELD.CODE of a fault, else fault.CODE. What the API said is
// English; only a code that the catalogue does not know leaves no other choice.
func (v *visit) reason(f apitypes.Fault) string {
	var limits []any
	if f.Min != nil && f.Max != nil {
		least, most := any(*f.Min), any(*f.Max)
		if strings.HasSuffix(element.ReplaceAllString(f.Field, ""), "_ms") {
			most = time.Duration(*f.Max) * time.Millisecond
			if *f.Min != 0 {
				least = time.Duration(*f.Min) * time.Millisecond
			}
		}
		limits = []any{"min", least, "max", most}
	}
	key := "fault." + string(f.Code)
	limited := f.Code == postrider.FaultOutOfRange || f.Code == postrider.FaultWrongCount || f.Code == postrider.FaultTooLong
	if limited && f.Max == nil { // the text is about the limits
		key = "fault." + string(postrider.FaultMalformed)
	}
	if own := "fault." + element.ReplaceAllString(f.Field, "") + "." + string(f.Code); v.text.has(own) {
		key = own
	}
	if !v.text.has(key) {
		return f.Reason
	}
	return v.t(key, limits...)
}

// label returns what forms call a field of the API: the text field.NAME, else that of the
// option or the filter of the name, else the name. An element of a list is named by its
// list, and a part of an option by the option and the part.
func (v *visit) label(field string) string {
	name := element.ReplaceAllString(field, "")
	above, _, nested := strings.Cut(name, ".")
	for _, prefix := range []string{"field.", "option.", "filter."} {
		if v.text.has(prefix + name) {
			return v.t(prefix + name)
		}
	}
	if nested && v.text.has("option."+above) {
		return v.t("option."+above) + " (" + strings.TrimPrefix(field, above+".") + ")"
	}
	return field
}

// anyFault returns one of the reasons why a form was refused.
func anyFault(faults map[string]string) string {
	for _, reason := range faults {
		return reason
	}
	return ""
}
