package api_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// leaveOut stores events that no endpoint gets.
func (w *world) leaveOut(of tenant, eventType string, n int) {
	w.Helper()
	account, err := postrider.ParseID[postrider.AccountID](of.account)
	if err != nil {
		w.Fatal(err)
	}
	changes, err := w.store.Changes(w.Context(), 0, 1000)
	if err != nil {
		w.Fatal(err)
	}
	var batch store.Batch
	for range n {
		e := postrider.Event{ID: store.NewID[postrider.EventID](w.ids), Account: account, Type: eventType, Data: []byte(`{}`)}
		e.CreatedAt = e.ID.Time()
		batch = append(batch, store.NewEvent{Event: e})
	}
	batch[0].Event.ID = postrider.TestEventID(batch[0].Event.ID) // of another endpoint: it is not counted
	if _, err := w.store.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{batch}}); err != nil {
		w.Fatal(err)
	}
}

func TestEventsThatAFilterLeftOutAreCounted(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme := w.tenant("acme")
		path, at := "/endpoints/"+acme.endpoint, func(h time.Duration) time.Time { return noon.Add(h * time.Hour) }
		leftOut := func(what string, want apitypes.LeftOut, pairs ...string) {
			t.Helper()
			got := w.stats(path+"/stats", append(pairs, "left_out", "true")...).LeftOut
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		hours := func(from, to time.Duration) []string {
			return []string{"from", at(from).Format(time.RFC3339), "to", at(to).Format(time.RFC3339)}
		}
		time.Sleep(time.Until(at(1)))
		w.leaveOut(acme, "order.created", 4)
		w.leaveOut(acme, "user.created", 3)
		w.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": {}}`)
		time.Sleep(time.Until(at(2)))
		from := apitypes.Time{Time: at(1)}
		leftOut("a whole hour", apitypes.LeftOut{Count: 3, Events: 4, From: from}, hours(1, 2)...)
		leftOut("a type", apitypes.LeftOut{Count: 0, Events: 1, From: from}, append(hours(1, 2), "type", "order.paid")...)
		leftOut("with the present hour", apitypes.LeftOut{Count: 3, Events: 4, From: from, About: true}, hours(1, 3)...)
		leftOut("with the time before the endpoint", apitypes.LeftOut{Count: 3, Events: 5, From: apitypes.Time{Time: at(-1)}, About: true}, hours(-1, 2)...)
		w.want(200, "PATCH "+path, `{"filter": {"data": {"total": [5]}}}`)
		w.leaveOut(acme, "order.created", 2)
		time.Sleep(time.Until(at(3)))
		leftOut("the hour before the change", apitypes.LeftOut{Count: 3, Events: 4, From: from}, hours(1, 2)...)
		leftOut("the hours around the change", apitypes.LeftOut{Count: 4, Events: 5, From: from, About: true}, hours(1, 3)...)
		leftOut("the hour after the change", apitypes.LeftOut{Count: 1, Events: 1, From: apitypes.Time{Time: at(2)}}, hours(2, 3)...)
		if s := w.stats(path + "/stats"); s.LeftOut != nil {
			t.Errorf("not asked for: %+v", s.LeftOut)
		}
		w.want(422, "GET /stats?left_out=true", "")
		w.want(422, "GET /accounts/acme/stats?left_out=true", "")
	})
}

func TestOfManyEventsTheNewestAreCounted(t *testing.T) {
	inWinter(t, func(t *testing.T, noon time.Time) {
		w := newWorld(t)
		acme := w.tenant("acme")
		time.Sleep(time.Until(noon.Add(time.Hour)))
		w.leaveOut(acme, "order.created", 4000)
		time.Sleep(time.Minute)
		w.leaveOut(acme, "order.created", 4000)
		time.Sleep(time.Hour)
		begin := noon.Add(time.Hour)
		got := w.stats("/endpoints/"+acme.endpoint+"/stats", "from", begin.Format(time.RFC3339), "to", begin.Add(time.Hour).Format(time.RFC3339),
			"left_out", "true").LeftOut
		if !got.About || got.Count != got.Events || got.Count < 3999 || got.Count > 5000 || !got.From.After(begin) {
			t.Errorf("%+v, want about 4000 to 5000 events from a later time than %s", got, begin)
		}
	})
}
