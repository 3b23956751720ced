package api_test

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/internal/api"
)

// A new URL is pinged once, and nothing else is.
func TestANewURLIsPinged(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Ping: true})
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	pings := func() []map[string]any { return w.want(200, "GET /events?type=postrider.ping", "").data() }
	count := func(want int, after string) {
		t.Helper()
		if got := pings(); len(got) != want {
			t.Errorf("%d pings after %s, want %d", len(got), after, want)
		}
	}
	id := w.want(201, "POST /endpoints", newAcme).id("id")
	count(1, "the endpoint was created")
	event := pings()[0]["id"].(string)
	has(t, "the ping", w.want(200, "GET /events/"+event, "").body, map[string]any{"test": true, "max_attempts": 1.0})
	has(t, "its delivery", w.want(200, "GET /deliveries?event="+event, "").data()[0], map[string]any{"endpoint": id})

	w.want(200, "PATCH /endpoints/"+id, `{"description": "ours"}`)
	count(1, "a change of its description")
	w.want(200, "PATCH /endpoints/"+id, `{"url": "https://acme.example/other"}`)
	count(2, "a change of its URL")
	w.want(200, "POST /endpoints/"+id+"/pause", "")
	w.want(200, "PATCH /endpoints/"+id, `{"url": "https://acme.example/hooks"}`)
	count(2, "a change while it is paused")
	w.want(201, "POST /endpoints", `{"account": "acme", "kind": "inspector", "event_types": ["*"]}`)
	count(2, "an inspector was created")
	w.want(422, "POST /endpoints", `{"account": "acme", "url": "https://acme.example/hooks"}`)
	count(2, "a refused request")
}

func TestPingsAreLimitedAndChangeNoResponse(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Ping: true})
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	id := w.want(201, "POST /endpoints", newAcme).id("id")
	for _, url := range []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7"} {
		w.want(200, "PATCH /endpoints/"+id, `{"url": "https://acme.example`+url+`"}`)
	}
	if got := w.want(200, "GET /events?type=postrider.ping", "").data(); len(got) != 5 {
		t.Errorf("%d pings of eight URLs at once, want 5", len(got))
	}
	w.want(202, "POST /endpoints/"+id+"/test", "") // pings use up no test

	w.publisher.fail(errors.New("the store is away"))
	w.want(201, "POST /endpoints", newAcme)
}

func TestNothingIsPingedByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	w.want(201, "POST /endpoints", newAcme)
	if got := w.want(200, "GET /events", "").data(); len(got) != 0 {
		t.Errorf("events: %v", got)
	}
}
