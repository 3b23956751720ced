package endpoints

import (
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

// missedPage is the data of the page that replays the events that an endpoint missed. The page
// has a form for the time and the pace, then shows the number of deliveries, then a button.
type missedPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	Past     bool      // whether the page is about events that have no delivery to the endpoint
	From     string    // as the person typed it
	since    time.Time // From as a time; zero: From cannot be read
	Pace     int       // deliveries in a second
	Paces    []int
	Count    *apitypes.ReplayCount // nil: not counted yet
	Took     time.Duration         // the least time that the replay takes
	Fault    string

	past   apitypes.Backfill     // the request, if Past
	replay apitypes.ReplayCreate // the request, if not
}

// missedPaces are the paces to choose from. The first is slow, because a receiver that was down
// easily goes down again.
var missedPaces = []int{10, 50, 100, 500}

// missedStatuses are the statuses of the deliveries that never reached the receiver.
var missedStatuses = []postrider.Status{postrider.Dead, postrider.Cancelled, postrider.Skipped}

// missedOf returns the page with the choices of the person, and the requests for these choices. If
// the time is left out, it is a day ago.
func missedOf(v *page.Visit, e apitypes.Endpoint) missedPage {
	p := missedPage{Endpoint: e, Tab: "missed", Past: v.Param("what") == "past", Pace: missedPaces[0], Paces: missedPaces}
	if n, err := strconv.Atoi(v.Param("pace")); err == nil {
		p.Pace = n
	}
	from := v.Now.Add(-24 * time.Hour)
	p.From = from.In(v.Zone).Format(page.LocalTime)
	if typed := v.Param("from"); typed != "" {
		p.From = typed
		at, err := v.LocalInstant(typed)
		if err != nil {
			p.Fault = v.T("missed.no_time")
		}
		from = at
	}
	p.since = from
	p.past = apitypes.Backfill{StartFrom: apitypes.Time{Time: from}, PerSecond: &p.Pace}
	p.replay = apitypes.ReplayCreate{
		Endpoint: e.ID.String(), Statuses: missedStatuses, From: &apitypes.Time{Time: from}, PerSecond: &p.Pace,
		Note: v.T("missed.note"),
	}
	return p
}

// Scope returns the scope that the request needs.
func (p missedPage) Scope() postrider.Scope {
	if p.Past {
		return postrider.ScopeEndpointsWrite
	}
	return postrider.ScopeWebhooksOperate
}

// count counts the deliveries that start would make.
func (p missedPage) count(v *page.Visit) (apitypes.ReplayCount, error) {
	if p.Past {
		return v.API.CountBackfill(v.Context, p.Endpoint.ID, p.past)
	}
	return v.API.CountReplay(v.Context, p.replay)
}

func (p missedPage) start(v *page.Visit) (apitypes.Replay, error) {
	if p.Past {
		return v.API.Backfill(v.Context, p.Endpoint.ID, p.past)
	}
	return v.API.CreateReplay(v.Context, p.replay)
}

// showMissed shows the form. If a time is chosen, it also counts the deliveries.
func showMissed(v *page.Visit, e apitypes.Endpoint) error {
	p := missedOf(v, e)
	if v.Query("from") == "" || p.Fault != "" {
		return p.show(v)
	}
	count, err := p.count(v)
	if faults := v.Faulty(err); faults != nil {
		p.Fault = page.AnyFault(faults)
		return p.show(v)
	}
	if err != nil {
		return err
	}
	p.Count, p.Took = &count, time.Duration(count.Matches)*time.Second/time.Duration(max(p.Pace, 1))
	return p.show(v)
}

func (p missedPage) show(v *page.Visit) error {
	command, from := "replays create --missed --dry-run --endpoint ", " --from "
	if p.Past {
		command, from = "endpoints backfill --dry-run ", " --start-from "
	}
	command += p.Endpoint.ID.String() + " --per-second " + strconv.Itoa(p.Pace)
	if !p.since.IsZero() { // formatted here, since typed text of a link could be a command of its author
		command += from + p.since.UTC().Format(time.RFC3339)
	}
	return v.Show(page.View{
		Name: "endpoints-missed", Title: page.Where(v, p.Endpoint), Data: p, Refused: p.Fault != "",
		Commands: []string{command},
	})
}

// replayMissed starts the replay, and redirects to its progress.
func replayMissed(v *page.Visit, e apitypes.Endpoint) error {
	p := missedOf(v, e)
	if p.Fault != "" {
		return p.show(v)
	}
	job, err := p.start(v)
	if faults := v.Faulty(err); faults != nil {
		p.Fault = page.AnyFault(faults)
		return p.show(v)
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("replays", job.ID), page.Flash{Text: v.T("missed.done", "n", job.Expected.Matches)})
}
