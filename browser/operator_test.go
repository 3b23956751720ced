package browser_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// TestOperatorReplaysAFailedDelivery goes the way of a person who was told that
// an order did not arrive: from the first page to the delivery, to its cause, to
// a replay that arrives.
func TestOperatorReplaysAFailedDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard")
	tb.click("Deliveries")
	tb.find("heading", "Deliveries")
	tb.choose("Status", "Dead letter")
	tb.click("Filter")
	tb.find("link", "Clear") // the list is the filtered one
	tb.click("order.paid")
	tb.sees("Attempt 2", "500", "database is locked", "A replay sends the event again")
	failed := tb.path()

	w.receiver.tell("/globex/hooks", nil) // mended
	tb.click("Replay")
	tb.sees("This is the replay", "Delivered")
	if tb.path() == failed {
		t.Error("the replay is shown as the delivery that it replays")
	}
	tb.open(failed)
	tb.seesNo("It waits until a person")
}

// TestOperatorHealsAThousandDeadLetters replays what an endpoint has missed that
// works again: from the dead letters by cause to the last of them delivered, in
// less than a minute.
func TestOperatorHealsAThousandDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const letters = 1000
	for range letters / 100 {
		events := make([]object, 100)
		for i := range events {
			events[i] = object{"account": "globex", "type": "order.created", "data": object{"n": i}}
		}
		w.call(t, "POST /events/batch", object{"events": events})
	}
	within(t, time.Minute, func() string {
		for _, group := range w.call(t, "GET /dead-letters/groups?endpoint="+w.names["failing"], nil).items() {
			if count, _ := group["count"].(float64); count >= letters {
				return ""
			}
		}
		return "not all deliveries have died"
	})
	w.receiver.tell("/globex/hooks", nil)
	came := len(w.receiver.requests("/globex/hooks"))

	began := time.Now()
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/dead-letters?endpoint=" + w.names["failing"])
	tb.click("Replay")
	tb.fill("Pace, in deliveries per second", "200")
	tb.click("Start the replay")
	tb.inDialog("Start the replay")
	tb.sees("The replay has started")
	within(t, time.Minute, func() string {
		if now := len(w.receiver.requests("/globex/hooks")); now < came+letters {
			return "not all arrived"
		}
		return ""
	})
	tb.sees("Done")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("healing %d dead letters took %v", letters, took)
	}
	tb.open("/dashboard/dead-letters?endpoint=" + w.names["failing"])
	tb.sees("Nothing matches")
}

// TestKeyboardAlone finds and replays a failed delivery without a mouse, and sees
// all the way where the focus is.
func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.tell("/globex/hooks", nil)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard")
	tb.rest()
	tb.press("?")
	tb.sees("Next or previous row")
	tb.press(kb.Escape)
	tb.seesNo("Next or previous row")

	tb.press("/")
	if got := tb.focused(); got.role != "searchbox" {
		t.Errorf("/ leads to %v", got)
	}
	tb.press("order.paid", kb.Enter)
	tb.find("heading", "Search")
	tb.tabTo("Deliveries") // first in the menu
	tb.press(kb.Enter)
	tb.find("heading", "Deliveries")
	tb.press("j", "j", "k")
	row := tb.focused()
	if row.role != "link" || !strings.Contains(row.name, ".") {
		t.Errorf("j and k lead to %v", row)
	}
	tb.open("/dashboard/deliveries?status=dead")
	tb.rest()
	tb.press("j", kb.Enter)
	tb.sees("Attempt 2 failed")
	tb.tabTo("Replay")
	tb.press(kb.Enter)
	tb.sees("This is the replay", "Delivered")
	tb.press("g", "e")
	tb.find("heading", "Endpoints")
}

// TestWithoutScripts reads, filters, creates and replays with JavaScript off.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receiver.tell("/globex/hooks", nil)
	tb := w.visitors[operator].newTab(t)
	tb.withoutScripts()
	tb.open("/dashboard")
	tb.click("Deliveries")
	tb.choose("Status", "Dead letter")
	tb.click("Filter")
	tb.find("link", "Clear")
	tb.click("order.paid")
	tb.sees("Attempt 2")
	tb.click("Replay")
	tb.sees("This is the replay")

	tb.click("Accounts")
	tb.click("Add account")
	tb.fill("Name", "Scriptless")
	tb.click("Add account")
	tb.sees("Scriptless")

	tb.click("Endpoints")
	tb.find("button", "Filter") // the page of the account has a button like the next one
	tb.click("Add endpoint")
	tb.fill("Account", "acme")
	tb.fill("URL", "not a URL")
	tb.fill("Event types event_types", "order.*")
	tb.click("Add endpoint")
	tb.sees("Nothing was saved yet")
	tb.fill("URL", w.receiver.url+"/scriptless")
	tb.click("Add endpoint")
	tb.sees("/scriptless", "The endpoint was created")
	tb.seen.expect("422")
}

// TestStalePageSaysSo acts on a page about what is gone meanwhile: nothing
// happens, and the page says why. With scripts the page would be renewed before.
func TestStalePageSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.withoutScripts()
	tb.open("/dashboard/endpoints/" + w.names["healthy"])
	w.call(t, "DELETE /endpoints/"+w.names["healthy"], nil)
	tb.click("Pause")
	tb.sees("deleted")
	tb.open("/dashboard/deliveries/" + w.names["dead"])
	w.call(t, "POST /dead-letters/"+w.names["dead"]+"/discard", object{"reason": "known"})
	tb.click("Replay")
	tb.sees("Nothing was done")
	tb.seen.expect("409", "404")
}

// TestSessionEndsEverywhere revokes a session in another window: the page that
// is open there leads to the login.
func TestSessionEndsEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/sessions")
	tb.find("heading", "Sessions")
	for _, session := range w.call(t, "GET /sessions", nil).items() {
		if session["kind"] == "operator" {
			w.call(t, "DELETE /sessions/"+session["id"].(string), nil)
		}
	}
	tb.click("Endpoints")
	tb.find("textbox", "API key")
	if status := tb.open("/dashboard/endpoints"); status != http.StatusOK || !strings.HasPrefix(tb.path(), "/login") {
		t.Errorf("without a session the answer is %d at %s", status, tb.path())
	}
}
