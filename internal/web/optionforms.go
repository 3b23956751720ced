package web

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/apitypes"
)

// optionsForm is a form with the options of an endpoint. The partial "options" shows
// it, by groups.
type optionsForm struct {
	Endpoint apitypes.Endpoint // zero: a new endpoint
	Tab      string
	New      bool
	Groups   []optionGroup
	Changes  []optionChange // that the person reviews before they are saved
	Faults   map[string]string
	Account  string   // of a new endpoint
	Accounts []choice // that there are, the newest
	newPlace          // of a new endpoint

	headers []apitypes.Header // as the form has them
}

// optionGroup is a part of the form. Its title is the text options.NAME.
type optionGroup struct {
	Name    string
	Options []shownOption
}

// shownOption is an option as the form shows it. The texts option.NAME and
// option.NAME.help name and explain it.
type shownOption struct {
	Name   string
	Inputs []shownInput
	MaySet bool
	Fault  string // empty: none
	Kept   string // what an empty secret does; empty: nothing is stored

	// Default is the default in words; empty: the option has none.
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

// optionChange says what a form changes of an option, in words. From and To are alike if
// the words do not tell them apart, as those of a secret.
type optionChange struct{ Option, From, To string }

// newEndpoint shows the form for a new endpoint.
func newEndpoint(v *visit) error {
	return v.showOptions(v.optionsOf(apitypes.Endpoint{}))
}

// showOptions shows the options of an endpoint in a form.
func showOptions(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	return v.showOptions(v.optionsOf(e))
}

func (v *visit) showOptions(f optionsForm) error {
	p := page{Name: "endpoints-options", Title: where(v, f.Endpoint), Data: f, Commands: []string{"endpoints update " + f.Endpoint.ID.String() + " --timeout 20s"}}
	if f.New {
		f.Accounts = v.accountFilter().Options
		f.Groups[0].Options = slices.DeleteFunc(f.Groups[0].Options, func(o shownOption) bool { return o.Name == "url" }) // it is a part of newPlace
		p = page{Name: "endpoints-new", Data: f, Commands: []string{"endpoints create --help"}}
	}
	if f.Faults != nil {
		p.Status = http.StatusUnprocessableEntity
	}
	return v.show(p)
}

// optionsOf returns the form with the stored options of an endpoint. If the request
// is a form, it has what the person typed. A new endpoint has no values: what is left
// empty gets its default.
func (v *visit) optionsOf(e apitypes.Endpoint) optionsForm {
	f := optionsForm{Endpoint: e, Tab: "options", New: e.ID.IsZero(), Account: v.param("account"), newPlace: v.newPlace()}
	for _, group := range optionGroups {
		shown := optionGroup{Name: group.name}
		for _, o := range group.options {
			shown.Options = append(shown.Options, v.showOption(o, e))
		}
		f.Groups = append(f.Groups, shown)
	}
	return f
}

// showOption returns one option of the form.
func (v *visit) showOption(o option, e apitypes.Endpoint) shownOption {
	shown := shownOption{Name: o.name, MaySet: describes(o.name) || v.session.Caller.MaySet(o.name)}
	values := make([]string, len(o.inputs))
	if !e.ID.IsZero() {
		values = o.show(e)
	}
	sent := func(i int) bool {
		return shown.MaySet && v.r.Method == http.MethodPost && v.posted.Has("was."+o.field(i))
	}
	for i, in := range o.inputs {
		s := shownInput{input: in, Name: o.field(i), Value: values[i], Was: values[i], For: o.choicesOf(in.Part)}
		if sent(i) {
			s.Value, s.Was = v.typed(s), v.posted.Get("was."+s.Name)
		}
		shown.Inputs = append(shown.Inputs, s)
	}
	if key := "option." + o.name + ".kept"; !e.ID.IsZero() && v.text.has(key) {
		shown.Kept = v.t(key)
	}
	if !describes(o.name) {
		standard := apitypes.Endpoint{Policy: v.h.Standard}
		shown.Default = v.words(o, standard)
		if !e.ID.IsZero() && e.PolicyError == nil && !slices.Equal(o.show(e), o.show(standard)) {
			shown.Now = v.words(o, e)
		}
	}
	return shown
}

// describes reports whether the option describes the endpoint itself, and is none of its
// policy.
func describes(name string) bool {
	return slices.ContainsFunc(optionGroups[0].options, func(o option) bool { return o.name == name })
}

// typed returns what the person typed into an input. Browsers send line breaks as
// CR LF.
func (v *visit) typed(s shownInput) string {
	if s.Kind == "checks" {
		return strings.Join(v.posted[s.Name], " ")
	}
	return strings.TrimSpace(strings.ReplaceAll(v.posted.Get(s.Name), "\r\n", "\n"))
}

// update returns the change that the form makes, and notes what it is and what cannot
// be read. Only what differs from what the page showed is in it, so that a form that
// was open for long overwrites nothing that others have changed.
func (f *optionsForm) update(v *visit) apitypes.EndpointUpdate {
	var u apitypes.EndpointUpdate
	for g, group := range optionGroups {
		for i, o := range group.options {
			f.set(v, &u, o, &f.Groups[g].Options[i])
		}
	}
	f.headers = u.Headers.Value()
	return u
}

// set puts an option into the change, and notes what changes, or what cannot be read.
func (f *optionsForm) set(v *visit, u *apitypes.EndpointUpdate, o option, shown *shownOption) {
	is, was := make([]string, len(shown.Inputs)), make([]string, len(shown.Inputs))
	for i, in := range shown.Inputs {
		is[i], was[i] = in.Value, in.Was
	}
	if slices.Equal(is, was) {
		return
	}
	err := o.set(u, is)
	if err == nil {
		f.Changes = append(f.Changes, optionChange{o.name, v.wordsOf(o, was), v.wordsOf(o, is)})
		return
	}
	var unread unreadError
	if found, ok := errors.AsType[*unreadError](err); ok {
		unread, shown.Fault = *found, v.t("option."+o.name+"."+found.part)+": "
	}
	shown.Fault += v.t(err.Error(), unread.args...)
	shown.mark(unread.part)
	f.fault(o.name, shown.Fault)
}

// fault notes why a field is refused.
func (f *optionsForm) fault(field, reason string) {
	if f.Faults == nil {
		f.Faults = map[string]string{}
	}
	f.Faults[field] = reason
}

// refuse adds the faults that the API found to those of what cannot be read, and puts
// them at their options. Of an option that cannot be read, the API found nothing: it
// has not seen what was typed.
func (f *optionsForm) refuse(v *visit, faults map[string]string) {
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
func (f *optionsForm) option(name string) *shownOption {
	for g := range f.Groups {
		for i := range f.Groups[g].Options {
			if o := &f.Groups[g].Options[i]; o.Name == name {
				return o
			}
		}
	}
	return nil
}

// place marks the inputs of an option that a fault is about, and returns their name to
// put before the reason: that of the header, of the input, or the number of the element.
func (f *optionsForm) place(v *visit, o *shownOption, field string) string {
	rest := strings.TrimPrefix(field, o.Name)
	n := -1
	if at := element.FindString(rest); at != "" {
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
	part := strings.TrimPrefix(element.ReplaceAllString(rest, ""), ".")
	o.mark(part)
	said := ""
	if key := "option." + o.Name + "." + part; part != "" && v.text.has(key) {
		said = v.t(key) + ": "
	}
	if n >= 0 {
		said += v.t("fault.element", "n", n+1) + ": "
	}
	return said
}

// mark marks the input of a part as refused; without one, that of the secret, else all.
func (o *shownOption) mark(part string) {
	at := slices.IndexFunc(o.Inputs, func(in shownInput) bool { return in.Part == part })
	if last := len(o.Inputs) - 1; at < 0 && o.Inputs[last].Part == "secret" {
		at = last
	}
	for i := range o.Inputs {
		o.Inputs[i].Bad = o.Inputs[i].Bad || at < 0 || i == at
	}
}

// changeOptions shows what a form would change, and saves it when the person has seen
// that.
func changeOptions(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	f := v.optionsOf(e)
	update := f.update(v)
	switch {
	case f.Faults != nil: // the API says what else is wrong, and saves nothing
	case len(f.Changes) == 0:
		return v.done(v.path("endpoints", e.ID, "options"), flash{Text: v.t("options.unchanged")})
	case v.form("save") == "":
		return v.showOptions(f)
	}
	_, err = v.api.ChangeEndpoint(v.ctx, e.ID, update)
	if faults, refused := v.faulty(err); refused {
		f.refuse(v, faults)
		return v.showOptions(f)
	}
	if err != nil {
		return err
	}
	text := "options.done"
	if v.form("undo") != "" {
		text = "options.undone"
	}
	done := flash{Text: v.t(text, "n", len(f.Changes))}
	if undo, ok := f.undo(); ok {
		done.Undo, done.Value = v.path("endpoints", e.ID, "options", "undo"), undo
	}
	return v.done(v.path("endpoints", e.ID), done)
}

// undo returns the form that takes the changes back. It cannot take back secrets,
// because nobody but the store knows the old ones; a new URL loses them.
func (f *optionsForm) undo() (string, bool) {
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
	return text, len(text) < maxFlash/2
}

// undoOptions takes back what changeOptions did.
func undoOptions(v *visit) error {
	back, err := url.ParseQuery(v.form("value"))
	if err != nil {
		return errBadForm
	}
	for name, values := range back {
		if !strings.HasPrefix(name, "was.") && len(values) == 1 && strings.Contains(values[0], " ") && checks(name) {
			back[name] = strings.Fields(values[0])
		}
	}
	back.Set("save", "yes")
	back.Set("undo", "yes")
	v.posted = back
	return changeOptions(v)
}

// checks reports whether a field of the form is a list of check boxes.
func checks(name string) bool {
	for _, group := range optionGroups {
		for _, o := range group.options {
			for i, in := range o.inputs {
				if in.Kind == "checks" && o.field(i) == name {
					return true
				}
			}
		}
	}
	return false
}

// accountNamed returns what the API knows an account by: the text itself, or the id of the
// account that has it as its name. Empty: more than one account has the name, as many as it
// returns.
func (v *visit) accountNamed(text string) (string, int, error) {
	if _, err := v.api.Account(v.ctx, text); text == "" || err == nil || statusOf(err) != http.StatusNotFound {
		return text, 0, nil // if the API cannot tell, it says so when the endpoint is created
	}
	hits, err := v.api.Search(v.ctx, text)
	if _, refused := v.faulty(err); err != nil && !refused {
		return "", 0, err
	}
	hits = slices.DeleteFunc(hits, func(h apitypes.SearchHit) bool { return h.Kind != "account" || !strings.EqualFold(h.Title, text) })
	switch len(hits) {
	case 0:
		return text, 0, nil
	case 1:
		return hits[0].ID, 0, nil
	}
	return "", len(hits), nil
}

// createEndpoint creates an endpoint.
func createEndpoint(v *visit) error {
	f := v.optionsOf(apitypes.Endpoint{})
	u := f.update(v)
	account, namesakes, err := v.accountNamed(f.Account)
	if err != nil {
		return err
	}
	create := apitypes.EndpointCreate{
		Account: account, UID: u.UID.Value(), Description: u.Description.Value(), EventTypes: u.EventTypes, Policy: u.Policy,
	}
	if create.EventTypes == nil {
		create.EventTypes = []string{} // the API says that there must be some
	}
	f.apply(&create)
	e, err := v.api.CreateEndpoint(v.ctx, create)
	if faults, refused := v.faulty(err); refused {
		switch {
		case namesakes > 0:
			faults["account"] = v.t("options.account.ambiguous", "n", namesakes)
		case faults["account"] != "" && account == "":
			faults["account"] = v.t("fault.required")
		case faults["account"] != "":
			faults["account"] = v.t("options.account.unknown")
		}
		f.refuse(v, faults)
		return v.showOptions(f)
	}
	if err != nil {
		return err
	}
	return v.created(e)
}
