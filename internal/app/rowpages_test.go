package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/testkit"
)

// TestAPersonFindsARowAndRetriesItForAnotherAccount looks for a row that was rejected on the pages, and retries it there
// without a filter. Then it looks for one that waits.
func TestAPersonFindsARowAndRetriesItForAnotherAccount(t *testing.T) {
	t.Parallel()
	s, receiver := newShop(t), testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := start(t, t.TempDir())
	r.subscribe(t, receiver.URL)
	source, err := r.api.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: s.url}, false)
	s.ok(err)
	key, err := os.ReadFile(r.keyFile)
	s.ok(err)
	operator := newBrowser(t, r)
	operator.open("/login", url.Values{"key": {strings.TrimSpace(string(key))}})

	s.exec(`select postrider.publish(account => 'nobody', type => 'order.created', data => '{}')`)
	page := "/dashboard/sources/" + source.ID.String()
	form := regexp.MustCompile(`(?s)<summary>Retry with another account or type</summary><form[^>]* action="` + page + `/retry">` +
		`<input type="hidden" name="row" value="(obx_\w+)">.*name="new_account".*name="new_type"`)
	var row string
	eventually(t, "the page of the source has a form for the row", func() bool {
		_, _, text := operator.open(page, nil)
		if found := form.FindStringSubmatch(text); found != nil {
			row = found[1]
		}
		return row != ""
	})
	says := func(row, want string) {
		t.Helper()
		status, at, text := operator.open("/dashboard/events/"+row, nil)
		if status != http.StatusNotFound || at != "/dashboard/search" || !strings.Contains(text, want) {
			t.Errorf("the page of the row: %d at %s, want %q", status, at, want)
		}
	}
	says(row, "The event is not published: the row was rejected in the source shop: not_found")
	retry := url.Values{"row": {row}, "new_account": {"acme"}, "new_type": {"order.late"}}
	status, at, text := operator.open(page+"/retry", retry)
	if status != http.StatusOK || at != page || !strings.Contains(text, "One row waits to be published again.") {
		t.Fatalf("the retry: %d at %s: %s", status, at, text)
	}
	eventually(t, "the webhook arrives", func() bool { return len(receiver.Requests()) == 1 })
	if body := string(receiver.Requests()[0].Body); !strings.Contains(body, "order.late") {
		t.Errorf("the webhook is %s", body)
	}
	status, at, _ = operator.open("/dashboard/events/"+row, nil)
	if status != http.StatusOK || !strings.HasPrefix(at, "/dashboard/events/evt_") {
		t.Errorf("the page of the published row: %d at %s", status, at)
	}

	_, err = r.api.PauseSource(t.Context(), "shop")
	s.ok(err)
	s.exec(fmt.Sprintf(order, 1))
	var waiting string
	s.with(func(conn *pgx.Conn) error {
		return conn.QueryRow(t.Context(), "select postrider.row_id(id) from postrider.outbox").Scan(&waiting)
	})
	says(waiting, "The event is not published: the row waits in the outbox of the source shop")
}
