package options

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/text"
)

// form is a form with the options of an endpoint. The partial "options" shows
// it, by groups.
type form struct {
	Endpoint apitypes.Endpoint // zero: a new endpoint
	Tab      string
	New      bool
	Groups   []optionGroup
	Changes  []optionChange // that the person reviews before they are saved
	Faults   map[string]string
	Account  string        // of a new endpoint
	Accounts []page.Choice // that there are, the newest
	Past     past
	newPlace // of a new endpoint

	headers []apitypes.Header // as the form has them
}

// optionGroup is a part of the form. Its title is the text options.NAME.
type optionGroup struct {
	Name    string
	Options []shownOption
}

// shownOption is an option as the form shows it. Its name and explanation are the texts
// option.NAME and option.NAME.help.
type shownOption struct {
	Name   string
	Inputs []shownInput
	MaySet bool
	Fault  string // empty: none
	Kept   string // what an empty secret does; empty: nothing is stored

	// Default is the default value in words; empty: the option has none.
	Default string
	// Now is the stored value in words; empty: it is the default.
	Now string
}

// shownInput is one input of an option.
type shownInput struct {
	input

	Name  string // of the field of the form
	Value string // as the person typed it, else as it is stored
	Was   string // as it is stored; the field was.NAME has it
	Bad   bool   // it is refused
	For   string // the choices of the first input that it is for, separated by spaces; empty: all
}

// optionChange describes in words how a form changes an option. From and To are equal if words
// cannot show the difference, as for a secret.
type optionChange struct{ Option, From, To string }

func (f *form) show(v *page.Visit) error {
	p := page.View{
		Name: "endpoints-options", Title: page.Where(v, f.Endpoint), Data: f,
		Commands: []string{"endpoints update " + f.Endpoint.ID.String() + " --timeout 20s"},
	}
	if f.New {
		f.Accounts = v.AccountFilter()[0].Options // only operators get here
		// The URL is a part of newPlace.
		f.Groups[0].Options = slices.DeleteFunc(f.Groups[0].Options, func(o shownOption) bool { return o.Name == "url" })
		p = page.View{Name: "endpoints-new", Data: f, Commands: []string{"endpoints create --help"}}
	}
	p.Refused = f.Faults != nil || f.Past.Fault != ""
	return v.Show(p)
}

// optionsOf returns the form with the stored options of an endpoint. If the request is a form,
// the form has the values that the person typed. For a new endpoint all values are empty; an
// empty value becomes the default.
func optionsOf(v *page.Visit, e apitypes.Endpoint) *form {
	f := &form{Endpoint: e, Tab: "options", New: e.ID.IsZero(), Account: v.Param("account"), Past: pastOf(v), newPlace: newPlaceOf(v)}
	for _, group := range optionGroups {
		shown := optionGroup{Name: group.name}
		for _, o := range group.options {
			shown.Options = append(shown.Options, showOption(v, o, e))
		}
		f.Groups = append(f.Groups, shown)
	}
	return f
}

// showOption returns one option of the form.
func showOption(v *page.Visit, o option, e apitypes.Endpoint) shownOption {
	shown := shownOption{Name: o.name, MaySet: describes(o.name) || v.Caller.MaySet(o.name)}
	values := make([]string, len(o.inputs))
	if !e.ID.IsZero() {
		values = o.show(e)
	}
	sent := func(i int) bool {
		return shown.MaySet && v.Request.Method == http.MethodPost && v.Posted.Has("was."+o.field(i))
	}
	for i, in := range o.inputs {
		s := shownInput{input: in, Name: o.field(i), Value: values[i], Was: values[i], For: o.choicesOf(in.Part)}
		if sent(i) {
			s.Value, s.Was = typed(v, s), strings.ReplaceAll(v.Posted.Get("was."+s.Name), "\r\n", "\n")
		}
		shown.Inputs = append(shown.Inputs, s)
	}
	if key := "option." + o.name + ".kept"; !e.ID.IsZero() && v.Text.Has(key) {
		shown.Kept = v.T(key)
	}
	if !describes(o.name) {
		standard := apitypes.Endpoint{Policy: v.Site.Standard}
		shown.Default = words(v, o, standard)
		if !e.ID.IsZero() && e.PolicyError == nil && !slices.Equal(o.show(e), o.show(standard)) {
			shown.Now = words(v, o, e)
		}
	}
	return shown
}

// describes reports whether the option belongs to the endpoint itself and not to its policy.
func describes(name string) bool {
	return slices.ContainsFunc(optionGroups[0].options, func(o option) bool { return o.name == name })
}

// typed returns the text that the person typed into an input. It replaces CR LF, which browsers
// send for line breaks.
func typed(v *page.Visit, s shownInput) string {
	if s.Kind == "checks" {
		return strings.Join(v.Posted[s.Name], " ")
	}
	return strings.TrimSpace(strings.ReplaceAll(v.Posted.Get(s.Name), "\r\n", "\n"))
}

// update returns the change that the form makes, and records each change and each value that
// cannot be read. The change has only values that differ from those that the page showed. So a
// form that was open for long does not overwrite changes of others.
func (f *form) update(v *page.Visit) apitypes.EndpointUpdate {
	var u apitypes.EndpointUpdate
	for g, group := range optionGroups {
		for i, o := range group.options {
			f.set(v, &u, o, &f.Groups[g].Options[i])
		}
	}
	f.headers = u.Headers.Value()
	return u
}

// set adds an option to the change u. It records the change, or the fault if a value cannot be
// read.
func (f *form) set(v *page.Visit, u *apitypes.EndpointUpdate, o option, shown *shownOption) {
	is, was := make([]string, len(shown.Inputs)), make([]string, len(shown.Inputs))
	for i, in := range shown.Inputs {
		is[i], was[i] = in.Value, in.Was
	}
	if slices.Equal(is, was) {
		return
	}
	err := o.set(u, is)
	if err == nil {
		f.Changes = append(f.Changes, optionChange{o.name, wordsOf(v, o, was), wordsOf(v, o, is)})
		return
	}
	var unread unreadError
	if found, ok := errors.AsType[*unreadError](err); ok {
		unread, shown.Fault = *found, v.T("option."+o.name+"."+found.part)+": "
	}
	shown.Fault += v.T(err.Error(), unread.args...)
	shown.mark(unread.part)
	f.fault(o.name, shown.Fault)
}

// fault records the reason why a field is refused.
func (f *form) fault(field, reason string) {
	if f.Faults == nil {
		f.Faults = map[string]string{}
	}
	f.Faults[field] = reason
}

// refuse adds the faults that the API found to the faults of values that cannot be read, and puts
// each at its option. For an option that cannot be read, it ignores the API, because the API did
// not get the typed value.
func (f *form) refuse(v *page.Visit, faults map[string]string) {
	unread := maps.Clone(f.Faults)
	f.Changes = nil
	for _, field := range slices.Sorted(maps.Keys(faults)) {
		name, reason := field, faults[field]
		if i := strings.IndexAny(field, ".["); i > 0 {
			name = field[:i]
		}
		o := f.option(name)
		switch _, said := unread[name]; {
		case said:
		case o == nil:
			f.fault(field, reason)
		default:
			o.Fault = strings.TrimSpace(o.Fault + " " + f.place(v, o, field) + reason)
			f.fault(name, o.Fault)
		}
	}
}

// option returns the option of a name; nil: the form has none.
func (f *form) option(name string) *shownOption {
	for g := range f.Groups {
		for i := range f.Groups[g].Options {
			if o := &f.Groups[g].Options[i]; o.Name == name {
				return o
			}
		}
	}
	return nil
}

// place marks the inputs of an option that a fault is about. It returns a prefix for the reason:
// the name of the header or input, the number of the element, or the place in a filter or a condition.
func (f *form) place(v *page.Visit, o *shownOption, field string) string {
	rest := strings.TrimPrefix(field, o.Name)
	if (o.Name == "filter" || o.Name == "condition") && rest != "" {
		o.mark("")
		return strings.TrimPrefix(rest, ".") + ": "
	}
	n := -1
	if at := text.Element.FindString(rest); at != "" {
		n, _ = strconv.Atoi(strings.Trim(at, "[]")) // the expression matches only digits
	}
	if o.Name == "headers" && n >= 0 && n < len(f.headers) {
		h := f.headers[n]
		part := ""
		if h.Sensitive {
			part = "secret"
		}
		o.mark(part)
		return strings.TrimPrefix(h.Name+": ", ": ")
	}
	part := strings.TrimPrefix(text.Element.ReplaceAllString(rest, ""), ".")
	o.mark(part)
	said := ""
	if key := "option." + o.Name + "." + part; part != "" && v.Text.Has(key) {
		said = v.T(key) + ": "
	}
	if n >= 0 {
		said += v.T("fault.element", "n", n+1) + ": "
	}
	return said
}

// mark marks the input of a part as refused. Without such an input it marks the secret, else all
// inputs.
func (o *shownOption) mark(part string) {
	at := slices.IndexFunc(o.Inputs, func(in shownInput) bool { return in.Part == part })
	if last := len(o.Inputs) - 1; at < 0 && o.Inputs[last].Part == "secret" {
		at = last
	}
	for i := range o.Inputs {
		o.Inputs[i].Bad = o.Inputs[i].Bad || at < 0 || i == at
	}
}

// undo returns the form that undoes the changes. It returns false if the form changed
// secrets, which only the store knows, or the URL, since a new URL loses the secrets. It also
// returns false if the form does not fit into the cookie of a flash.
func (f *form) undo() (string, bool) {
	back := url.Values{}
	for _, group := range f.Groups {
		for _, o := range group.Options {
			changed := slices.ContainsFunc(o.Inputs, func(in shownInput) bool { return in.Value != in.Was })
			if changed && slices.Contains([]string{"auth", "tls", "headers", "url"}, o.Name) {
				return "", false
			}
			for _, in := range o.Inputs {
				if changed {
					back[in.Name] = []string{in.Was}
					back["was."+in.Name] = []string{in.Value}
				}
			}
		}
	}
	text := back.Encode()
	return text, len(text) < page.MaxFlash/2
}
