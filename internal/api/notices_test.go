package api_test

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// TestNoticesOfAnotherAccountAreNotListed checks that a key of an account gets only the notices of
// its account. Other keys also get the notices about the server.
func TestNoticesOfAnotherAccountAreNotListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other := w.tenant("acme"), w.tenant("other")
	ids := store.NewIDs(time.Now, nil)
	put := func(n postrider.Notice) string {
		n.ID = store.NewID[postrider.NoticeID](ids)
		n.Kind, n.Occurrence = postrider.NoticeFailing, n.ID.String()
		if _, err := w.store.PutNotices(t.Context(), []postrider.Notice{n}); err != nil {
			t.Fatal(err)
		}
		return n.ID.String()
	}
	own := put(postrider.Notice{Account: parsed(t, acme.account, postrider.ParseID[postrider.AccountID]), Object: acme.endpoint})
	foreign := put(postrider.Notice{Account: parsed(t, other.account, postrider.ParseID[postrider.AccountID]), Object: other.endpoint})
	server := put(postrider.Notice{Object: "forget events"})

	bound, operator := w.bound(acme), w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	for _, tt := range []struct {
		key, query string
		want       []string
	}{
		{bound, "", []string{own}},
		{bound, "?account=" + acme.account, []string{own}},
		{bound, "?object=" + other.endpoint, nil},
		{operator, "", []string{server, foreign, own}},
		{operator, "?account=" + other.account, []string{foreign}},
		{operator, "?kind=endpoint.failing&object=" + acme.endpoint, []string{own}},
		{operator, "?kind=endpoint.disabled", nil},
		{operator, "?to=2026-01-01T00:00:00Z", nil},
	} {
		got := w.do(tt.key, "GET /notices"+tt.query, "")
		var listed []string
		items, _ := got.body["data"].([]any)
		for _, item := range items {
			notice, _ := item.(map[string]any)
			listed = append(listed, notice["id"].(string))
		}
		if got.status != 200 || !slices.Equal(listed, tt.want) {
			t.Errorf("GET /notices%s = %d with %v, want %v", tt.query, got.status, listed, tt.want)
		}
	}
	if got := w.do(bound, "GET /notices?account="+other.account, ""); got.status != 422 {
		t.Errorf("notices of another account = %d %s, want 422", got.status, got.text)
	}
}
