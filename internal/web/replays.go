package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// replayRoutes lists the pages and forms of replays: jobs that replay or discard many
// deliveries.
func replayRoutes() []route {
	return []route{
		{"GET /replays", everyone, listReplays},
		{"GET /replays/new", everyone, newReplay},
		{"POST /replays", everyone, createReplay},
		{"GET /replays/{replay}", everyone, showReplay},
		{"POST /replays/{replay}/pause", everyone, changeReplay("pause")},
		{"POST /replays/{replay}/resume", everyone, changeReplay("resume")},
		{"POST /replays/{replay}/cancel", everyone, changeReplay("cancel")},
	}
}

// replayRow is a replay with its progress.
type replayRow struct {
	apitypes.Replay
}

// Percent returns how much is handled, of what was counted; 100 once it is done.
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

// Left returns about how long the rest takes at the pace of the replay; zero: it is not
// known.
func (r replayRow) Left() time.Duration {
	rest := r.Expected.Matches - r.Matched
	if r.Status != postrider.ReplayRunning || !r.Expected.Exact || rest <= 0 || r.PerSecond <= 0 {
		return 0
	}
	return time.Duration(rest/r.PerSecond+1) * time.Second
}

// listReplays shows replays, newest first.
func listReplays(v *visit) error {
	f := filters{v.choice("status", "replay.status", "running", "paused", "done", "cancelled", "failed")}
	if v.who == operators {
		f = append(f, v.textFilter("account"))
	}
	found, err := v.api.Replays(v.ctx, client.ReplayFilter{
		Account: v.query("account"), Status: postrider.ReplayStatus(v.query("status")), Paging: v.paging(),
	})
	rows := apitypes.Page[replayRow]{NextCursor: found.NextCursor}
	for _, r := range found.Data {
		rows.Data = append(rows.Data, replayRow{r})
	}
	return showList(v, page{Name: "replays", Commands: []string{v.command("replays list")}}, listed[replayRow]{rows, f, err})
}

// replayForm is the two forms of a new replay: what it selects, and how it is done. Its
// fields are what the person typed.
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
		EventTypes: get("event_types"), Reason: get("reason"), From: get("from"), To: get("to"), Until: get("until"), Statuses: values["statuses"],
		PerSecond: get("per_second"), Note: get("note"), All: words(postrider.ReplayStatuses),
		Reasons: []string{"exhausted", "gone", "client_error", "expired", "system", "endpoint_disabled", "backlog_full"},
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

// request returns what the form asks of the API. It notes what it cannot read as a fault.
func (f *replayForm) request(v *visit) apitypes.ReplayCreate {
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
		at, err := time.ParseInLocation(localTime, text, v.zone)
		if err != nil {
			f.Faults[name] = v.t("form.no_time")
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
		f.Faults["per_second"] = v.t("replay.no_pace")
	}
	r.PerSecond = &pace
	return r
}

// newReplay shows the form of a replay, and how many deliveries it would select.
func newReplay(v *visit) error {
	f := replayFormOf(v.r.URL.Query())
	f.Uncounted = len(v.r.URL.Query()) == 0 // a count of everything may take a second
	return v.showReplayForm(f)
}

// showReplayForm counts what the form selects, and shows the form.
func (v *visit) showReplayForm(f replayForm) error {
	said := f.Faults // by the API, when it refused to create the replay
	if f.Until = ""; f.To == "" && !f.Uncounted {
		f.Until = v.now.Add(time.Millisecond).UTC().Format(time.RFC3339Nano) // what dies later is not started with what is counted here
	}
	r := f.request(v)
	if len(said) > 0 {
		f.Faults = said
	}
	shown := page{Name: "replays-new", Commands: []string{"replays create --dry-run", "replays create"}}
	if _, pace := f.Faults["per_second"]; pace && len(f.Faults) == 1 { // the form with the pace needs the count
		r.PerSecond = nil
		if count, err := v.api.CountReplay(v.ctx, r); err == nil {
			f.Count = count
		}
	} else if len(f.Faults) == 0 && !f.Uncounted {
		var err error
		f.Count, err = v.api.CountReplay(v.ctx, r)
		faults, refused := v.faulty(err)
		if err != nil && !refused {
			return err
		}
		f.Faults = faults
	}
	if len(f.Faults) > 0 {
		shown.Status = 422
	}
	shown.Data = f
	return v.show(shown)
}

// createReplay starts a replay, and leads to its progress.
func createReplay(v *visit) error {
	f := replayFormOf(v.posted)
	r := f.request(v)
	if len(f.Faults) > 0 {
		return v.showReplayForm(f)
	}
	made, err := v.api.CreateReplay(v.ctx, r)
	var refused bool
	if f.Faults, refused = v.faulty(err); refused {
		return v.showReplayForm(f)
	}
	if err != nil {
		return err
	}
	return v.done(v.path("replays", made.ID), flash{Text: v.t("replay.done." + string(made.Action))})
}

// replayID returns the id of the replay in the path of the request.
func (v *visit) replayID() (postrider.ReplayID, error) {
	return pathID(v, "replay", postrider.ParseID[postrider.ReplayID])
}

// showReplay shows one replay with its progress and what became of its deliveries.
func showReplay(v *visit) error {
	id, err := v.replayID()
	if err != nil {
		return err
	}
	r, err := v.api.Replay(v.ctx, id)
	if err != nil {
		return err
	}
	return v.show(page{Name: "replays-one", Title: v.t("replay.title." + string(r.Action)), Data: replayRow{r}, Commands: []string{
		fmt.Sprintf("replays get %s", id), fmt.Sprintf("replays cancel %s", id), fmt.Sprintf("deliveries list --replay-job %s", id),
	}})
}

// changeReplay returns the handler of a form that pauses, resumes or cancels a replay.
func changeReplay(verb string) func(*visit) error {
	return func(v *visit) error {
		id, err := v.replayID()
		if err != nil {
			return err
		}
		f := flash{Text: v.t("replay.done." + verb)}
		switch verb {
		case "pause":
			_, err = v.api.PauseReplay(v.ctx, id)
			f.Undo = v.path("replays", id, "resume")
		case "resume":
			_, err = v.api.ResumeReplay(v.ctx, id)
			f.Undo = v.path("replays", id, "pause")
		default:
			_, err = v.api.CancelReplay(v.ctx, id)
		}
		if faults, refused := v.faulty(err); refused {
			f = flash{Text: v.t("delivery.refused", "why", anyFault(faults)), Warn: true}
		} else if err != nil {
			return err
		}
		return v.done(v.path("replays", id), f)
	}
}
