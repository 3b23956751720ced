package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web"
)

// Events of before the endpoint are counted first, and then sent at a pace.
func TestACustomerLetsASubscriptionStartInThePast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for range 3 {
		w.publish("order.created", "1")
	}
	w.publish("user.created", "1")
	e := w.endpoint(apitypes.EndpointCreate{EventTypes: []string{"order.*"}})
	page := "/portal/endpoints/" + e.ID.String()
	path := page + "/missed"
	w.as("customer", "GET "+page+"/start", nil).says(t, path+"?what=past")
	const choice = "?what=past&from=2026-01-31T09:30&pace=50"
	w.as("customer", "GET "+path+choice, nil).says(t,
		"3 events have no delivery to this endpoint.", "Send them")
	w.as("operator", "GET /dashboard/endpoints/"+e.ID.String()+"/missed"+choice, nil).says(t,
		"endpoints backfill --dry-run "+e.ID.String()+" --per-second 50 --start-from 2026-01-31T09:30:00Z")
	w.as("customer", "GET "+path+choice, nil, german).says(t, "3 Ereignisse haben keine Zustellung an diesen Endpunkt.")
	w.as("customer", "GET "+path+"?what=missed&from=2026-01-31T09:30", nil).says(t, "Nothing was missed since then")
	if got := w.as("customer", "GET "+path+"?what=past&from=2999-01-01T00:00", nil); got.status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.html, "Choose a time that has passed.") {
		t.Errorf("a time to come = %d\n%s", got.status, got.html)
	}

	form := url.Values{"what": {"past"}, "from": {"2026-01-31T09:30"}, "pace": {"50"}}
	done := w.as("customer", "POST "+path, form)
	jobs, err := w.admin.Replays(t.Context(), client.ReplayFilter{})
	if err != nil || len(jobs.Data) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs.Data), err)
	}
	job := jobs.Data[0]
	if done.header.Get("Location") != "/portal/replays/"+job.ID.String() || job.Action != postrider.ActionBackfill ||
		job.Expected.Matches != 3 || job.PerSecond != 50 {
		t.Errorf("the job is %+v, the form leads to %s", job, done.header.Get("Location"))
	}
	w.as("customer", "GET /portal/replays/"+job.ID.String(), nil).says(t, "Start in the past", "Sent for the first time")
	w.as("customer", "GET /portal/replays", nil).says(t, "Events without a delivery")
	w.as("customer", "POST "+path, form).says(t, "Old events are already being sent to this endpoint.")
}
