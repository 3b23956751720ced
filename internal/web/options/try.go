package options

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// tryPage is the data of the page on which a person changes which events an endpoint gets, and sees
// which of the stored events it would have got.
type tryPage struct {
	*form

	Group  optionGroup // of the form: the options that say which events the endpoint gets
	Last   string      // how many events are compared
	Lasts  []string
	Type   string                      // of the compared events; empty: all
	Result *apitypes.WhatIfResult      // nil: the form is refused, or is about the archive
	State  apitypes.EndpointState      // has the deliveries that wait
	Job    *apitypes.ArchiveComparison // nil: no archived events are compared
}

// inArchive is the choice of the form that compares the events of the archive.
const inArchive = "archive"

// showTry compares stored events with the values of the form, or, before the person has typed any, with
// the present ones. It saves nothing: the form is saved as that of all options is.
func showTry(v *page.Visit, e apitypes.Endpoint) error {
	p := tryPage{form: optionsOf(v, e), Lasts: []string{"20", "1000", "100000"}, Type: v.Form("type")}
	p.Tab, p.Last = "try", cmp.Or(v.Form("last"), p.Lasts[0])
	if err := p.findJob(v); err != nil {
		return err
	}
	update := p.update(v)
	if p.Faults == nil {
		if err := p.compare(v, update); err != nil {
			return err
		}
	}
	for _, name := range subscription {
		p.Group.Options = append(p.Group.Options, *p.option(name))
	}
	found, err := v.API.Endpoints(v.Context, client.EndpointFilter{IDs: []postrider.EndpointID{e.ID}})
	if err != nil {
		return err
	}
	if len(found.Data) > 0 && found.Data[0].State != nil {
		p.State = *found.Data[0].State
	}
	return v.Show(page.View{
		Name: "endpoints-try", Title: page.Where(v, e), Data: p, Refused: p.Faults != nil,
		Commands: []string{p.command()},
	})
}

// command returns the command that does what the form does.
func (p *tryPage) command() string {
	id := p.Endpoint.ID.String()
	if p.Last == inArchive {
		return "archive what-if start " + id + " --filter @filter.json --wait"
	}
	return "endpoints what-if " + id + " --filter @filter.json --last " + p.Last
}

// compare compares stored events with the change of the form, or begins the job that compares archived ones.
// If the API refuses that, compare records why.
func (p *tryPage) compare(v *page.Visit, u apitypes.EndpointUpdate) error {
	last, err := strconv.Atoi(p.Last)
	if err != nil && p.Last != inArchive || !slices.Contains(p.Lasts, p.Last) {
		return page.ErrBadForm
	}
	wants := apitypes.Subscription{
		EventTypes: u.EventTypes, Filter: u.Filter, Channels: u.Channels, Changed: u.Changed, Condition: u.Condition,
	}
	if p.Last == inArchive {
		var job apitypes.ArchiveComparison
		if job, err = v.API.CompareArchive(v.Context, p.Endpoint.ID, apitypes.ArchiveWhatIf{Subscription: wants, Type: p.Type}); err == nil {
			p.Job = &job
		}
	} else {
		var result apitypes.WhatIfResult
		result, err = v.API.WhatIf(v.Context, p.Endpoint.ID, apitypes.WhatIf{Subscription: wants, Last: &last, Type: p.Type})
		p.Result = &result
	}
	if faults := v.Faulty(err); faults != nil {
		p.Result = nil
		p.refuse(v, faults)
		return nil
	}
	return err
}

// findJob finds the job that compares archived events, and offers to begin one if the server has an archive
// and the person may read it.
func (p *tryPage) findJob(v *page.Visit) error {
	if !v.Can(postrider.ScopeAdmin) {
		return nil
	}
	job, err := v.API.ArchiveComparison(v.Context, p.Endpoint.ID)
	switch page.StatusOf(err) {
	case http.StatusConflict: // the server has no archive
		return nil
	case http.StatusNotFound:
		err = nil
	default:
		p.Job = &job
	}
	p.Lasts = append(p.Lasts, inArchive)
	return err
}

// cancelTry cancels the job that compares archived events, or deletes its result.
func cancelTry(v *page.Visit, e apitypes.Endpoint) error {
	err := v.API.CancelArchiveComparison(v.Context, e.ID)
	return v.DoneUnless(err, v.Path("endpoints", e.ID, "try"), page.Flash{Text: v.T("try.archive.cancelled")})
}
