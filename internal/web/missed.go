package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// missedRoutes lists the page that replays what an endpoint has missed.
func missedRoutes() []route {
	return []route{
		{"GET /endpoints/{endpoint}/missed", everyone, showMissed},
		{"POST /endpoints/{endpoint}/missed", everyone, replayMissed},
	}
}

// missedPage is the data of the page that replays what an endpoint has missed: a form
// for the time and the pace, then the number, then the button.
type missedPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	From     string    // as the person typed it
	since    time.Time // the same as a time; zero: it cannot be read
	Pace     int       // deliveries in a second
	Paces    []int
	Count    *apitypes.ReplayCount // nil: not counted yet
	Took     time.Duration         // that the replay takes at least
	Fault    string
}

// missedPaces are the paces to choose from. A receiver that was down is easily brought
// down again, so the first is slow.
var missedPaces = []int{10, 50, 100, 500}

// missed are the statuses of the deliveries that never reached the receiver.
var missed = []postrider.Status{postrider.Dead, postrider.Cancelled, postrider.Skipped}

// missed returns the page with what the person chose, and the replay that it means. A
// time that is left out is a day ago.
func (v *visit) missed(e apitypes.Endpoint) (missedPage, apitypes.ReplayCreate) {
	p := missedPage{Endpoint: e, Tab: "missed", Pace: missedPaces[0], Paces: missedPaces}
	if n, err := strconv.Atoi(v.param("pace")); err == nil {
		p.Pace = n
	}
	from := v.now.Add(-24 * time.Hour)
	p.From = from.In(v.zone).Format(localTime)
	if typed := v.param("from"); typed != "" {
		p.From = typed
		at, err := time.ParseInLocation(localTime, typed, v.zone)
		if err != nil {
			at, err = time.ParseInLocation(localTime+":05", typed, v.zone)
		}
		if err != nil {
			p.Fault = v.t("missed.no_time")
		}
		from = at
	}
	p.since = from
	return p, apitypes.ReplayCreate{
		Endpoint: e.ID.String(), Statuses: missed, From: &apitypes.Time{Time: from}, PerSecond: &p.Pace,
		Note: v.t("missed.note"),
	}
}

// showMissed shows the form. When a time is chosen, it counts.
func showMissed(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	p, replay := v.missed(e)
	if v.query("from") == "" || p.Fault != "" {
		return v.showMissed(p)
	}
	count, err := v.api.CountReplay(v.ctx, replay)
	if faults, refused := v.faulty(err); refused {
		p.Fault = anyFault(faults)
		return v.showMissed(p)
	}
	if err != nil {
		return err
	}
	p.Count, p.Took = &count, time.Duration(count.Matches)*time.Second/time.Duration(max(p.Pace, 1))
	return v.showMissed(p)
}

func (v *visit) showMissed(p missedPage) error {
	command := "replays create --missed --dry-run --endpoint " + p.Endpoint.ID.String() + " --per-second " + strconv.Itoa(p.Pace)
	if !p.since.IsZero() { // not as it was typed: a link could put a command of its author there
		command += " --from " + p.since.UTC().Format(time.RFC3339)
	}
	show := page{Name: "endpoints-missed", Title: where(v, p.Endpoint), Data: p, Commands: []string{command}}
	if p.Fault != "" {
		show.Status = http.StatusUnprocessableEntity
	}
	return v.show(show)
}

// replayMissed starts the replay, and leads to its progress.
func replayMissed(v *visit) error {
	e, err := v.liveEndpoint()
	if err != nil {
		return err
	}
	p, replay := v.missed(e)
	if p.Fault != "" {
		return v.showMissed(p)
	}
	job, err := v.api.CreateReplay(v.ctx, replay)
	if faults, refused := v.faulty(err); refused {
		p.Fault = anyFault(faults)
		return v.showMissed(p)
	}
	if err != nil {
		return err
	}
	return v.done(v.path("replays", job.ID), flash{Text: v.t("missed.done", "n", job.Expected.Matches)})
}
