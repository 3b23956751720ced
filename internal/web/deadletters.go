package web

import (
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// deadLetterRoutes lists the pages of dead letters. One dead letter is shown on the page
// of its delivery.
func deadLetterRoutes() []route {
	return []route{
		{"GET /dead-letters", everyone, listDeadLetterGroups},
		{"GET /dead-letters/all", everyone, listDeadLetters},
		{"POST /dead-letters/replay", everyone, resolveSelected("replay")},
		{"POST /dead-letters/discard", everyone, resolveSelected("discard")},
	}
}

// deadLetterGroup is a group of dead letters with the endpoint that it is about.
type deadLetterGroup struct {
	apitypes.DeadLetterGroup

	URL   string
	First bool // the row before is about another endpoint
}

// groupsOnPage is how many groups a page has. Each endpoint among them is read for its URL.
const groupsOnPage = 25

// listDeadLetterGroups shows the unresolved dead letters by endpoint and cause.
func listDeadLetterGroups(v *visit) error {
	endpoint, endpointID, err := v.endpointFilter()
	f := filters{endpoint}
	if v.who == operators {
		f = append(f, v.accountFilter())
	}
	l := listed[deadLetterGroup]{filters: f, err: err}
	if err == nil {
		paging := v.paging()
		paging.Limit = groupsOnPage
		var groups apitypes.Page[apitypes.DeadLetterGroup]
		groups, l.err = v.api.DeadLetterGroups(v.ctx, client.DeadLetterGroupFilter{Account: v.query("account"), Endpoint: endpointID, Paging: paging})
		if l.err == nil {
			l.items, l.err = v.withURLs(groups)
		}
	}
	return showList(v, page{Name: "dead_letters", Commands: []string{"dead-letters groups"}}, l)
}

// withURLs adds the URLs of the endpoints. Groups of one endpoint follow each other, so
// each endpoint is read once.
func (v *visit) withURLs(groups apitypes.Page[apitypes.DeadLetterGroup]) (apitypes.Page[deadLetterGroup], error) {
	rows := apitypes.Page[deadLetterGroup]{NextCursor: groups.NextCursor}
	var last apitypes.Endpoint
	for _, g := range groups.Data {
		row := deadLetterGroup{DeadLetterGroup: g, First: g.Endpoint != last.ID}
		if row.First {
			e, err := v.api.Endpoint(v.ctx, g.Endpoint)
			if err != nil {
				return rows, err
			}
			last = e
		}
		row.URL = last.URL
		rows.Data = append(rows.Data, row)
	}
	return rows, nil
}

// listDeadLetters shows dead letters one by one, newest first.
func listDeadLetters(v *visit) error {
	endpoint, endpointID, err := v.endpointFilter()
	span, fromTime, toTime := v.spanFilter()
	f := filters{
		v.choice("reason", "reason", "exhausted", "gone", "client_error", "expired", "system"),
		v.choice("resolved", "dead_letters.resolved", "true"), v.textFilter("event_type"), endpoint,
	}
	if v.who == operators {
		f = append(f, v.accountFilter())
	}
	l := listed[apitypes.DeadLetter]{filters: append(f, span...), err: err}
	if err == nil {
		l.items, l.err = v.api.DeadLetters(v.ctx, client.DeadLetterFilter{
			Account: v.query("account"), Endpoint: endpointID, EventType: v.query("event_type"), Reason: v.query("reason"),
			Resolved: v.query("resolved") == "true", From: fromTime, To: toTime, Paging: v.paging(),
		})
	}
	if l.err == nil {
		l.err = nameItems(v, l.items.Data)
	}
	return showList(v, page{Name: "dead_letters-all", Commands: []string{"dead-letters list"}}, l)
}

// resolveSelected returns the handler of a form that replays or discards the dead letters
// that a person has selected on a page of the list. One that has changed since the page was
// loaded is left out, and the person learns why.
func resolveSelected(verb string) func(*visit) error {
	return func(v *visit) error {
		selected := v.posted["delivery"]
		if len(selected) > pageSize {
			return errBadForm
		}
		done, refusal := 0, ""
		for _, text := range slices.Compact(slices.Sorted(slices.Values(selected))) {
			id, err := postrider.ParseID[postrider.DeliveryID](text)
			if err != nil {
				return errBadForm
			}
			if verb == "replay" {
				_, err = v.api.ReplayDelivery(v.ctx, id)
			} else {
				_, err = v.api.DiscardDeadLetter(v.ctx, id, v.form("reason"))
			}
			faults, refused := v.faulty(err)
			switch {
			case refused:
				refusal = anyFault(faults)
			case err != nil:
				return err
			default:
				done++
			}
		}
		f := flash{Text: v.t("dead_letters.done."+verb, "n", done), Warn: done == 0}
		if len(selected) == 0 {
			f.Text = v.t("dead_letters.none_selected")
		}
		if refusal != "" {
			f.Text, f.Warn = f.Text+" "+v.t("dead_letters.left_out", "n", len(selected)-done, "why", refusal), true
		}
		return v.done(v.back(), f)
	}
}
