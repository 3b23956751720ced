package contract_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ledger has the states that were seen. Many requests write it at a time.
type ledger struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (l *ledger) note(states []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, state := range states {
		l.seen[state] = true
	}
}

func (l *ledger) has(state string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[state]
}

// caller sends requests to a server and holds each answer to the document.
type caller struct {
	*testing.T
	server   *server
	document *document
	ledger   *ledger
	receiver *receiver
}

// answer is what the server answered.
type answer struct {
	status int
	text   string
	body   object
}

// request is one to send. Its zero fields have the usual value.
type request struct {
	route  string // METHOD and path below /v1/webhooks, with a query
	body   any    // a string is sent as it is
	key    string // default: the admin's; "-": none
	header map[string]string
}

// want sends a request and ends the test unless it is answered with the status.
func (c *caller) want(status int, route string, body any) answer {
	c.Helper()
	got := c.send(request{route: route, body: body})
	if got.status != status {
		c.Fatalf("%s %v = %d %s, want %d", route, body, got.status, got.text, status)
	}
	return got
}

// send sends a request. Any goroutine may call it.
func (c *caller) send(r request) answer {
	c.Helper()
	method, path, _ := strings.Cut(r.route, " ")
	text, ok := r.body.(string)
	if r.body != nil && !ok {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			c.Errorf("%s: %v", r.route, err)
		}
		text = string(encoded)
	}
	req, err := http.NewRequestWithContext(c.Context(), method, c.server.url+"/v1/webhooks"+path, strings.NewReader(text))
	if err != nil {
		c.Errorf("%s: %v", r.route, err)
		return answer{}
	}
	switch r.key {
	case "":
		req.Header.Set("Authorization", "Bearer "+c.server.key)
	case "-":
	default:
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	if text != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Errorf("%s: %v", r.route, err)
		return answer{}
	}
	defer got.Body.Close()
	return c.judge(req, got, text)
}

// judge holds an answer to the document. A request that was accepted must be
// one that the document accepts.
func (c *caller) judge(req *http.Request, got *http.Response, sent string) answer {
	c.Helper()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		c.Errorf("%s %s: %v", req.Method, req.URL, err)
		return answer{}
	}
	op := c.document.find(req.Method, req.URL.Path)
	if op == nil {
		c.Errorf("%s %s is not in the document", req.Method, req.URL)
		return answer{}
	}
	states, faults := c.document.judge(op, got, body)
	c.ledger.note(states)
	for _, fault := range faults {
		c.Errorf("%s %s %s: %v", req.Method, req.URL, sent, fault)
	}
	if got.StatusCode/100 == 2 && sent != "" {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(sent))
		if err == nil {
			err = op.body.Validate(value)
		}
		if err != nil {
			c.Errorf("%s was accepted, but by the document it is wrong: %v\n%s", op.id, err, sent)
		}
	}
	a := answer{status: got.StatusCode, text: string(body)}
	if len(body) > 0 {
		_ = json.Unmarshal(body, &a.body) // judged already
	}
	return a
}

// id returns a text of the answer.
func (a answer) id(name string) string {
	text, _ := a.body[name].(string)
	return text
}

// items returns those of a list.
func (a answer) items() []object {
	var items []object
	data, _ := a.body["data"].([]any)
	for _, item := range data {
		items = append(items, item.(object))
	}
	return items
}

// until repeats a request that reads until its answer is as wanted.
func (c *caller) until(what, route string, wanted func(answer) bool) answer {
	c.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		got := c.send(request{route: route})
		if got.status == http.StatusOK && wanted(got) {
			return got
		}
		if time.Now().After(deadline) {
			c.Fatalf("%s: %s is still %d %s", what, route, got.status, got.text)
		}
	}
}

// reached waits until the receiver got a request at a path.
func (c *caller) reached(path string) {
	c.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); c.receiver.requests(path) == 0; <-tick.C {
		if time.Now().After(deadline) {
			c.Fatalf("no request reaches %s", path)
		}
	}
}

// publish publishes an event of the type for acme and returns its only
// delivery, or nothing if it has none.
func (c *caller) publish(eventType string, more ...object) (event, delivery string) {
	c.Helper()
	body := object{"account": "acme", "type": eventType, "data": object{"n": 1}}
	for _, m := range more {
		for name, value := range m {
			body[name] = value
		}
	}
	event = c.want(202, "POST /events", body).id("id")
	if items := c.want(200, "GET /events/"+event+"/deliveries", nil).items(); len(items) > 0 {
		delivery, _ = items[0]["id"].(string)
	}
	return event, delivery
}

// endpoint creates an endpoint of acme for one event type, at a path of the
// receiver.
func (c *caller) endpoint(eventType, path string, more ...object) string {
	c.Helper()
	url := path
	if strings.HasPrefix(path, "/") {
		url = c.receiver.url + path
	}
	body := object{"account": "acme", "url": url, "event_types": []string{eventType}, "circuit": object{"preset": "never"}}
	for _, m := range more {
		for name, value := range m {
			body[name] = value
		}
	}
	return c.want(201, "POST /endpoints", body).id("id")
}

// settled waits until a delivery has a status.
func (c *caller) settled(delivery, status string) answer {
	c.Helper()
	return c.until("the delivery is "+status, "GET /deliveries/"+delivery, func(a answer) bool { return a.id("status") == status })
}

// attempted waits until a delivery has an attempt with an outcome.
func (c *caller) attempted(delivery, outcome string) {
	c.Helper()
	c.until("an attempt is "+outcome, "GET /deliveries/"+delivery+"/attempts", func(a answer) bool {
		for _, item := range a.items() {
			if item["outcome"] == outcome {
				return true
			}
		}
		return false
	})
}

// stale makes a change of an object that has another revision.
func (c *caller) stale(route string, body object) {
	c.Helper()
	if got := c.send(request{route: route, body: body, header: map[string]string{"If-Match": `"99"`}}); got.status != 412 {
		c.Errorf("%s with another revision = %d %s", route, got.status, got.text)
	}
}
