package app_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// notices waits until there are notices of a kind, and returns them.
func (r *running) notices(t *testing.T, kind postrider.NoticeKind) []apitypes.Notice {
	t.Helper()
	var found []apitypes.Notice
	eventually(t, "there is a notice of the kind "+string(kind), func() bool {
		page, err := r.api.Notices(t.Context(), client.NoticeFilter{Kind: kind})
		found = page.Data
		return err == nil && len(found) > 0
	})
	return found
}

// TestPeopleAreToldOfUsedQuotas publishes more events than an account may publish, and creates one
// endpoint more than it may have.
func TestPeopleAreToldOfUsedQuotas(t *testing.T) {
	t.Parallel()
	r := startWith(t, t.TempDir(), map[string]string{"POSTRIDER_QUOTA_BYTES": "10", "POSTRIDER_QUOTA_ENDPOINTS": "1"})
	e := r.subscribe(t, "http://127.0.0.1:1/")
	for range 3 {
		_, err := r.api.Publish(t.Context(), apitypes.EventCreate{
			Account: "acme", Type: "order.created",
			Data: json.RawMessage(`"too many bytes"`),
		})
		if err == nil {
			t.Fatal("a publish above the quota was accepted")
		}
	}
	_, err := r.api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{Account: "acme", URL: e.URL, EventTypes: []string{"*"}})
	if err == nil {
		t.Fatal("an endpoint above the quota was created")
	}
	var got []string
	for _, n := range r.notices(t, postrider.NoticeQuota) {
		if n.Account == nil || *n.Account != e.Account || n.Object != e.Account.String() {
			t.Errorf("the notice is %+v, want one of the account", n)
		}
		got = append(got, n.Details["quota"]+" "+n.Details["limit"])
	}
	slices.Sort(got)
	if want := []string{"bytes_per_day 10", "endpoints 1"}; !slices.Equal(got, want) {
		t.Errorf("the notices are of %q, want %q", got, want)
	}
}
