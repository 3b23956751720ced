package api_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

func TestAnEndpointsPolicyIsSetShownAndChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	const standard = `{"account": "acme", "url": "https://acme.example/hooks", "event_types": ["*"]`
	made := w.want(201, "POST /endpoints", standard+`}`)
	circuit := map[string]any{
		"preset": "default", "failures": 5.0, "percent": 50.0, "attempts": 20.0, "window_ms": 0.0,
		"cooldown_ms": 60000.0, "max_cooldown_ms": 1800000.0,
	}
	has(t, "by default", made.body, map[string]any{
		"adaptive_timeout": false, "circuit": circuit, "rate": nil, "order": "none", "on_dead": "skip",
	})
	path := "/endpoints/" + made.id("id")
	strict := map[string]any{
		"preset": "strict", "failures": 5.0, "percent": 0.0, "attempts": 0.0, "window_ms": 0.0,
		"cooldown_ms": 1800000.0, "max_cooldown_ms": 1800000.0,
	}
	own := map[string]any{
		"failures": 3.0, "percent": 0.0, "attempts": 0.0, "window_ms": 0.0, "cooldown_ms": 60000.0, "max_cooldown_ms": 1800000.0,
	}
	rate := map[string]any{"attempts": 100.0, "per_ms": 1000.0}
	for _, step := range []struct {
		patch string
		want  map[string]any
	}{
		{`{"adaptive_timeout": true, "circuit": {"preset": "strict"}}`, map[string]any{"adaptive_timeout": true, "circuit": strict}},
		{`{"rate": {"attempts": 100, "per_ms": 1000}}`, map[string]any{"adaptive_timeout": true, "circuit": strict, "rate": rate}},
		{`{"timeout_ms": 2000}`, map[string]any{"rate": rate}},
		{`{"circuit": {"failures": 3}, "rate": null}`, map[string]any{"circuit": own, "rate": nil}},
		{`{"order": "by_key", "on_dead": "pause"}`, map[string]any{"order": "by_key", "on_dead": "pause"}},
		{`{"circuit": {"preset": "never"}}`, map[string]any{"order": "by_key"}},
		{`{"circuit": {"percent": 50, "window_ms": 600000, "cooldown_ms": 300000}}`, map[string]any{"circuit": map[string]any{
			"preset": "windowed", "failures": 0.0, "percent": 50.0, "attempts": 0.0, "window_ms": 600000.0,
			"cooldown_ms": 300000.0, "max_cooldown_ms": 1800000.0,
		}}},
	} {
		has(t, step.patch, w.want(200, "PATCH "+path, step.patch).body, step.want)
		has(t, step.patch+", read again", w.want(200, "GET "+path, "").body, step.want)
	}
	// What was read may be written as it is.
	shown := w.want(200, "PATCH "+path, `{"circuit": {"preset": "default", "failures": 5, "percent": 50, "attempts": 20, "window_ms": 0,
		"cooldown_ms": 60000, "max_cooldown_ms": 1800000}}`)
	has(t, "as it was read", shown.body, map[string]any{"circuit": circuit})
}

func TestFaultsOfAPolicyAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "PATCH /endpoints/" + w.tenant("acme").endpoint
	for body, fields := range map[string][]string{
		`{"adaptive_timeout": "yes"}`:                                              {"adaptive_timeout"},
		`{"circuit": "strict"}`:                                                    {"circuit"},
		`{"circuit": {"preset": "lenient"}}`:                                       {"circuit.preset"},
		`{"circuit": {"preset": "strict", "failures": 4}}`:                         {"circuit.preset"},
		`{"circuit": {"failures": -1, "percent": 101, "attempts": 9}}`:             {"circuit.failures", "circuit.percent", "circuit.attempts"},
		`{"circuit": {"percent": 50}}`:                                             {"circuit.percent"},
		`{"circuit": {"percent": 50, "attempts": 20, "window_ms": 10000}}`:         {"circuit.percent"},
		`{"circuit": {"attempts": 20, "window_ms": 10000}}`:                        {"circuit.attempts", "circuit.window_ms"},
		`{"circuit": {"cooldown_ms": 9223372036854775807}}`:                        {"circuit.cooldown_ms", "circuit.max_cooldown_ms"},
		`{"circuit": {"failures": 1, "cooldown_ms": 60000, "max_cooldown_ms": 1}}`: {"circuit.max_cooldown_ms"},
		`{"circuit": {"failures": 1.5}}`:                                           {"circuit.failures"},
		`{"circuit": {"window": 1}}`:                                               {"circuit.window"},
		`{"rate": 100}`:                                                            {"rate"},
		`{"rate": {}}`:                                                             {"rate.attempts", "rate.per_ms"},
		`{"rate": {"attempts": 0, "per_ms": 0}}`:                                   {"rate"},
		`{"rate": {"attempts": 0, "per_ms": 999}}`:                                 {"rate.attempts", "rate.per_ms"},
		`{"rate": {"attempts": 100001, "per_ms": 3600001}}`:                        {"rate.attempts", "rate.per_ms"},
		`{"rate": {"attempts": 1, "per_ms": 1000, "burst": 5}}`:                    {"rate.burst"},
		`{"rate": {"attempts": "1", "per_ms": 1000}}`:                              {"rate.attempts"},
		`{"order": "fifo"}`:                                                        {"order"},
		`{"order": "by_key", "on_dead": "stop"}`:                                   {"on_dead"},
		`{"on_dead": "pause"}`:                                                     {"on_dead"},
		`{"circuit": {"preset": "x"}, "rate": {"attempts": 0, "per_ms": 0}, "order": "x", "timeout_ms": 1}`: {
			"timeout_ms", "order",
			"circuit.preset", "rate",
		},
	} {
		got := w.do(w.admin, path, body)
		if got.status != 422 || !slices.Equal(got.fields(), fields) {
			t.Errorf("%s = %d %s, want 422 for %v", body, got.status, got.text, fields)
		}
	}
}

func TestACircuitIsShownAndSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	path := "/endpoints/" + acme.endpoint + "/circuit"
	closed := map[string]any{
		"status": "closed", "reason": nil, "opened_at": nil, "probe_at": nil, "cooldown_ms": 0.0, "failing_since": nil, "generation": 0.0,
	}
	has(t, "never changed", w.want(200, "GET "+path, "").body, closed)
	has(t, "closed again", w.want(200, "POST "+path, `{"status": "closed"}`).body, closed)

	opened := w.want(200, "POST "+path, `{"status": "open"}`)
	has(t, "opened", opened.body, map[string]any{"status": "open", "reason": "manual", "cooldown_ms": 1800000.0, "generation": 1.0})
	if span := instantOf(t, opened, "probe_at").Sub(instantOf(t, opened, "opened_at")); span != 30*time.Minute {
		t.Errorf("open for %v, want 30m", span)
	}
	has(t, "read", w.want(200, "GET "+path, "").body, opened.body)

	probed := w.want(200, "POST "+path, `{"status": "half_open"}`)
	has(t, "to be probed", probed.body, map[string]any{"status": "half_open", "opened_at": opened.body["opened_at"], "generation": 2.0})
	if at := instantOf(t, probed, "probe_at"); at.After(time.Now()) {
		t.Errorf("probed at %v, want at once", at)
	}
	has(t, "closed", w.want(200, "POST "+path, `{"status": "closed"}`).body, map[string]any{
		"status": "closed", "reason": "manual", "opened_at": nil, "probe_at": nil, "generation": 3.0,
	})

	for body, field := range map[string]string{
		"":                             "body",
		`{}`:                           "status",
		`{"status": "half open"}`:      "status",
		`{"status": "OPEN"}`:           "status",
		`{"status": null}`:             "status",
		`{"status": "open", "for": 1}`: "for",
	} {
		if got := w.do(w.admin, "POST "+path, body); got.status != 422 || !slices.Equal(got.fields(), []string{field}) {
			t.Errorf("%s = %d %s, want 422 for %s", body, got.status, got.text, field)
		}
	}
	w.want(404, "GET /endpoints/ep_01h455vb4pex5vsknk084sn02q/circuit", "")
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	w.want(404, "GET "+path, "")
	w.want(409, "POST "+path, `{"status": "open"}`)
}

func instantOf(t *testing.T, r response, name string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, r.id(name))
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return at
}

// contested is a store in which others change a circuit the given number of times, always between
// the read and the write of the API.
type contested struct {
	store.Store
	left atomic.Int32
}

func (c *contested) PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error) {
	if c.left.Add(-1) >= 0 {
		other := p.Circuit
		other.ProbeAt = other.ProbeAt.Add(time.Second) // within a microsecond, the same change would be no change
		if _, err := c.Store.PutCircuit(ctx, store.PutCircuit{Circuit: other}); err != nil {
			return postrider.Circuit{}, err
		}
	}
	return c.Store.PutCircuit(ctx, p)
}

func TestACircuitIsSetWhileItChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "POST /endpoints/" + w.tenant("acme").endpoint + "/circuit"
	s := &contested{Store: w.store}
	w.handler = api.New(api.Deps{
		Stores: storesOf(s), Clock: s.Clock(), Publisher: w.publisher, Guard: guard{}, Verifier: new(receiver),
		Vault: vault{}, Notifier: deaf{}, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
	}, api.Options{})
	s.left.Store(3)
	has(t, "at the fourth try", w.want(200, path, `{"status": "open"}`).body, map[string]any{"status": "open", "generation": 4.0})
	s.left.Store(100)
	if got := w.want(409, path, `{"status": "open"}`); got.body["detail"] != "the circuit is being changed by others" {
		t.Errorf("without an end = %s", got.text)
	}
}

// halfway is a store that fails between the two writes that enabling an endpoint once consisted of.
type halfway struct {
	store.Store
	fails atomic.Bool
}

func (h *halfway) PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error) {
	if h.fails.Load() {
		return postrider.Circuit{}, postrider.ErrBusy
	}
	return h.Store.PutCircuit(ctx, p)
}

func TestEnablingClosesTheCircuitInOneStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/endpoints/" + w.tenant("acme").endpoint
	s := &halfway{Store: w.store}
	w.handler = api.New(api.Deps{
		Stores: storesOf(s), Clock: s.Clock(), Publisher: w.publisher, Guard: guard{}, Verifier: new(receiver),
		Vault: vault{}, Notifier: deaf{}, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
	}, api.Options{})
	w.want(200, "POST "+path+"/circuit", `{"status": "open"}`)
	w.want(200, "POST "+path+"/disable", "")
	s.fails.Store(true)
	has(t, "enabled", w.want(200, "POST "+path+"/enable", "").body, map[string]any{"status": "enabled"})
	closed := map[string]any{"status": "closed", "cooldown_ms": 0.0, "failing_since": nil, "probe_at": nil}
	has(t, "its circuit", w.want(200, "GET "+path+"/circuit", "").body, closed)

	s.fails.Store(false)
	w.want(200, "POST "+path+"/circuit", `{"status": "open"}`)
	has(t, "enabled again", w.want(200, "POST "+path+"/enable", "").body, map[string]any{"status": "enabled"})
	has(t, "its circuit", w.want(200, "GET "+path+"/circuit", "").body, closed)
}

// cancelling is a canceller that counts its calls.
type cancelling struct {
	deaf
	asked atomic.Int32
}

func (c *cancelling) CancelDeleted() { c.asked.Add(1) }

func TestWhatWaitsForADeletedEndpointIsCancelledAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/endpoints/" + w.tenant("acme").endpoint
	c := new(cancelling)
	w.handler = api.New(api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: w.publisher, Guard: guard{},
		Verifier: new(receiver), Vault: vault{}, Notifier: deaf{}, Canceller: c, Replayer: deaf{}, IDs: w.ids,
	}, api.Options{})
	w.want(200, "PATCH "+path, `{"description": "x"}`)
	if n := c.asked.Load(); n != 0 {
		t.Errorf("a change asked %d times", n)
	}
	w.want(204, "DELETE "+path, "")
	w.want(404, "DELETE "+path, "")
	if n := c.asked.Load(); n != 1 {
		t.Errorf("a deletion asked %d times, want once", n)
	}
}

// heard is a notifier that notes the endpoints that it is called with.
type heard struct{ endpoints chan string }

func (h heard) Notify(id postrider.EndpointID) { h.endpoints <- id.String() }

func TestTheDispatcherHearsOfACircuit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	endpoint := w.tenant("acme").endpoint
	waker := heard{make(chan string, 10)}
	w.handler = api.New(api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: w.publisher, Guard: guard{},
		Verifier: new(receiver), Vault: vault{}, Notifier: waker, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
	}, api.Options{})
	before, err := w.store.Changes(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	w.want(200, "POST /endpoints/"+endpoint+"/circuit", `{"status": "open"}`)
	select {
	case got := <-waker.endpoints:
		if got != endpoint {
			t.Errorf("news of %s, want %s", got, endpoint)
		}
	default:
		t.Error("no news of a circuit that was opened")
	}
	changes, err := w.store.Changes(t.Context(), before.Version, 10)
	if err != nil || len(changes.Endpoints) != 1 || changes.Endpoints[0].Circuit.Status != postrider.CircuitOpen {
		t.Errorf("other nodes hear %+v, %v", changes, err)
	}
}

// TestACircuitThatAPersonSetIsReported sets the circuit by both routes. A repeated request changes
// nothing and reports nothing.
func TestACircuitThatAPersonSetIsReported(t *testing.T) {
	t.Parallel()
	var changed []string
	w := newWorldOf(t, api.Options{Hooks: observe.Hooks{CircuitChanged: func(c postrider.Circuit) {
		changed = append(changed, fmt.Sprint(c.Status, " ", c.Reason, " ", c.Generation))
	}}})
	path := "/endpoints/" + w.tenant("acme").endpoint
	for _, to := range []string{"open", "closed", "closed", "half_open"} {
		w.want(200, "POST "+path+"/circuit", `{"status": "`+to+`"}`)
	}
	w.want(200, "POST "+path+"/disable", "")
	w.want(200, "POST "+path+"/enable", "")
	w.want(200, "POST "+path+"/enable", "")
	stored := w.want(200, "GET "+path+"/circuit", "")
	has(t, "the circuit", stored.body, map[string]any{"status": "closed", "generation": 4.0})
	want := []string{"open manual 1", "closed manual 2", "open manual 3", "closed manual 4"}
	if !slices.Equal(changed, want) {
		t.Errorf("reported %q, want %q", changed, want)
	}
}
