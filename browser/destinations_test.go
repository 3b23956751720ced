package browser_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestAnAddressIsConfirmedTestedAndUnsubscribed adds an email address of an account as its
// operator. The reader confirms by the link of the email that arrives, without JavaScript; the
// operator's page says that it works, and sends a test. The reader's mail program unsubscribes
// by one click, and the pages of the operator and of the customer say so.
func TestAnAddressIsConfirmedTestedAndUnsubscribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const address = "ann@initech.example"
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard")
	tb.find("heading", "Overview")
	tb.press("g", "m")
	tb.find("heading", "Where notices are sent")
	tb.sees("Notices are sent nowhere yet")
	tb.click("Add destination")
	tb.find("heading", "Add a notice destination")
	tb.fill("Address", address)
	tb.fill("Account", "initech")
	tb.click("Only these kinds")
	tb.click("An endpoint was disabled endpoint.disabled")
	tb.click("Add destination")
	tb.sees("A message with a link goes to "+address, "Waits for confirmation")
	at := tb.path()

	asked := w.mail.arrived(t, address, 1).link(t, "/notices/confirm/")
	reader := newVisitor(t, w.url).newTab(t)
	reader.withoutScripts()
	reader.open(asked)
	reader.sees("Confirm this address", address)
	tb.open(at)
	tb.sees("Waits for confirmation") // the reader has only looked
	reader.click("Confirm")
	reader.sees(address + " is confirmed")

	tb.open(at)
	tb.sees("Works", "The destination gets notices")
	tb.click("Send a test")
	tb.sees("A test message is on its way")
	test := w.mail.arrived(t, address, 2)
	if got := test.Header.Get("List-Unsubscribe-Post"); got != "List-Unsubscribe=One-Click" {
		t.Errorf("List-Unsubscribe-Post is %q", got)
	}
	end := strings.Trim(test.Header.Get("List-Unsubscribe"), "<>")
	reader.open(end)
	reader.sees("Unsubscribe", "about all messages")
	for range 2 {
		press(t, end)
	}
	tb.open(at)
	tb.sees("Unsubscribed", "Its reader wants no messages", "All kinds")
	if tb.has("button", "Send a test") {
		t.Error("a reader who wants no messages can be sent a test")
	}
	id := at[strings.LastIndex(at, "/")+1:]
	if entries := w.call(t, "GET /audit?action=unsubscribe-notice-destination&object="+id, nil).items(); len(entries) != 1 {
		t.Errorf("the audit log has %d entries of one unsubscription", len(entries))
	}

	// The customer sees the same, and asks again, without JavaScript.
	w.enter(t, "initech", customer)
	theirs := w.visitors[customer].newTab(t)
	theirs.withoutScripts()
	theirs.open("/portal/notice-destinations")
	theirs.sees(address, "Unsubscribed")
	theirs.click(address)
	theirs.click("Ask for confirmation again")
	theirs.sees("The message with the link is on its way")
	again := w.mail.arrived(t, address, 3).link(t, "/notices/confirm/")
	reader.open(again)
	reader.click("Confirm")
	reader.sees(address + " is confirmed")
	theirs.open("/portal/notice-destinations/" + id)
	theirs.sees("Works", "The destination gets notices")
	theirs.click("Delete")
	theirs.sees("The destination is deleted")
	if status := tb.open(at); status != http.StatusNotFound {
		t.Errorf("the deleted destination = %d", status)
	}
	tb.seen.expect("404")
}
