// Package replays has the pages of replays: jobs that replay or discard many deliveries.
package replays

import (
	"embed"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of replays: jobs that replay or discard many deliveries.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Everyone: page.Routes{
			"GET /replays":                  listReplays,
			"GET /replays/new":              newReplay,
			"POST /replays":                 createReplay,
			"GET /replays/{replay}":         page.OfID("replay", showReplay),
			"POST /replays/{replay}/pause":  page.OfID("replay", changeReplay("pause")),
			"POST /replays/{replay}/resume": page.OfID("replay", changeReplay("resume")),
			"POST /replays/{replay}/cancel": page.OfID("replay", changeReplay("cancel")),
		},
	}
}

// replayRow is a replay with its progress.
type replayRow struct {
	apitypes.Replay
}

// Percent returns the share of the counted deliveries that are done; 100 if the status of the
// replay is done.
func (r replayRow) Percent() int {
	switch {
	case r.Status == postrider.ReplayDone:
		return 100
	case r.Expected.Matches == 0:
		return 0
	}
	return min(r.Matched*100/r.Expected.Matches, 99)
}

// Skips returns how many deliveries could not be replayed.
func (r replayRow) Skips() int {
	return r.Skipped.BytesGone + r.Skipped.ReplayPending + r.Skipped.EndpointDeleted + r.Skipped.Resolved
}

// Ended reports whether nothing can change the replay any more.
func (r replayRow) Ended() bool { return r.Status.Ended() }

// Left estimates how long the rest takes at the pace of the replay; zero: unknown.
func (r replayRow) Left() time.Duration {
	rest := r.Expected.Matches - r.Matched
	if r.Status != postrider.ReplayRunning || !r.Expected.Exact || rest <= 0 || r.PerSecond <= 0 {
		return 0
	}
	return time.Duration(rest/r.PerSecond+1) * time.Second
}

// listReplays shows replays, newest first.
func listReplays(v *page.Visit) error {
	f := page.Filters{v.Choice("status", "replay.status", "running", "paused", "done", "cancelled", "failed")}
	if v.Who == page.Operators {
		f = append(f, v.TextFilter("account"))
	}
	found, err := v.API.Replays(v.Context, client.ReplayFilter{
		Account: v.Query("account"), Status: postrider.ReplayStatus(v.Query("status")), Paging: v.Paging(),
	})
	rows := page.RowsOf(found, func(r apitypes.Replay) replayRow { return replayRow{r} })
	return page.ShowList(v, page.View{Name: "replays", Filters: f, Commands: []string{v.Command("replays list")}}, rows, err)
}

// replayForm is the two forms of a new replay: the selection, and the pace. Its fields are the
// values that the person typed.
type replayForm struct {
	Action, Account, Endpoint, Event, EventTypes, Reason, From, To string
	Until                                                          string // the end of a range without one, fixed when it was counted
	Statuses                                                       []string
	PerSecond, Note                                                string
	All                                                            []string // statuses to choose from
	Reasons                                                        []string
	Count                                                          apitypes.ReplayCount
	Uncounted                                                      bool // nothing was selected yet
	Faults                                                         map[string]string
}

// Chosen reports whether a status is chosen.
func (f replayForm) Chosen(status string) bool { return slices.Contains(f.Statuses, status) }

// defaultPace is how many deliveries a second the form suggests.
const defaultPace = 100

// replayFormOf returns the form with the values of the URL or of the form that was sent.
func replayFormOf(values url.Values) replayForm {
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	f := replayForm{
		Action: get("action"), Account: get("account"), Endpoint: get("endpoint"), Event: get("event"),
		EventTypes: get("event_types"), Reason: get("reason"), From: get("from"), To: get("to"), Until: get("until"),
		Statuses: values["statuses"], PerSecond: get("per_second"), Note: get("note"), All: page.Words(postrider.ReplayStatuses),
		Reasons: append(slices.Clone(postrider.DeadReasons), postrider.ReasonEndpointDisabled, postrider.ReasonBacklogFull),
	}
	if f.Action != string(postrider.ActionDiscard) {
		f.Action = string(postrider.ActionReplay)
	}
	if len(f.Statuses) == 0 {
		f.Statuses = []string{string(postrider.Dead)}
	}
	if f.PerSecond == "" {
		f.PerSecond = strconv.Itoa(defaultPace)
	}
	return f
}

// request returns the request for the API. It records a fault for each value that it cannot read.
func (f *replayForm) request(v *page.Visit) apitypes.ReplayCreate {
	r := apitypes.ReplayCreate{
		Action: postrider.ReplayAction(f.Action), Account: f.Account, Endpoint: f.Endpoint, Event: f.Event,
		EventTypes: strings.Fields(f.EventTypes), Reason: f.Reason, Note: f.Note,
	}
	for _, status := range f.Statuses {
		r.Statuses = append(r.Statuses, postrider.Status(status))
	}
	f.Faults = map[string]string{}
	instant := func(name, text string) *apitypes.Time {
		if text == "" {
			return nil
		}
		at, err := time.ParseInLocation(page.LocalTime, text, v.Zone)
		if err != nil {
			f.Faults[name] = v.T("form.no_time")
			return nil
		}
		return &apitypes.Time{Time: at}
	}
	r.From, r.To = instant("from", f.From), instant("to", f.To)
	if until, err := time.Parse(time.RFC3339Nano, f.Until); err == nil && f.To == "" {
		r.To = &apitypes.Time{Time: until}
	}
	pace, err := strconv.Atoi(f.PerSecond)
	if err != nil || pace < 1 {
		f.Faults["per_second"] = v.T("replay.no_pace")
	}
	r.PerSecond = &pace
	return r
}

// newReplay shows the form of a replay, and how many deliveries it would select.
func newReplay(v *page.Visit) error {
	f := replayFormOf(v.Request.URL.Query())
	f.Uncounted = len(v.Request.URL.Query()) == 0 // a count of everything may take a second
	return showReplayForm(v, f)
}

// showReplayForm counts what the form selects, and shows the form.
func showReplayForm(v *page.Visit, f replayForm) error {
	said := f.Faults // by the API, when it refused to create the replay
	if f.Until = ""; f.To == "" && !f.Uncounted {
		f.Until = v.Now.Add(time.Millisecond).UTC().Format(time.RFC3339Nano) // later deaths are neither counted nor replayed
	}
	r := f.request(v)
	if len(said) > 0 {
		f.Faults = said
	}
	shown := page.View{Name: "replays-new", Commands: []string{"replays create --dry-run", "replays create"}}
	if _, pace := f.Faults["per_second"]; pace && len(f.Faults) == 1 { // the form with the pace needs the count
		r.PerSecond = nil
		if count, err := v.API.CountReplay(v.Context, r); err == nil {
			f.Count = count
		}
	} else if len(f.Faults) == 0 && !f.Uncounted {
		var err error
		f.Count, err = v.API.CountReplay(v.Context, r)
		faults := v.Faulty(err)
		if err != nil && faults == nil {
			return err
		}
		f.Faults = faults
	}
	shown.Data, shown.Refused = f, len(f.Faults) > 0
	return v.Show(shown)
}

// createReplay starts a replay, and leads to its progress.
func createReplay(v *page.Visit) error {
	f := replayFormOf(v.Posted)
	r := f.request(v)
	if len(f.Faults) > 0 {
		return showReplayForm(v, f)
	}
	made, err := v.API.CreateReplay(v.Context, r)
	if f.Faults = v.Faulty(err); f.Faults != nil {
		return showReplayForm(v, f)
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("replays", made.ID), page.Flash{Text: v.T("replay.done." + string(made.Action))})
}

// showReplay shows one replay with its progress and its results.
func showReplay(v *page.Visit, id postrider.ReplayID) error {
	r, err := v.API.Replay(v.Context, id)
	if err != nil {
		return err
	}
	return v.Show(page.View{Name: "replays-one", Title: v.T("replay.title." + string(r.Action)), Data: replayRow{r}, Commands: []string{
		fmt.Sprintf("replays get %s", id), fmt.Sprintf("replays cancel %s", id), fmt.Sprintf("deliveries list --replay-job %s", id),
	}})
}

// changeReplay returns the handler of a form that pauses, resumes or cancels a replay.
func changeReplay(verb string) func(*page.Visit, postrider.ReplayID) error {
	return func(v *page.Visit, id postrider.ReplayID) error {
		f := page.Flash{Text: v.T("replay.done." + verb), Refusal: "delivery.refused"}
		var err error
		switch verb {
		case "pause":
			_, err = v.API.PauseReplay(v.Context, id)
			f.Undo = v.Path("replays", id, "resume")
		case "resume":
			_, err = v.API.ResumeReplay(v.Context, id)
			f.Undo = v.Path("replays", id, "pause")
		default:
			_, err = v.API.CancelReplay(v.Context, id)
		}
		return v.DoneUnless(err, v.Path("replays", id), f)
	}
}
