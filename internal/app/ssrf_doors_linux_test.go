package app_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/testkit"
)

// besieged is a server with production's settings but for http, and who calls
// its API from where the tap does not look.
type besieged struct {
	base, key string
	http      *http.Client
	stop      func()
}

func besiege(t *testing.T, n *testkit.Internet, dir string) *besieged {
	t.Helper()
	settings, sources := configtest.Parse(t, nil, "--egress-http", "--data-dir", dir, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0",
		"--log-level=error")
	if err := sources.Check(settings.Validate); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server, err := app.New(t.Context(), settings, config.Logger(settings, &log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	ended := make(chan struct{})
	serving.Go(func() {
		defer close(ended)
		err = server.Run(ctx)
	})
	select {
	case <-server.Opened():
	case <-ended:
		t.Fatalf("%v\n%s", err, &log)
	}
	key, keyErr := os.ReadFile(filepath.Join(dir, "admin.key"))
	if keyErr != nil {
		t.Fatal(keyErr)
	}
	transport := &http.Transport{DialContext: n.Dialer().DialContext, MaxIdleConnsPerHost: 16}
	b := &besieged{
		base: "http://" + server.Addr().String() + "/v1/webhooks/", key: strings.TrimSpace(string(key)),
		http: &http.Client{Transport: transport},
	}
	b.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		serving.Wait()
		if err != nil {
			t.Errorf("Run = %v\n%s", err, log.Bytes())
		}
	})
	t.Cleanup(b.stop)
	return b
}

// call makes one call and returns its status and what it answered.
func (b *besieged) call(ctx context.Context, to string, body any) (int, map[string]any) {
	method, path, _ := strings.Cut(to, " ")
	text, err := json.Marshal(body)
	if err != nil {
		return 0, map[string]any{"error": err}
	}
	req, err := http.NewRequestWithContext(ctx, method, b.base+path, bytes.NewReader(text))
	if err != nil {
		return 0, map[string]any{"error": err}
	}
	req.Header.Set("Authorization", "Bearer "+b.key)
	req.Header.Set("Content-Type", "application/json")
	answer, err := b.http.Do(req)
	if err != nil {
		return 0, map[string]any{"error": err}
	}
	defer answer.Body.Close()
	got := map[string]any{}
	if text, err = io.ReadAll(answer.Body); err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		return 0, map[string]any{"error": err, "text": string(text)}
	}
	return answer.StatusCode, got
}

// each does something for each number, several at a time.
func each(numbers []int, do func(i int)) {
	var all errgroup.Group
	all.SetLimit(8)
	for _, i := range numbers {
		all.Go(func() error {
			do(i)
			return nil
		})
	}
	all.Wait()
}

// atTheAPI tries the doors that say no by themselves.
func (s *siege) atTheAPI(t *testing.T) {
	t.Helper()
	b := s.server
	if status, got := b.call(t.Context(), "POST accounts", map[string]any{"uid": "acme"}); status != http.StatusCreated &&
		status != http.StatusConflict {
		t.Fatalf("create account: %d %v", status, got)
	}
	wants := func(t *testing.T, what string, i, status int, got map[string]any) {
		t.Helper()
		v := s.vectors[i]
		if refused := status == http.StatusUnprocessableEntity; refused == v.Name || status == 0 || status >= 500 {
			t.Errorf("%s %q: %d %v", what, v.URL, status, got)
		}
	}
	s.through(t, door{"create", func(ctx context.Context, t *testing.T, numbers []int) int {
		each(numbers, func(i int) {
			status, got := b.call(ctx, "POST endpoints", map[string]any{"account": "acme", "url": s.vectors[i].URL, "event_types": []string{"none"}})
			wants(t, "create", i, status, got)
		})
		return 0
	}})
	id := s.make(t, -1, map[string]any{"url": "http://receiver.example/"})
	s.through(t, door{"update", func(ctx context.Context, t *testing.T, numbers []int) int {
		for _, i := range numbers {
			status, got := b.call(ctx, "PATCH endpoints/"+id, map[string]any{"url": s.vectors[i].URL})
			wants(t, "update", i, status, got)
		}
		return 0
	}})
	s.through(t, door{"update token_url", func(ctx context.Context, t *testing.T, numbers []int) int {
		for _, i := range numbers {
			status, got := b.call(ctx, "PATCH endpoints/"+id, map[string]any{"auth": oauth2(s.vectors[i].URL)})
			wants(t, "update token_url", i, status, got)
		}
		return 0
	}})
}

// prepare makes the endpoints that the store is bent for, and those that lead
// to the vectors.
func (s *siege) prepare(t *testing.T) {
	t.Helper()
	for _, numbers := range s.rows() {
		each(numbers, func(i int) {
			number := strconv.Itoa(i)
			s.make(t, i, map[string]any{"uid": "deliver-" + number, "url": "http://receiver.example/"})
			s.make(t, i, map[string]any{
				"uid": "token-" + number, "url": "http://receiver.example/",
				"auth": oauth2("https://receiver.example/token"),
			})
			s.make(t, i, map[string]any{"uid": "redirect-" + number, "url": "http://receiver.example/to/" + number, "max_redirects": 3})
		})
	}
	for i := range s.addresses() {
		s.make(t, -1, map[string]any{"uid": "rebind-" + strconv.Itoa(i), "url": "http://" + rebound(i) + "/"})
	}
}

func oauth2(url string) map[string]any {
	return map[string]any{"type": "oauth2", "token_url": url, "client_id": "rig", "client_secret": "hunter2"}
}

// make creates an endpoint that tries each delivery once and never gives up,
// and gets the events that are for its kind and the vector's row.
func (s *siege) make(t *testing.T, i int, fields map[string]any) (id string) {
	t.Helper()
	kind, _ := fields["uid"].(string)
	kind, _, _ = strings.Cut(kind, "-")
	row := "S-00"
	if i >= 0 {
		row = s.vectors[i].Row
	}
	body := map[string]any{
		"account": "acme", "event_types": []string{eventType(cmp.Or(kind, "none"), row)},
		"retry":   map[string]any{"delays_ms": []int{0}},
		"circuit": map[string]any{"failures": 0, "cooldown_ms": 60_000, "max_cooldown_ms": 60_000},
	}
	maps.Copy(body, fields)
	status, got := s.server.call(t.Context(), "POST endpoints", body)
	if status != http.StatusCreated {
		t.Errorf("create endpoint: %d %v", status, got)
	}
	id, _ = got["id"].(string)
	return id
}

func eventType(kind, row string) string { return "rig." + kind + "." + row[2:] }

// bend writes the vectors into the store, as if no check had been there.
func (s *siege) bend(t *testing.T, dir string) {
	t.Helper()
	opened, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for page := (store.Page[postrider.Endpoint]{}); ; {
		page, err = opened.Endpoints(t.Context(), store.EndpointQuery{Paging: store.Paging{Cursor: page.Next, Limit: 250}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Items {
			kind, number, _ := strings.Cut(e.UID, "-")
			i, _ := strconv.Atoi(number)
			switch kind {
			case "deliver":
				e.URL = s.vectors[i].URL
			case "token":
				e.Policy.Auth.TokenURL = s.vectors[i].URL
			default:
				continue
			}
			if _, err := opened.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e}); err != nil {
				t.Fatal(err)
			}
		}
		if page.Next == "" {
			return
		}
	}
}

// atTheDialler tries the doors that send something.
func (s *siege) atTheDialler(t *testing.T) {
	t.Helper()
	s.checkDoors(t)
	ids := s.endpoints(t)
	s.through(t, door{"test", func(ctx context.Context, t *testing.T, numbers []int) int {
		s.test(ctx, t, ids, numbers)
		return 0
	}})
	s.through(t, door{"deliver", s.sends("deliver", func(row string, a map[string]any) {
		// Whatever it was, its owner reads the same.
		if (a["outcome"] != "blocked" || a["error"] != "target_forbidden") && row != "S-11" {
			t.Errorf("%s: outcome %v, error %v; want blocked, target_forbidden", row, a["outcome"], a["error"])
		}
	})})
	for _, method := range []string{"challenge", "cloudevents"} {
		s.through(t, door{method, func(ctx context.Context, t *testing.T, numbers []int) int {
			each(numbers, func(i int) { s.verify(ctx, t, ids["deliver-"+strconv.Itoa(i)], method) })
			return 0
		}})
	}
	s.through(t, door{"token", s.sends("token", func(row string, a map[string]any) {
		if a["outcome"] == "accepted" {
			t.Errorf("%s: an event was sent without a token", row)
		}
	})})
	redirect := s.sends("redirect", func(string, map[string]any) {})
	s.through(t, door{"redirect", func(ctx context.Context, t *testing.T, numbers []int) int {
		redirect(ctx, t, numbers)
		return len(numbers)
	}})
	s.rebind(t)
}

// checkDoors sends through every door to where it may go: one that never opens
// keeps nothing out.
func (s *siege) checkDoors(t *testing.T) {
	t.Helper()
	const there = "http://receiver.example:8080/"
	plain, token := s.make(t, -1, map[string]any{"url": there}), s.make(t, -1, map[string]any{"url": there, "auth": oauth2(there + "token")})
	redirect := s.make(t, -1, map[string]any{"url": there + "onward", "max_redirects": 3})
	for _, c := range []struct {
		to   string
		body map[string]any
		want []netip.Addr
	}{
		{plain + "/test", map[string]any{}, []netip.Addr{testkit.Public}},
		{plain + "/verify", map[string]any{"method": "challenge"}, []netip.Addr{testkit.Public}},
		{plain + "/verify", map[string]any{"method": "cloudevents"}, []netip.Addr{testkit.Public}},
		{token + "/test", map[string]any{}, []netip.Addr{testkit.Public}}, // its token's server, asked in both ways to log in
		{redirect + "/test", map[string]any{}, []netip.Addr{testkit.Public, testkit.Public6}},
	} {
		status, got := s.server.call(t.Context(), "POST endpoints/"+c.to, c.body)
		if status == http.StatusAccepted {
			s.await(t.Context(), t, fmt.Sprint(got["id"]), 1)
		}
		var seen []netip.Addr
		for _, to := range s.net.Connections(t) {
			seen = append(seen, to.Addr())
		}
		if !slices.Equal(slices.Compact(seen), c.want) {
			t.Errorf("%s: %d %v, connections to %v, want %v", c.to, status, got, seen, c.want)
		}
	}
}

// endpoints returns the ids by uid.
func (s *siege) endpoints(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, e := range s.list(t.Context(), t, "endpoints?account=acme") {
		uid, _ := e["uid"].(string)
		ids[uid], _ = e["id"].(string)
	}
	return ids
}

// list returns all pages of a list.
func (s *siege) list(ctx context.Context, t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	for cursor := ""; ; {
		status, got := s.server.call(ctx, "GET "+path+mark+"limit=250"+cursor, nil)
		items, ok := got["data"].([]any)
		if status != http.StatusOK || !ok {
			t.Errorf("list %s: %d %v", path, status, got)
			return all
		}
		for _, item := range items {
			one, _ := item.(map[string]any)
			all = append(all, one)
		}
		next, more := got["next_cursor"].(string)
		if !more {
			return all
		}
		cursor = "&cursor=" + next
	}
}

// test sends test events and waits for their attempts.
func (s *siege) test(ctx context.Context, t *testing.T, ids map[string]string, numbers []int) {
	t.Helper()
	var events sync.Map
	each(numbers, func(i int) {
		status, got := s.server.call(ctx, "POST endpoints/"+ids["deliver-"+strconv.Itoa(i)]+"/test", map[string]any{})
		if status != http.StatusAccepted {
			t.Errorf("test %q: %d %v", s.vectors[i].URL, status, got)
			return
		}
		events.Store(fmt.Sprint(got["id"]), true)
	})
	for event := range events.Range {
		s.await(ctx, t, fmt.Sprint(event), 1)
	}
}

// verify asks the receiver whether it wants events. One that is public agrees to
// nothing.
func (s *siege) verify(ctx context.Context, t *testing.T, id, method string) {
	t.Helper()
	status, got := s.server.call(ctx, "POST endpoints/"+id+"/verify", map[string]any{"method": method})
	if status != http.StatusConflict {
		t.Errorf("verify: %d %v, want 409", status, got)
	}
}

// await waits for the attempts for an event, and returns them.
func (s *siege) await(ctx context.Context, t *testing.T, event string, n int) []map[string]any {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); <-tick.C {
		if attempts := s.list(ctx, t, "events/"+event+"/attempts"); len(attempts) >= n {
			return attempts
		}
	}
	t.Errorf("event %s has not had %d attempts in %v", event, n, testkit.Patience)
	return nil
}

// sends returns what publishes an event to the endpoints of a kind and a row.
func (s *siege) sends(kind string, check func(row string, attempt map[string]any)) func(context.Context, *testing.T, []int) int {
	return func(ctx context.Context, t *testing.T, numbers []int) int {
		row := s.vectors[numbers[0]].Row
		for _, a := range s.publish(ctx, t, eventType(kind, row), len(numbers)) {
			check(row, a)
		}
		return 0
	}
}

// publish sends an event and returns its attempts, once there are n.
func (s *siege) publish(ctx context.Context, t *testing.T, eventType string, n int) []map[string]any {
	t.Helper()
	status, got := s.server.call(ctx, "POST events", map[string]any{"account": "acme", "type": eventType, "data": map[string]any{}})
	if status != http.StatusAccepted {
		t.Errorf("publish: %d %v", status, got)
		return nil
	}
	return s.await(ctx, t, fmt.Sprint(got["id"]), n)
}

// rebind sends two events to names that are public and then not: one of them
// arrives.
func (s *siege) rebind(t *testing.T) {
	t.Helper()
	var numbers []int
	for i := range s.addresses() {
		numbers = append(numbers, i)
	}
	s.tryRow(t, door{"rebind", func(ctx context.Context, t *testing.T, numbers []int) int {
		for range 2 {
			s.publish(ctx, t, eventType("rebind", "S-00"), len(numbers))
		}
		return len(numbers)
	}}, "S-11", numbers)
}
