package storetest

import (
	"bytes"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var inspections = []verb{
	{"PutInspection", []sentence{
		{"the request comes back as it was", putInspection},
		{"it deletes those of its endpoint that are older than the newest hundred", putInspectionTrims},
		{"repeated with the same id, it stores nothing more", putInspectionAgain},
	}},
	{"Inspections", []sentence{
		{"they are listed newest first, page by page, without their bodies", inspectionsPages},
		{"requests of another endpoint are not found, by ID either", inspectionsOfAnother},
		{"requests that are older than a day are not listed", inspectionsOld},
		{"a cursor that no page gave is an InvalidError", inspectionsCursor},
	}},
	{"ForgetInspections", []sentence{
		{"it deletes up to limit requests that are older than a day and returns how many", forgetInspections},
	}},
}

// inspection returns a request that the endpoint received the given time ago.
func (w *world) inspection(endpoint postrider.EndpointID, ago time.Duration) postrider.Inspection {
	id := newID[postrider.InspectionID](w)
	if ago > 0 {
		id = postrider.MakeID[postrider.InspectionID](w.now().Add(-ago), [10]byte(id[6:]))
	}
	return postrider.Inspection{
		ID: id, At: id.Time(), Endpoint: endpoint, Delivery: newID[postrider.DeliveryID](w), Event: newID[postrider.EventID](w),
		EventType: "order.created", Attempt: 2, Body: []byte(`{"order":"\u0000"}`), BodyBytes: 300_000,
		Header: []postrider.HeaderField{{Name: "X-B", Value: "ü\""}, {Name: "X-A", Value: postrider.Masked}},
		Verdicts: []postrider.Verdict{
			{Scheme: postrider.SchemeStandard, Header: "Webhook-Signature", Secret: newID[postrider.SecretID](w)},
			{Scheme: postrider.SchemeSlack, Header: "X-Slack-Signature", Error: "mismatch"},
		},
	}
}

// inspected returns the ids of an endpoint's stored requests.
func (w *world) inspected(endpoint postrider.EndpointID) (ids []postrider.InspectionID) {
	w.Helper()
	page, err := w.Inspections(w.Context(), store.InspectionQuery{Endpoint: endpoint, Paging: store.Paging{Limit: store.MaxLimit}})
	w.ok(err)
	for _, i := range page.Items {
		ids = append(ids, i.ID)
	}
	return ids
}

func (w *world) putInspection(all ...postrider.Inspection) {
	w.Helper()
	for _, i := range all {
		w.ok(w.PutInspection(w.Context(), i))
	}
}

func putInspection(w *world) {
	e := newID[postrider.EndpointID](w)
	want, large := w.inspection(e, 0), w.inspection(e, 0)
	large.Body = bytes.Repeat([]byte("x"), postrider.MaxInspectionBody)
	w.putInspection(want, large)
	for _, want := range []postrider.Inspection{want, large} {
		page, err := w.Inspections(w.Context(), store.InspectionQuery{Endpoint: e, ID: want.ID})
		w.ok(err)
		w.same("the request", page.Items, []postrider.Inspection{want})
	}
}

func putInspectionTrims(w *world) {
	e, other := newID[postrider.EndpointID](w), w.inspection(newID[postrider.EndpointID](w), 0)
	w.putInspection(other)
	var want []postrider.InspectionID
	for n := range postrider.InspectionsKept + 3 {
		i := w.inspection(e, 0)
		w.putInspection(i)
		if n >= 3 {
			want = append([]postrider.InspectionID{i.ID}, want...)
		}
	}
	w.same("the requests that are kept", w.inspected(e), want)
	w.same("another endpoint's", w.inspected(other.Endpoint), []postrider.InspectionID{other.ID})
}

func putInspectionAgain(w *world) {
	i := w.inspection(newID[postrider.EndpointID](w), 0)
	w.putInspection(i, i)
	w.same("the requests", w.inspected(i.Endpoint), []postrider.InspectionID{i.ID})
}

func inspectionsPages(w *world) {
	e := newID[postrider.EndpointID](w)
	var want []postrider.Inspection
	for range 3 {
		i := w.inspection(e, 0)
		w.putInspection(i)
		i.Body = nil
		want = append([]postrider.Inspection{i}, want...)
	}
	q := store.InspectionQuery{Endpoint: e, Paging: store.Paging{Limit: 2}}
	page, err := w.Inspections(w.Context(), q)
	w.ok(err)
	w.same("the first page", page.Items, want[:2])
	q.Cursor = page.Next
	page, err = w.Inspections(w.Context(), q)
	w.ok(err)
	w.same("the second page", page.Items, want[2:])
	w.same("the cursor of the last page", page.Next, "")
}

func inspectionsOfAnother(w *world) {
	i := w.inspection(newID[postrider.EndpointID](w), 0)
	w.putInspection(i)
	page, err := w.Inspections(w.Context(), store.InspectionQuery{Endpoint: newID[postrider.EndpointID](w), ID: i.ID})
	w.ok(err)
	w.same("what another endpoint has", len(page.Items), 0)
}

func inspectionsOld(w *world) {
	e := newID[postrider.EndpointID](w)
	old, young := w.inspection(e, postrider.InspectionKeptFor+time.Minute), w.inspection(e, postrider.InspectionKeptFor-time.Minute)
	w.putInspection(old, young)
	w.same("the requests", w.inspected(e), []postrider.InspectionID{young.ID})
}

func inspectionsCursor(w *world) {
	_, err := w.Inspections(w.Context(), store.InspectionQuery{Endpoint: newID[postrider.EndpointID](w), Paging: store.Paging{Cursor: "!"}})
	w.refuses(err, postrider.ErrInvalid)
}

func forgetInspections(w *world) {
	e := newID[postrider.EndpointID](w)
	for range 3 {
		w.putInspection(w.inspection(e, postrider.InspectionKeptFor+time.Minute))
	}
	young := w.inspection(e, 0)
	w.putInspection(young)
	for _, want := range []int{2, 1, 0} {
		n, err := w.ForgetInspections(w.Context(), 2)
		w.ok(err)
		w.same("how many were deleted", n, want)
	}
	w.same("the requests", w.inspected(e), []postrider.InspectionID{young.ID})
}
