package webhook_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
)

// asking is a receiver that answers with the status and the header.
func asking(status int, ask string) testkit.Answer {
	return func(w http.ResponseWriter, _ testkit.Request) {
		w.Header().Set("webhook-delivery", ask)
		w.WriteHeader(status)
	}
}

func TestAReceiverMayAskForNoMore(t *testing.T) {
	t.Parallel()
	obeys, ignores := openWith(t, laptop(), glass{}, webhook.Options{ReceiverControl: true}), open(t, laptop())
	for _, tt := range []struct {
		name   string
		status int
		ask    string
		door   *door
		want   postrider.ReceiverAsk
	}{
		{"to abort", 500, "abort", obeys, postrider.AskAbort},
		{"to disable", 422, " Disable ", obeys, postrider.AskDisable},
		{"with a 429", 429, "abort", obeys, postrider.AskAbort},
		{"without permission", 500, "abort", ignores, ""},
		{"with a 2xx", 200, "disable", obeys, ""},
		{"with a redirect", 302, "disable", obeys, ""},
		{"something else", 500, "abort, disable", obeys, ""},
		{"nothing", 500, "", obeys, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, asking(tt.status, tt.ask))
			if a := send(t, tt.door, routed(r.URL), testkit.Patience); a.Ask != tt.want || a.StatusCode != tt.status {
				t.Errorf("asked for %q with %d, want %q with %d", a.Ask, a.StatusCode, tt.want, tt.status)
			}
		})
	}
}

// A server to which a redirect leads is not the receiver that the owner of the endpoint named.
func TestARedirectLeadsToNobodyWhoMayAsk(t *testing.T) {
	t.Parallel()
	e := openWith(t, laptop(), glass{}, webhook.Options{ReceiverControl: true})
	other := testkit.NewReceiver(t, asking(500, "disable"))
	r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
		w.Header().Set("Location", other.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	a := send(t, e, routed(r.URL, policy(func(p *postrider.Policy) { p.MaxRedirects = 1 })), testkit.Patience)
	if a.StatusCode != 500 || a.Ask != "" {
		t.Errorf("%d asked for %q, want 500 and nothing", a.StatusCode, a.Ask)
	}
}
