package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// deliveryRoutes lists the pages and forms of deliveries.
func deliveryRoutes() []route {
	return []route{
		{"GET /deliveries", everyone, listDeliveries},
		{"GET /deliveries/{delivery}", everyone, showDelivery},
		{"POST /deliveries/{delivery}/replay", everyone, replayDelivery},
		{"POST /deliveries/{delivery}/cancel", everyone, changeDelivery("cancel")},
		{"POST /deliveries/{delivery}/release", everyone, changeDelivery("release")},
		{"POST /deliveries/{delivery}/retry", everyone, changeDelivery("retry")},
		{"POST /deliveries/{delivery}/discard", everyone, discardDelivery},
	}
}

// listDeliveries shows deliveries, newest first.
func listDeliveries(v *visit) error {
	endpoint, endpointID, err := v.endpointFilter()
	job, jobID, jobErr := idFilter(v, "replay_job", postrider.ParseID[postrider.ReplayID])
	event, eventID, eventErr := idFilter(v, "event", postrider.ParseID[postrider.EventID])
	span, fromTime, toTime := v.spanFilter()
	f := filters{v.choice("status", "delivery.status", "pending", "delivered", "dead", "cancelled", "skipped"), v.textFilter("event_type"), endpoint}
	if v.who == operators {
		f = append(f, v.accountFilter())
	}
	if f = append(append(f, event), span...); job.Value != "" {
		f = append(f, job)
	}
	l, command := listed[apitypes.Delivery]{filters: f, err: errors.Join(err, eventErr, jobErr)}, "deliveries list"
	if l.err == nil {
		l.items, l.err = v.api.Deliveries(v.ctx, client.DeliveryFilter{
			Account: v.query("account"), Endpoint: endpointID, Event: eventID, EventType: v.query("event_type"),
			Status: postrider.Status(v.query("status")), ReplayJob: jobID, From: fromTime, To: toTime, Paging: v.paging(),
		})
		command = v.command(command)
	}
	if l.err == nil {
		l.err = nameItems(v, l.items.Data)
	}
	return showList(v, page{Name: "deliveries", Commands: []string{command}}, l)
}

// deliveryPage is the data of the page of one delivery.
type deliveryPage struct {
	Delivery   apitypes.Delivery
	Endpoint   apitypes.Endpoint
	Attempts   list[apitypes.Attempt]
	Selected   int                      // number of the attempt that is shown whole; 0: none
	Request    *apitypes.AttemptRequest // of the selected attempt; nil: it made none
	DeadLetter *apitypes.DeadLetter
	Why        explained
}

// explained is the explanation of a delivery in the language of the person. The time At
// stands between Before and After.
type explained struct {
	Why, Before, After, Action string

	Failure *apitypes.LastFailure // of the endpoint; nil: it is not the reason
	At      *apitypes.Time        // nil: there is no time
}

// explain puts the explanation of a delivery to the endpoint into words.
func (v *visit) explain(d apitypes.Delivery, to apitypes.Endpoint) explained {
	x := d.Explanation
	if x == nil { // lists do not explain
		return explained{}
	}
	result, note, lastError := "", "", fmt.Sprint(deref(d.LastError))
	switch {
	case d.LastStatusCode != nil && !postrider.Unanswered(lastError):
		result = fmt.Sprintf(" (HTTP %d)", *d.LastStatusCode)
	case lastError != "":
		result = " (" + v.cause(lastError) + ")"
	}
	if x.Note != nil && *x.Note != "" {
		note = " (" + *x.Note + ")"
	}
	e := explained{
		Why: v.t("why."+x.Why, "attempt", x.Attempt, "last", x.Attempt-1, "result", result, "note", note, "limit", to.Concurrency.Value(), "rate", v.rate(to)),
		At:  x.At, Failure: x.Failure,
	}
	if x.Others != nil {
		e.Why += " " + v.t("why.others", "n", *x.Others)
	}
	key := "next." + string(x.Next)
	if x.At != nil && v.text.has(key+".at") {
		key += ".at"
	} else {
		e.At = nil
	}
	if x.Next != postrider.NextNothing {
		e.Before, e.After, _ = strings.Cut(v.t(key, "attempt", x.Attempt), "{at}")
	}
	if x.Action != "" {
		e.Action = v.t("action." + string(x.Action))
	}
	return e
}

// rate returns the words for the rate of an endpoint, after its limit of requests at once.
// Empty: it has none.
func (v *visit) rate(e apitypes.Endpoint) string {
	if r := e.Rate.Value(); r.Attempts > 0 {
		return v.t("why.rate", "n", r.Attempts, "per", v.text.duration(time.Duration(r.PerMS)*time.Millisecond))
	}
	return ""
}

// cause puts the error of an attempt into words. Its detail follows in brackets. What is no
// failure that the server knows is shown as it is.
func (v *visit) cause(err string) string {
	name, detail, _ := strings.Cut(err, ": ")
	key := "cause." + name
	switch {
	case !v.text.has(key):
		return err
	case name == string(postrider.FailureStatus):
		return v.t(key, "code", detail)
	case detail != "":
		return v.t(key) + " (" + detail + ")"
	}
	return v.t(key)
}

// delivery returns the delivery in the path of the request.
func (v *visit) delivery() (apitypes.Delivery, error) {
	id, err := pathID(v, "delivery", postrider.ParseID[postrider.DeliveryID])
	if err != nil {
		return apitypes.Delivery{}, err
	}
	return v.api.Delivery(v.ctx, id)
}

// showDelivery shows where one delivery is and why, and its attempts. The attempt that the
// parameter attempt names is shown whole, else the last one of the page.
func showDelivery(v *visit) error {
	d, err := v.delivery()
	if err != nil {
		return err
	}
	p := deliveryPage{Delivery: d}
	if p.Endpoint, err = v.api.Endpoint(v.ctx, d.Endpoint); err != nil {
		return err
	}
	v.nameAccount(d.Account)
	p.Why = v.explain(d, p.Endpoint)
	attempts, err := v.api.Attempts(v.ctx, d.ID, v.paging())
	if err != nil {
		return err
	}
	p.Attempts = listOf(v, attempts, nil)
	for _, a := range attempts.Data {
		if a.Outcome != postrider.OutcomeNone {
			p.Selected = a.Attempt
		}
	}
	if n, err := strconv.Atoi(v.query("attempt")); err == nil {
		p.Selected = n
	}
	if p.Selected > 0 {
		request, err := v.api.AttemptRequest(v.ctx, d.ID, p.Selected)
		switch status := statusOf(err); {
		case err == nil:
			p.Request = &request
		case status != http.StatusNotFound && status != http.StatusConflict: // no such attempt, or one without a request
			return err
		}
	}
	if d.Status == postrider.Dead {
		letter, err := v.api.DeadLetter(v.ctx, d.ID)
		if err != nil {
			return err
		}
		p.DeadLetter = &letter
	}
	commands := []string{"deliveries get " + d.ID.String(), "deliveries attempts " + d.ID.String(), "replay " + d.ID.String()}
	if p.Held() {
		commands = append(commands, resumeCommand)
	}
	return v.show(page{Name: "deliveries-one", Title: v.t("delivery.title", "type", d.EventType), Data: p, Commands: commands})
}

// resumeCommand shows what a held store may send twice, and with --yes resumes it.
const resumeCommand = "resume --after-restore"

// Held reports whether the delivery waits because the store is held after a restore.
func (p deliveryPage) Held() bool {
	return p.Delivery.Waiting != nil && p.Delivery.Waiting.Reason == postrider.WaitHeld
}

// Unresolved reports whether the delivery is a dead letter that waits for a person.
func (p deliveryPage) Unresolved() bool { return p.DeadLetter != nil && p.DeadLetter.Resolution == nil }

// Replayable reports whether the delivery can be replayed, as far as the page knows.
func (p deliveryPage) Replayable() bool {
	discarded := p.DeadLetter != nil && p.DeadLetter.Resolution != nil && *p.DeadLetter.Resolution == postrider.Discarded
	return p.Delivery.Status != postrider.Pending && !discarded && p.Endpoint.Status != postrider.EndpointDeleted
}

// replayDelivery makes a new delivery from the old one, and leads to it.
func replayDelivery(v *visit) error {
	id, err := pathID(v, "delivery", postrider.ParseID[postrider.DeliveryID])
	if err != nil {
		return err
	}
	made, err := v.api.ReplayDelivery(v.ctx, id)
	if problem, ok := errors.AsType[*client.Error](err); ok && problem.Replay != "" {
		return v.done(v.path("deliveries", problem.Replay), flash{Text: v.t("delivery.done.replay_pending"), Warn: true})
	}
	if faults, refused := v.faulty(err); refused {
		return v.done(v.path("deliveries", id), flash{Text: v.t("delivery.refused", "why", anyFault(faults)), Warn: true})
	}
	if err != nil {
		return err
	}
	return v.done(v.path("deliveries", made.ID), flash{
		Text: v.t("delivery.done.replay"), Link: v.path("deliveries", id), LinkText: v.t("delivery.original"),
		Undo: v.path("deliveries", made.ID, "cancel"),
	})
}

// changeDelivery returns the handler of a form that cancels, retries or releases a delivery. If the
// delivery has changed since the page was loaded, its page says what it is now.
func changeDelivery(verb string) func(*visit) error {
	return func(v *visit) error {
		id, err := pathID(v, "delivery", postrider.ParseID[postrider.DeliveryID])
		if err != nil {
			return err
		}
		switch verb {
		case "cancel":
			_, err = v.api.CancelDelivery(v.ctx, id)
		case "retry":
			_, err = v.api.RetryDelivery(v.ctx, id)
		default:
			_, err = v.api.ReleaseDelivery(v.ctx, id)
		}
		if faults, refused := v.faulty(err); refused {
			return v.done(v.path("deliveries", id), flash{Text: v.t("delivery.refused", "why", anyFault(faults)), Warn: true})
		}
		if err != nil {
			return err
		}
		return v.done(v.path("deliveries", id), flash{Text: v.t("delivery.done."+verb, "at", v.now.In(v.zone).Format("15:04:05"))})
	}
}

// discardDelivery resolves a dead letter without a replay.
func discardDelivery(v *visit) error {
	id, err := pathID(v, "delivery", postrider.ParseID[postrider.DeliveryID])
	if err != nil {
		return err
	}
	_, err = v.api.DiscardDeadLetter(v.ctx, id, v.form("reason"))
	if faults, refused := v.faulty(err); refused {
		return v.done(v.path("deliveries", id), flash{Text: v.t("delivery.refused", "why", anyFault(faults)), Warn: true})
	}
	if err != nil {
		return err
	}
	return v.done(v.path("deliveries", id), flash{Text: v.t("delivery.done.discard")})
}

// timingPart is one part of the time of an attempt, as a bar of 1,000 units.
type timingPart struct {
	Name        string // the text timing.NAME
	Took        time.Duration
	From, Width int64
	Series      int // of the colours of charts
}

// timingParts returns the parts of the time of an attempt, in their order.
func timingParts(t *apitypes.Timing) []timingPart {
	total := max(t.DNSUS+t.ConnectUS+t.TLSUS+t.FirstByteUS+t.RestUS, 1)
	var parts []timingPart
	var before int64
	for i, p := range []struct {
		name string
		us   int64
	}{{"dns", t.DNSUS}, {"connect", t.ConnectUS}, {"tls", t.TLSUS}, {"first_byte", t.FirstByteUS}, {"rest", t.RestUS}} {
		from, end := before*1000/total, (before+p.us)*1000/total
		parts = append(parts, timingPart{p.name, time.Duration(p.us) * time.Microsecond, from, end - from, i})
		before += p.us
	}
	return parts
}
