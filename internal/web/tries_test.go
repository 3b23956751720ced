package web_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

func TestASubscriptionIsTriedAndSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{EventTypes: []string{"order.*", "invoice.*"}})
	w.publish("order.paid", `{"total": 99}`)
	w.publish("order.paid", `{"total": 100}`)
	w.publish("user.created", `{}`)
	path := "/portal/endpoints/" + e.ID.String()
	shown := w.see("customer", path+"/try")
	shown.says(t, "Of 3 events, 2 would be sent.", "The endpoint has deliveries of 2 of them. New: 0. No longer: 0.",
		"The event type is not selected.", "2 deliveries wait. They are not touched.")
	form := shown.fields()
	form.Set("event_types", "*")
	form.Set("filter", `{"data": {"total": [{"numeric": [">=", 100]}]}}`)
	tried := w.as("customer", "POST "+path+"/try", form)
	tried.says(t, "Of 3 events, 1 would be sent.", "New: 0. No longer: 1.", "<code>data.total</code> is <code>99</code>",
		"<code>data.total</code> is missing")
	checkHTML(t, tried)
	form.Set("was.event_types", "order.*\r\ninvoice.*") // as browsers send it
	form.Set("type", "order.paid")
	form.Set("last", "1000")
	w.as("customer", "POST "+path+"/try", form).says(t, "Of 2 events, 1 would be sent.", `value="order.paid"`, `value="1000" selected`)
	if stored, err := w.admin.Endpoint(t.Context(), e.ID); err != nil || stored.Revision != e.Revision {
		t.Fatalf("a try has changed the endpoint: revision %d, %v", stored.Revision, err)
	}

	form.Set("event_types", "order.*\r\ninvoice.*")
	form.Set("save", "yes") // the button leads to the form of all options
	w.submit("customer", path+"/options", form).says(t, "One option is changed.")
	stored, err := w.admin.Endpoint(t.Context(), e.ID)
	if err != nil || len(stored.Filter.Value()) == 0 {
		t.Errorf("the endpoint has the filter %s, %v", stored.Filter.Value(), err)
	}
}

func TestARefusedSubscriptionIsNotTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/portal/endpoints/" + e.ID.String() + "/try"
	for field, tt := range map[string]struct{ typed, says string }{
		"filter":      {`{"internal": {"a": ["1"]}}`, `id="fault-filter"`},
		"changed":     {"status", `id="fault-changed"`},
		"event_types": {"", `id="fault-event_types"`},
		"type":        {"order.*", "Nothing was compared."},
	} {
		form := w.see("customer", path).fields()
		form.Set(field, tt.typed)
		got := w.as("customer", "POST "+path, form)
		if got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s = %q: %d", field, tt.typed, got.status)
		}
		got.says(t, tt.says, "Nothing was saved yet.", "Nothing was compared.")
		checkHTML(t, got)
	}
	form := w.see("customer", path).fields()
	form.Set("last", "7")
	if got := w.as("customer", "POST "+path, form); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a number of events that the page does not offer: %d", got.status)
	}
}

// compares runs the jobs that compare archived events, until the function that it returns is called.
func (w *world) compares() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.api.CompareArchive(ctx) })
	return func() { cancel(); running.Wait() }
}

func TestASubscriptionIsTriedOnTheArchive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, web.Options{})
		e := w.endpoint(apitypes.EndpointCreate{EventTypes: []string{"order.*"}})
		other := w.endpoint(apitypes.EndpointCreate{EventTypes: []string{"*"}})
		w.publish("order.paid", `{"total": 99}`)
		w.publish("user.created", `{"total": 1}`)
		for more := true; more; {
			var err error
			if more, err = w.archive.Archive(t.Context(), store.OldEvents, time.Now().Add(48*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		path := "/dashboard/endpoints/" + e.ID.String() + "/try"
		form := w.see("operator", path).fields()
		form.Set("event_types", "*")
		form.Set("filter", `{"data": {"total": [{"numeric": ["<", 50]}]}}`)
		form.Set("last", "archive")
		started := w.as("operator", "POST "+path, form)
		started.says(t, "Running", "0 of one part of the archive is read.", `data-poll`, "Cancel", `value="archive" selected`,
			"archive what-if start")
		checkHTML(t, started)
		form = w.see("operator", "/dashboard/endpoints/"+other.ID.String()+"/try").fields()
		form.Set("last", "archive")
		refused := w.as("operator", "POST /dashboard/endpoints/"+other.ID.String()+"/try", form)
		refused.says(t, "Archived events of the account are already being compared.", "Nothing was compared.")
		defer w.compares()()
		time.Sleep(time.Minute)
		ended := w.see("operator", path)
		ended.says(t, "Done", "1 of one part of the archive is read.", "Of 2 events, 1 would be sent.",
			"The present settings select one of them. New: 1. No longer: 1.", "is not selected now", "Delete the result")
		checkHTML(t, ended)
		w.submit("operator", path+"/cancel", nil).says(t, "The comparison with the archive is deleted.")
		if got := w.see("operator", path); strings.Contains(got.html, "archive-job") || !strings.Contains(got.html, `value="archive"`) {
			t.Error("the page still has the job, or offers no other")
		}
		for _, person := range []string{"customer", "viewer"} {
			base := map[string]string{"customer": "/portal", "viewer": "/dashboard"}[person]
			if got := w.see(person, base+"/endpoints/"+e.ID.String()+"/try"); strings.Contains(got.html, `value="archive"`) {
				t.Errorf("the page of a %s offers the archive", person)
			}
		}
		form.Set("last", "archive")
		if got := w.as("customer", "POST /portal/endpoints/"+e.ID.String()+"/try", form); got.status != http.StatusUnprocessableEntity {
			t.Errorf("a customer compares the archive: %d", got.status)
		}
	})
}

func TestWithoutAnArchiveItIsNotOffered(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, web.Options{}, api.Options{}, false)
	e := w.endpoint(apitypes.EndpointCreate{})
	if got := w.see("operator", "/dashboard/endpoints/"+e.ID.String()+"/try"); strings.Contains(got.html, `value="archive"`) {
		t.Error("the page offers an archive that there is not")
	}
}
