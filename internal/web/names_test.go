package web_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

func TestListsNameEndpointsAndAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	plain := w.endpoint(apitypes.EndpointCreate{URL: "https://plain.example/hooks"})
	named := w.endpoint(apitypes.EndpointCreate{URL: "https://named.example/hooks", Description: "Billing <b>"})
	receipt := w.publish("order.created", `{}`)
	for _, e := range []apitypes.Endpoint{plain, named} {
		w.settle(e.ID, postrider.Attempt{StatusCode: 410}, postrider.DefaultPolicy())
	}
	for _, path := range []string{"/deliveries", "/dead-letters/all", "/events/" + receipt.ID.String()} {
		got := w.see("operator", "/dashboard"+path)
		says(t, got, `title="https://plain.example/hooks"><span class="where"><b>plain.example</b>`,
			`title="Billing &lt;b&gt; · https://named.example/hooks"><span class="where"><b>named.example</b>`,
			`<span class="sub">Billing &lt;b&gt;`)
		if calls := strings.Count(got.html, "?ids=") + strings.Count(got.html, "&amp;ids="); calls > 4 { // each is shown twice
			t.Errorf("%s makes %d calls for names:\n%s", path, calls, got.html)
		}
	}
	says(t, w.see("operator", "/dashboard/deliveries"), `title="Acme">Acme</a>`, `list="choices-account"`,
		`<option value="`+plain.ID.String()+`">https://plain.example/hooks</option>`)
}

func TestAnEndpointIsFoundByAPartOfItsURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.endpoint(apitypes.EndpointCreate{URL: "https://one.example/hooks", EventTypes: []string{"a"}})
	w.endpoint(apitypes.EndpointCreate{URL: "https://two.example/hooks", EventTypes: []string{"b"}})
	first := w.deliveryOf(w.publish("a", `{}`))
	second := w.deliveryOf(w.publish("b", `{}`))
	got := w.see("operator", "/dashboard/deliveries?endpoint=one.example")
	says(t, got, first.ID.String())
	if strings.Contains(got.html, second.ID.String()) {
		t.Errorf("the filter lists another endpoint's:\n%s", got.html)
	}
}
