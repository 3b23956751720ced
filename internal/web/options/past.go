package options

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

// subscription are the options that say which events an endpoint gets.
var subscription = []string{"event_types", "filter", "channels", "changed", "condition"}

// past is the choice to send an endpoint events of the past too, as a form with its subscription has
// it. The partial "endpoint-past" shows it.
type past struct {
	Since string // none: only new events; date: since At; otherwise a length of time before now
	At    string // as the person typed it
	Fault string // why the time is refused; empty: it is not

	from time.Time // zero: only new events, or the time is refused
}

// pastOf returns the choice that the form has.
func pastOf(v *page.Visit) past {
	p := past{Since: cmp.Or(v.Form("since"), "none"), At: v.Form("since_at")}
	if p.Since == "none" {
		return p
	}
	ago, err := time.ParseDuration(p.Since)
	from := v.Now.Add(-ago)
	if p.Since == "date" {
		from, err = v.LocalInstant(p.At)
	}
	switch {
	case err != nil:
		p.Fault = v.T("missed.no_time")
	case from.After(v.Now):
		p.Fault = v.T("fault.start_from.out_of_range")
	default:
		p.from = from
	}
	return p
}

// refusePast records the fault of the time in the form of a new endpoint, and reports whether there is one.
func (f *form) refusePast() bool {
	if f.Past.Fault != "" {
		f.fault("start_from", f.Past.Fault)
	}
	return f.Past.Fault != ""
}

// start starts the backfill that the form asked for, if it did. It returns what the page says that the
// form did, with what became of the backfill. A refusal is no error of the form, because the endpoint is
// already saved.
func (p past) start(v *page.Visit, id postrider.EndpointID, done page.Flash) page.Flash {
	why := p.Fault
	switch {
	case why != "":
	case p.from.IsZero():
		return done
	default:
		job, err := v.API.Backfill(v.Context, id, apitypes.Backfill{StartFrom: apitypes.Time{Time: p.from}})
		if err == nil {
			done.Link, done.LinkText = v.Path("replays", job.ID), v.T("past.progress")
			done.Text = strings.TrimSpace(done.Text + " " + started(v, job))
			return done
		}
		why = cmp.Or(page.AnyFault(v.Faulty(err)), v.T("past.failed"))
	}
	done.Link, done.LinkText, done.Warn = v.Path("endpoints", id, "missed")+"?what=past", v.T("past.again"), true
	done.Text = strings.TrimSpace(done.Text + " " + v.T("past.refused", "why", why))
	return done
}

// started says how many events a new backfill sends, and since when events are kept, if that is later
// than the person wished.
func started(v *page.Visit, job apitypes.Replay) string {
	key := "past.started"
	switch {
	case !job.Expected.Exact:
		key = "past.started_more"
	case job.Expected.Matches == 0:
		key = "past.none"
	}
	said := v.T(key, "n", job.Expected.Matches, "pace", job.PerSecond)
	if since := job.Expected.KeptSince; since != nil {
		said += " " + v.T("replay.kept_since", "time", since.In(v.Zone).Format("2006-01-02 15:04:05 MST"))
	}
	return said
}

// Resubscribes reports whether the form changes which events the endpoint gets.
func (f *form) Resubscribes() bool {
	return slices.ContainsFunc(f.Changes, func(c optionChange) bool { return slices.Contains(subscription, c.Option) })
}
