package browser_test

import "testing"

// TestACustomerTriesAFilter changes the filter of an endpoint, with and without scripts, sees which of
// the account's events it selects, and saves it.
func TestACustomerTriesAFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, scripts := range []bool{true, false} {
		tb := w.visitors[customer].newTab(t)
		if !scripts {
			tb.withoutScripts()
		}
		tb.open("/portal/endpoints/" + w.names["failing"] + "/try")
		tb.sees("Nothing is changed until you save.", "would be sent")
		tb.fill("Filter", `{"data": {"customer": {"id": ["cus_4"]}, "nothing": ["x"]}}`)
		tb.click("Compare")
		tb.sees("events, 0 would be sent.", "data.nothing is missing")
		tb.fill("Filter", []string{`{"data": {"customer": {"id": ["cus_4"]}}}`, `{"data": {"customer": {"id": ["cus_4", "cus_1"]}}}`}[i])
		tb.click("Compare")
		tb.sees("would be sent", "data.customer.id is")
		tb.click("Save the changes")
		tb.sees("One option is changed.")
	}
}

// TestAnOperatorTriesAFilterOnTheArchive begins a job, and sees it end without a reload. The archive has
// nothing yet.
func TestAnOperatorTriesAFilterOnTheArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/endpoints/" + w.names["failing"] + "/try")
	tb.choose("Events to compare", "all events in the archive")
	tb.click("Compare")
	tb.sees("In the archive", "Done", "0 of 0 parts of the archive are read.")
	tb.click("Delete the result")
	tb.sees("The comparison with the archive is deleted.")
}
