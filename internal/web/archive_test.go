package web_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// archiveStates are the states of the pages of the archive.
var archiveStates = []state{
	{name: "an empty archive", path: "/archive", people: "operator", want: []string{"Nothing is archived yet"}},
	{name: "archive", path: "/archive", people: "operator", prepare: (*world).hostileArchive, want: []string{"Attempts", "0001-"}},
	{
		name: "filtered archive", path: "/archive?kind=events&to=2020-01-01", people: "operator", prepare: (*world).hostileArchive,
		want: []string{"Nothing matches"},
	},
	{
		name: "a part of the archive", path: "/archive/parts/{part}", people: "operator", prepare: (*world).hostileArchive,
		want: []string{"is what was written", "SHA-256"},
	},
	{
		name: "a comparison with the archive", path: "/endpoints/{endpoint}/try", people: "operator", prepare: (*world).comparedArchive,
		want: []string{"In the archive", "0 of one part of the archive is read.", "Cancel"},
	},
	{name: "no restored records", path: "/archive/records", people: "operator", want: []string{"No restored records", "Copy records back"}},
	{
		name: "restored records", path: "/archive/records?account=acme", people: "operator", prepare: (*world).hostileArchive,
		want: []string{"{&#34;text&#34;: &#34;&lt;script&gt;", "X-Bad: ", "Headers and bodies 1"},
	},
}

// hostileArchive archives and restores what hostileEndpoint has published.
func (w *world) hostileArchive(path string) string {
	w.Helper()
	path = w.hostileEndpoint(path)
	for _, kind := range []store.Kind{store.OldBodies, store.OldAttempts, store.OldEvents} {
		for more := true; more; {
			var err error
			if more, err = w.archive.Archive(w.Context(), kind, time.Now().Add(48*time.Hour)); err != nil {
				w.Fatal(err)
			}
		}
	}
	if _, err := w.admin.RestoreArchive(w.Context(), apitypes.ArchiveRestore{}); err != nil {
		w.Fatal(err)
	}
	return strings.ReplaceAll(path, "{part}", w.part().ID)
}

// comparedArchive begins to compare what hostileArchive has archived.
func (w *world) comparedArchive(path string) string {
	w.Helper()
	path = w.hostileArchive(path)
	found, err := w.admin.Endpoints(w.Context(), client.EndpointFilter{})
	if err == nil {
		_, err = w.admin.CompareArchive(w.Context(), found.Data[0].ID, apitypes.ArchiveWhatIf{})
	}
	if err != nil {
		w.Fatal(err)
	}
	return path
}

// part returns the part with the events.
func (w *world) part() apitypes.ArchivePart {
	w.Helper()
	parts, err := w.admin.ArchiveParts(w.Context(), client.ArchivePartFilter{Kind: "events"})
	if err != nil || len(parts.Data) != 1 {
		w.Fatalf("the parts are %+v, %v; want one", parts.Data, err)
	}
	return parts.Data[0]
}

func TestRecordsAreRestoredByAForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	event := w.hostileArchive("{event}")
	got := w.as("operator", "POST /dashboard/archive/restores", url.Values{"event": {event}})
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/dashboard/archive/records?event="+event {
		t.Fatalf("the form = %d, to %s", got.status, got.header.Get("Location"))
	}
	says(t, w.as("operator", "GET /dashboard/archive/records?event="+event, nil, got.cookie...), "3 records were copied back", event)
	for field, value := range map[string]string{"event": "evt_x", "from": "yesterday"} {
		refused := w.as("operator", "POST /dashboard/archive/restores", url.Values{field: {value}})
		if refused.status != http.StatusUnprocessableEntity || !strings.Contains(refused.html, `value="`+value+`"`) ||
			!strings.Contains(refused.html, "fault-"+field) {
			t.Errorf("a form with %s = %s: %d\n%s", field, value, refused.status, refused.html)
		}
	}
	if got := w.as("operator", "GET /dashboard/archive/records?event=x", nil); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a filter by no id = %d", got.status)
	}
}

func TestAPartThatIsDamagedIsSaidToBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.hostileArchive("")
	part := w.part()
	if err := os.Truncate(filepath.Join(w.folder, part.Object), 10); err != nil {
		t.Fatal(err)
	}
	says(t, w.see("operator", "/dashboard/archive/parts/"+part.ID), "The object is damaged", "10 bytes")
	if got := w.as("operator", "GET /dashboard/archive/parts/x", nil); got.status != http.StatusNotFound {
		t.Errorf("a part that does not exist = %d", got.status)
	}
	for _, person := range []string{"viewer", "customer"} {
		if got := w.as(person, "GET /dashboard/archive", nil); got.status == http.StatusOK {
			t.Errorf("%s sees the archive", person)
		}
	}
}

func TestWithoutAnArchiveItsPageSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, web.Options{}, api.Options{}, false)
	says(t, w.see("operator", "/dashboard/archive"), "This server has no archive", "--archive")
	got := w.as("operator", "POST /dashboard/archive/restores", url.Values{})
	if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, "This server has no archive") {
		t.Errorf("a restore without an archive = %d\n%s", got.status, got.html)
	}
}
