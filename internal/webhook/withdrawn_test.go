package webhook_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
)

// currentFor returns options with a Current that is true for the first n requests.
func currentFor(n int64, asked *atomic.Int64) webhook.Options {
	return webhook.Options{Current: func(*postrider.Claimed, *store.EndpointSnapshot) bool { return asked.Add(1) <= n }}
}

// TestPromise7NothingIsSentAfterAChange changes the endpoint before the first request, between a
// token and its request, and between a request and its redirect.
func TestPromise7NothingIsSentAfterAChange(t *testing.T) {
	t.Parallel()
	there := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	from := testkit.NewReceiver(t, redirectTo(http.StatusTemporaryRedirect, there.URL+"/there"))
	tokenServer := testkit.NewReceiver(t, tokens(time.Hour))
	for _, tt := range []struct {
		name                string
		to                  store.EndpointSnapshot
		looks               int64 // number of calls of Current before the change
		outcome             postrider.Outcome
		status              int
		tokens, from, there int // numbers of requests that arrive
	}{
		{"before the request", routed(there.URL), 0, postrider.OutcomeNone, 0, 0, 0, 0},
		{"before a token", routed(there.URL, granted(tokenServer.URL)), 0, postrider.OutcomeNone, 0, 0, 0, 0},
		{"after a token", routed(there.URL, granted(tokenServer.URL)), 1, postrider.OutcomeNone, 0, 1, 0, 0},
		{"before a redirect", routed(from.URL, following(3)), 1, postrider.OutcomeRejected, http.StatusTemporaryRedirect, 0, 1, 0},
		{"never", routed(from.URL, following(3)), 9, postrider.OutcomeAccepted, http.StatusOK, 0, 1, 1},
	} {
		var asked atomic.Int64
		before := [3]int{len(tokenServer.Requests()), len(from.Requests()), len(there.Requests())}
		a := send(t, openWith(t, laptop(), glass{}, currentFor(tt.looks, &asked)), tt.to, testkit.Patience)
		if a.Outcome != tt.outcome || a.StatusCode != tt.status {
			t.Errorf("%s: %s %d %s, want %s %d", tt.name, a.Outcome, a.StatusCode, a.Error, tt.outcome, tt.status)
		}
		arrived := [3]int{len(tokenServer.Requests()) - before[0], len(from.Requests()) - before[1], len(there.Requests()) - before[2]}
		if want := [3]int{tt.tokens, tt.from, tt.there}; arrived != want {
			t.Errorf("%s: %v requests for a token, before and after the redirect, want %v", tt.name, arrived, want)
		}
	}
}
