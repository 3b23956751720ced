package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web"
)

func TestTestEventsAreMarkedInLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	receipt, err := w.admin.TestEndpoint(t.Context(), e.ID, apitypes.EndpointTest{})
	if err != nil {
		t.Fatal(err)
	}
	const mark = `title="A test event: no producer published it."`
	published := w.publish("order.created", `{}`)
	marked := func(want int, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if html := w.see("operator", "/dashboard"+path).html; strings.Count(html, mark) != want {
				t.Errorf("%s marks %d tests, want %d:\n%s", path, strings.Count(html, mark), want, html)
			}
		}
	}
	marked(1, "/events", "/deliveries", "/endpoints/"+e.ID.String(), "/deliveries/"+w.deliveryOf(receipt).ID.String())
	marked(2, "/events/"+receipt.ID.String()) // the event and its delivery
	marked(0, "/events/"+published.ID.String(), "/deliveries/"+w.deliveryOf(published).ID.String())
	w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	marked(1, "/dead-letters/all")
	says(t, w.see("customer", "/portal"), mark)
}

func TestTheKeysOfAnAccountAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	id := w.account.ID.String()
	page, list := "/dashboard/accounts/"+id, "/dashboard/api-keys?account="+id
	create := `href="/dashboard/api-keys/new?account=` + id + `"`
	says(t, w.see("operator", page), "No API key is bound to this account.", create)
	says(t, w.see("operator", list), "Nothing matches", create)
	for _, k := range []apitypes.KeyCreate{{Name: "of acme", Account: "acme"}, {Name: "of everyone"}} {
		k.Scopes = []postrider.Scope{postrider.ScopeWebhooksRead}
		if _, err := w.admin.CreateKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{page, list} {
		got := w.see("operator", path)
		says(t, got, "of acme", create)
		got.lacks(t, "of everyone")
	}
	says(t, w.see("operator", list), "keys list --account="+id+"<")
	says(t, w.see("operator", "/dashboard/api-keys"), "of acme", "of everyone")
	for range 5 {
		if _, err := w.admin.CreateKey(t.Context(), apitypes.KeyCreate{
			Name: "more", Account: id,
			Scopes: []postrider.Scope{postrider.ScopeWebhooksRead},
		}); err != nil {
			t.Fatal(err)
		}
	}
	says(t, w.see("operator", page), `href="/dashboard/api-keys?account=`+id+`">All API keys</a>`)
	w.see("viewer", page).lacks(t, "API keys")
	if got := w.as("operator", "GET /dashboard/api-keys?"+url.Values{"account": {"nobody"}}.Encode(), nil); got.status != 422 {
		t.Errorf("the keys of an unknown account = %d", got.status)
	}
}

func TestEndpointsAreListedByOneTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.endpoint(apitypes.EndpointCreate{Description: "Orders", EventTypes: []string{"order.*", "invoice.*", "shipment.*"}})
	for person, path := range map[string]string{"operator": "/dashboard/accounts/" + w.account.ID.String(), "customer": "/portal"} {
		got := w.see(person, path)
		says(t, got, `class="endpoints"`, "<b>acme.example</b>", ">Orders<", ">Sending normally<", ">&#43;1<")
		got.lacks(t, "Pending</th>")
	}
}

func TestAnOperatorAddsAnInspector(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	form := w.see("operator", "/dashboard/endpoints/new").fields()
	if !strings.Contains(w.see("operator", "/dashboard/endpoints/new?where=inspector").html, `value="inspector" checked`) {
		t.Error("an inspector cannot be asked for by a link")
	}
	form.Set("account", "acme")
	form.Set("where", "inspector")
	refused := w.as("operator", "POST /dashboard/endpoints/new", form)
	refused.says(t, `value="inspector" checked`, "one event type")
	form.Set("event_types", "order.*")
	w.submit("operator", "/dashboard/endpoints/new", form).says(t, "The endpoint was created.", "/requests")
	endpoints, err := w.admin.Endpoints(t.Context(), client.EndpointFilter{})
	if err != nil || len(endpoints.Data) != 1 || endpoints.Data[0].Kind != postrider.KindInspector {
		t.Errorf("the endpoints are %+v, %v, want one inspector", endpoints.Data, err)
	}
}

// TestFiltersThatAreSetAreNamedAndRemoved opens lists with and without filters: those that are
// set are named as people know them, each with the way to the list without it, and the folded
// ones are open then.
func TestFiltersThatAreSetAreNamedAndRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	account := w.account.ID.String()
	bare := w.see("operator", "/dashboard/deliveries")
	bare.says(t, `<details class="rest"><summary>More filters`)
	bare.lacks(t, `class="chips"`)
	w.see("operator", "/dashboard/deliveries?status=dead&account="+account+"&from=2026-11-26T10:00").says(t,
		`<details class="rest" open>`,
		`<a href="/dashboard/deliveries?account=`+account+`&amp;from=2026-11-26T10%3A00" aria-label="Remove the filter Status: Dead letter">`,
		`aria-label="Remove the filter Account: Acme">`,
		`aria-label="Remove the filter From: 2026-11-26 10:00">`,
	)
	// Times stand together, folded where there are many filters.
	notices := w.see("operator", "/dashboard/notices").html
	rest, from, to := strings.Index(notices, `<details class="rest"`), strings.Index(notices, `type="datetime-local" name="from"`),
		strings.Index(notices, `type="datetime-local" name="to"`)
	if rest < 0 || from < rest || to < rest {
		t.Errorf("the fold begins at %d, from stands at %d and to at %d", rest, from, to)
	}
	w.see("operator", "/dashboard/endpoints").lacks(t, `class="rest"`)
}
