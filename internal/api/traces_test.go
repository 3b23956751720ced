package api_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

// TestTheTraceOfThePublishIsTheEvents publishes with valid trace headers and with invalid ones. The
// invalid headers are ignored, as the specification demands.
func TestTheTraceOfThePublishIsTheEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const event, trace = `{"account": "acme", "type": "a", "data": 1}`, "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, tt := range []struct {
		header []string
		taken  bool
	}{
		{[]string{"00-" + trace + "-00f067aa0ba902b7-01"}, true},
		{[]string{"cc-" + trace + "-00f067aa0ba902b7-01-more"}, true},
		{[]string{"00-" + trace + "-00f067aa0ba902b7-01-more"}, false},
		{[]string{"00-" + trace + "-00f067aa0ba902b7-01", "00-" + trace + "-00f067aa0ba902b8-01"}, false},
		{[]string{"00-" + strings.ToUpper(trace) + "-00f067aa0ba902b7-01"}, false},
		{[]string{""}, false},
		{nil, false},
	} {
		for route, body := range map[string]string{"POST /events": event, "POST /events/batch": `{"events": [` + event + `]}`} {
			r := w.request(w.admin, route, body)
			r.Header["Traceparent"], r.Header["Tracestate"] = tt.header, []string{"vendor=1"}
			got := w.send(r)
			id := got.id("id")
			if strings.HasSuffix(route, "batch") {
				id, _ = got.data()[0]["id"].(string)
			}
			want := strings.ToLower(trace)
			if !tt.taken {
				parsed, err := postrider.ParseID[postrider.EventID](id)
				if err != nil {
					t.Fatal(err)
				}
				want = (&postrider.Event{ID: parsed}).Trace().String()
			}
			has(t, route, w.want(200, "GET /events/"+id, "").body, map[string]any{"trace_id": want})
			line := w.log.String()
			if named := strings.Contains(line, `"event":"`+id+`","trace":"`+want+`"`); named != tt.taken ||
				!strings.Contains(line, `"event":"`+id+`"`) {
				t.Errorf("%s with %q: the log names its event and trace: %t, want %t", route, tt.header, named, tt.taken)
			}
		}
	}
	r := w.request(w.admin, "POST /events", `{"account": "acme"}`)
	r.Header["Traceparent"] = []string{"00-" + trace + "-00f067aa0ba902b7-01"}
	has(t, "an error", w.send(r).body, map[string]any{"trace_id": trace, "code": "invalid"})
	if answer := w.want(422, "POST /events", `{"account": "acme"}`).body; answer["trace_id"] != nil {
		t.Errorf("an error without a trace has the trace %v", answer["trace_id"])
	}
}

// TestTheLineOfARequestSaysWhatItIsAbout checks that the log line of a request has the ids of its
// path.
func TestTheLineOfARequestSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(200, "GET /deliveries/"+acme.delivery, "")
	w.want(404, "GET /events/evt_%0Aforged", "")
	w.want(200, "GET /endpoints/"+acme.endpoint+"/circuit", "")
	for _, want := range []string{
		`"route":"GET /v1/webhooks/events/{event}/deliveries","status":200,[^\n]*"event":"` + acme.event + `"`,
		`"route":"GET /v1/webhooks/deliveries/{delivery}","status":200,[^\n]*"delivery":"` + acme.delivery + `"`,
		`"route":"GET /v1/webhooks/endpoints/{endpoint}/circuit","status":200,[^\n]*"endpoint":"` + acme.endpoint + `"`,
	} {
		if !regexp.MustCompile(want).MatchString(w.log.String()) {
			t.Errorf("no line %s in\n%s", want, w.log.String())
		}
	}
	if strings.Contains(w.log.String(), "forged") {
		t.Error("a text of the path that is no id is in the log")
	}
}
