// Package options has the forms that create an endpoint, and the form that changes its options. A
// form shows and reads every option in words for people; see [optionGroups]. It sends only values
// that differ from those that the person saw, so a form that was open for long does not overwrite
// other changes.
package options

import (
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the forms that create an endpoint, and the form that changes its options.
// created shows the next steps of an endpoint that was just created, and a message.
func Feature(created func(*page.Visit, apitypes.Endpoint, page.Flash) error) page.Feature {
	return page.Feature{
		Templates: templates,
		Operators: page.Routes{
			"GET /endpoints/new":  newEndpoint,
			"POST /endpoints/new": createEndpoint(created),
		},
		Customers: page.Routes{
			"GET /endpoints/new":  showGuide,
			"POST /endpoints/new": createGuided(created),
		},
		Everyone: page.Routes{
			"GET /endpoints/{endpoint}/options":       page.OfEndpoint(showOptions),
			"POST /endpoints/{endpoint}/options":      page.OfEndpoint(changeOptions),
			"POST /endpoints/{endpoint}/options/undo": page.OfEndpoint(undoOptions),
			"GET /endpoints/{endpoint}/try":           page.OfEndpoint(showTry),
			"POST /endpoints/{endpoint}/try":          page.OfEndpoint(showTry),
			"POST /endpoints/{endpoint}/try/cancel":   page.OfEndpoint(cancelTry),
		},
	}
}

// newEndpoint shows the form for a new endpoint.
func newEndpoint(v *page.Visit) error {
	return optionsOf(v, apitypes.Endpoint{}).show(v)
}

// showOptions shows the options of an endpoint in a form.
func showOptions(v *page.Visit, e apitypes.Endpoint) error {
	return optionsOf(v, e).show(v)
}

// changeOptions shows the changes of a form for review. After the review, it saves them.
func changeOptions(v *page.Visit, e apitypes.Endpoint) error {
	f := optionsOf(v, e)
	update := f.update(v)
	switch {
	case f.Faults != nil: // so that the API adds its faults; it saves nothing
	case len(f.Changes) == 0:
		return v.Done(v.Path("endpoints", e.ID, "options"), f.Past.start(v, e.ID, page.Flash{Text: v.T("options.unchanged")}))
	case v.Form("save") == "", f.Past.Fault != "":
		return f.show(v)
	}
	_, err := v.API.ChangeEndpoint(v.Context, e.ID, update)
	if faults := v.Faulty(err); faults != nil {
		f.refuse(v, faults)
		return f.show(v)
	}
	if err != nil {
		return err
	}
	text := "options.done"
	if v.Form("undo") != "" {
		text = "options.undone"
	}
	done := page.Flash{Text: v.T(text, "n", len(f.Changes))}
	if undo, ok := f.undo(); ok {
		done.Undo, done.Value = v.Path("endpoints", e.ID, "options", "undo"), undo
	}
	return v.Done(v.Path("endpoints", e.ID), f.Past.start(v, e.ID, done))
}

// undoOptions undoes what changeOptions saved.
func undoOptions(v *page.Visit, e apitypes.Endpoint) error {
	back, err := url.ParseQuery(v.Form("value"))
	if err != nil {
		return page.ErrBadForm
	}
	for name, values := range back {
		if !strings.HasPrefix(name, "was.") && len(values) == 1 && strings.Contains(values[0], " ") && checks(name) {
			back[name] = strings.Fields(values[0])
		}
	}
	back.Set("save", "yes")
	back.Set("undo", "yes")
	v.Posted = back
	return changeOptions(v, e)
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

// accountNamed returns the id or uid of an account for the API. text is an id, a uid or a name.
// If more than one account has the name, the string is empty, and the int is the number of these
// accounts.
func accountNamed(v *page.Visit, text string) (string, int, error) {
	if _, err := v.API.Account(v.Context, text); text == "" || err == nil || page.StatusOf(err) != http.StatusNotFound {
		return text, 0, nil // if the API fails here, it reports the fault when the endpoint is created
	}
	hits, err := v.API.Search(v.Context, text)
	if err != nil && v.Faulty(err) == nil {
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

// createEndpoint returns the handler that creates an endpoint.
func createEndpoint(created func(*page.Visit, apitypes.Endpoint, page.Flash) error) func(*page.Visit) error {
	return func(v *page.Visit) error {
		f := optionsOf(v, apitypes.Endpoint{})
		u := f.update(v)
		if f.refusePast() {
			return f.show(v)
		}
		account, namesakes, err := accountNamed(v, f.Account)
		if err != nil {
			return err
		}
		create := apitypes.EndpointCreate{
			Account: account, UID: u.UID.Value(), Description: u.Description.Value(), Metadata: u.Metadata.Value(),
			EventTypes: u.EventTypes, Policy: u.Policy,
		}
		if create.EventTypes == nil {
			create.EventTypes = []string{} // not nil, so that the API refuses it
		}
		f.apply(&create)
		e, err := v.API.CreateEndpoint(v.Context, create)
		if faults := v.Faulty(err); faults != nil {
			switch {
			case namesakes > 0:
				faults["account"] = v.T("options.account.ambiguous", "n", namesakes)
			case faults["account"] != "" && account == "":
				faults["account"] = v.T("fault.required")
			case faults["account"] != "":
				faults["account"] = v.T("options.account.unknown")
			}
			f.refuse(v, faults)
			return f.show(v)
		}
		if err != nil {
			return err
		}
		return created(v, e, f.Past.start(v, e.ID, page.Flash{}))
	}
}
