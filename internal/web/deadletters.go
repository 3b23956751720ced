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
		{"POST /dead-letters/undo", everyone, cancelReplays},
	}
}

// deadLetterGroup is a group of dead letters.
type deadLetterGroup struct {
	apitypes.DeadLetterGroup

	First bool // the group before is about another endpoint
}

// listDeadLetterGroups shows the unresolved dead letters by endpoint and cause.
func listDeadLetterGroups(v *visit) error {
	endpoint, endpointID, err := v.endpointFilter()
	f := filters{endpoint}
	if v.who == operators {
		f = append(f, v.accountFilter())
	}
	l, command := listed[deadLetterGroup]{filters: f, err: err}, "dead-letters groups"
	if err == nil {
		var groups apitypes.Page[apitypes.DeadLetterGroup]
		groups, l.err = v.api.DeadLetterGroups(v.ctx, client.DeadLetterGroupFilter{Account: v.query("account"), Endpoint: endpointID, Paging: v.paging()})
		command = v.command(command)
		if l.err == nil {
			l.items, l.err = v.nameGroups(groups)
		}
	}
	return showList(v, page{Name: "dead_letters", Commands: []string{command}}, l)
}

// nameGroups reads the names of the endpoints of a page of groups. Groups of one endpoint
// follow each other.
func (v *visit) nameGroups(groups apitypes.Page[apitypes.DeadLetterGroup]) (apitypes.Page[deadLetterGroup], error) {
	rows := apitypes.Page[deadLetterGroup]{NextCursor: groups.NextCursor}
	ids := make([]postrider.EndpointID, 0, len(groups.Data))
	for i, g := range groups.Data {
		rows.Data = append(rows.Data, deadLetterGroup{g, i == 0 || ids[i-1] != g.Endpoint})
		ids = append(ids, g.Endpoint)
	}
	return rows, v.nameEndpoints(v.ctx, ids)
}

// listDeadLetters shows dead letters one by one, newest first: the unresolved, or all. The
// parameter resolved means what it means to the API.
func listDeadLetters(v *visit) error {
	endpoint, endpointID, err := v.endpointFilter()
	span, fromTime, toTime := v.spanFilter()
	f := filters{
		v.choice("reason", "reason", "exhausted", "gone", "client_error", "expired", "system"),
		v.choice("resolved", "dead_letters.resolved", "true").without("dead_letters.resolved.false"), v.textFilter("event_type"), endpoint,
	}
	if v.who == operators {
		f = append(f, v.accountFilter())
	}
	l, command := listed[apitypes.DeadLetter]{filters: append(f, span...), err: err}, "dead-letters list"
	if err == nil {
		l.items, l.err = v.api.DeadLetters(v.ctx, client.DeadLetterFilter{
			Account: v.query("account"), Endpoint: endpointID, EventType: v.query("event_type"), Reason: v.query("reason"),
			Resolved: v.query("resolved") == "true", From: fromTime, To: toTime, Paging: v.paging(),
		})
		command = v.command(command)
	}
	if l.err == nil {
		l.err = nameItems(v, l.items.Data)
	}
	return showList(v, page{Name: "dead_letters-all", Commands: []string{command}}, l)
}

// selected returns the deliveries that a form names, each once.
func (v *visit) selected() (ids []postrider.DeliveryID, err error) {
	texts := v.posted["delivery"]
	if len(texts) > pageSize {
		return nil, errBadForm
	}
	for _, text := range slices.Compact(slices.Sorted(slices.Values(texts))) {
		id, err := postrider.ParseID[postrider.DeliveryID](text)
		if err != nil {
			return nil, errBadForm
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// resolveSelected returns the handler of a form that replays or discards the dead letters
// that a person has selected on a page of the list. One that has changed since the page was
// loaded is left out, and the person learns why. The replays are new deliveries, to which
// the next page links.
func resolveSelected(verb string) func(*visit) error {
	return func(v *visit) error {
		selected, err := v.selected()
		if err != nil {
			return err
		}
		f, done, refusal := flash{}, 0, ""
		for _, id := range selected {
			var made apitypes.Delivery
			if verb == "replay" {
				made, err = v.api.ReplayDelivery(v.ctx, id)
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
				if !made.ID.IsZero() {
					f.Made = append(f.Made, made.ID)
				}
			}
		}
		f.Text, f.Warn = v.t("dead_letters.done."+verb, "n", done), done == 0
		if len(selected) == 0 {
			f.Text = v.t("dead_letters.none_selected")
		}
		if len(f.Made) > 0 {
			f.Undo = v.path("dead-letters", "undo")
		}
		if refusal != "" {
			f.Text, f.Warn = f.Text+" "+v.t("dead_letters.left_out", "n", len(selected)-done, "why", refusal), true
		}
		return v.done(v.back(), f)
	}
}

// cancelReplays takes back what resolveSelected replayed, as far as that is possible: it
// cancels the replays that are pending. The dead letters stay replayed, so the person learns
// where to replay them again.
func cancelReplays(v *visit) error {
	made, err := v.selected()
	if err != nil {
		return err
	}
	cancelled := 0
	for _, id := range made {
		_, err := v.api.CancelDelivery(v.ctx, id)
		if _, refused := v.faulty(err); err != nil && !refused {
			return err
		}
		if err == nil {
			cancelled++
		}
	}
	said := v.t("dead_letters.done.undo", "n", cancelled)
	if late := len(made) - cancelled; late > 0 {
		said += " " + v.t("dead_letters.undo_late", "n", late)
	}
	return v.done(v.back(), flash{Text: said + " " + v.t("dead_letters.undo_rest"), Warn: cancelled == 0})
}
