package deliveries

import (
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// listDeadLetterGroups shows the unresolved dead letters by endpoint and cause.
func listDeadLetterGroups(v *page.Visit) error {
	endpoint, endpointID, err := v.EndpointFilter()
	f := append(page.Filters{endpoint}, v.AccountFilter()...)
	var rows apitypes.Page[page.DeadLetterGroup]
	command := "dead-letters groups"
	if err == nil {
		var groups apitypes.Page[apitypes.DeadLetterGroup]
		groups, err = v.API.DeadLetterGroups(v.Context, client.DeadLetterGroupFilter{
			Account: v.Query("account"), Endpoint: endpointID,
			Paging: v.Paging(),
		})
		command = v.Command(command)
		if err == nil {
			rows, err = page.GroupsOf(v, groups)
		}
	}
	return page.ShowList(v, page.View{Name: "dead_letters", Filters: f, Commands: []string{command}}, rows, err)
}

// listDeadLetters shows dead letters one by one, newest first: the unresolved ones, or all. The
// parameter resolved has the same meaning as in the API.
func listDeadLetters(v *page.Visit) error {
	endpoint, endpointID, err := v.EndpointFilter()
	span, fromTime, toTime := v.SpanFilter()
	f := page.Filters{
		v.Choice("reason", "reason", postrider.DeadReasons...),
		v.Choice("resolved", "dead_letters.resolved", "true").Without("dead_letters.resolved.false"), v.TextFilter("event_type"), endpoint,
	}
	f = append(append(f, v.AccountFilter()...), span...)
	var letters apitypes.Page[apitypes.DeadLetter]
	command := "dead-letters list"
	if err == nil {
		letters, err = v.API.DeadLetters(v.Context, client.DeadLetterFilter{
			Account: v.Query("account"), Endpoint: endpointID, EventType: v.Query("event_type"), Reason: v.Query("reason"),
			Resolved: v.Query("resolved") == "true", From: fromTime, To: toTime, Paging: v.Paging(),
		})
		command = v.Command(command)
	}
	if err == nil {
		err = page.NameItems(v, letters.Data)
	}
	return page.ShowList(v, page.View{Name: "dead_letters-all", Filters: f, Commands: []string{command}}, letters, err)
}

// selected returns the ids of the deliveries in a form, without duplicates.
func selected(v *page.Visit) (ids []postrider.DeliveryID, err error) {
	texts := v.Posted["delivery"]
	if len(texts) > page.Size {
		return nil, page.ErrBadForm
	}
	for _, text := range slices.Compact(slices.Sorted(slices.Values(texts))) {
		id, err := postrider.ParseID[postrider.DeliveryID](text)
		if err != nil {
			return nil, page.ErrBadForm
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// resolveSelected returns the handler of a form that replays or discards the dead letters that a
// person selected in the list. It skips a dead letter that has changed since the page was loaded,
// and tells the person why. Replays are new deliveries; the next page links to them.
func resolveSelected(verb string) func(*page.Visit) error {
	return func(v *page.Visit) error {
		selected, err := selected(v)
		if err != nil {
			return err
		}
		f, done, refusal := page.Flash{}, 0, ""
		for _, id := range selected {
			var made apitypes.Delivery
			if verb == "replay" {
				made, err = v.API.ReplayDelivery(v.Context, id)
			} else {
				_, err = v.API.DiscardDeadLetter(v.Context, id, v.Form("reason"))
			}
			faults := v.Faulty(err)
			switch {
			case faults != nil:
				refusal = page.AnyFault(faults)
			case err != nil:
				return err
			default:
				done++
				if !made.ID.IsZero() {
					f.Made = append(f.Made, made.ID)
				}
			}
		}
		f.Text, f.Warn = v.T("dead_letters.done."+verb, "n", done), done == 0
		if len(selected) == 0 {
			f.Text = v.T("dead_letters.none_selected")
		}
		if len(f.Made) > 0 {
			f.Undo = v.Path("dead-letters", "undo")
		}
		if refusal != "" {
			f.Text, f.Warn = f.Text+" "+v.T("dead_letters.left_out", "n", len(selected)-done, "why", refusal), true
		}
		return v.Done(v.Back(), f)
	}
}

// cancelReplays undoes the replays of resolveSelected as far as possible: it cancels the replays
// that are still pending. The dead letters stay replayed, so the flash says where to replay them
// again.
func cancelReplays(v *page.Visit) error {
	made, err := selected(v)
	if err != nil {
		return err
	}
	cancelled := 0
	for _, id := range made {
		_, err := v.API.CancelDelivery(v.Context, id)
		if err != nil && v.Faulty(err) == nil {
			return err
		}
		if err == nil {
			cancelled++
		}
	}
	said := v.T("dead_letters.done.undo", "n", cancelled)
	if late := len(made) - cancelled; late > 0 {
		said += " " + v.T("dead_letters.undo_late", "n", late)
	}
	return v.Done(v.Back(), page.Flash{Text: said + " " + v.T("dead_letters.undo_rest"), Warn: cancelled == 0})
}
