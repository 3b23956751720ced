package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/live"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
)

// oneAttempt hands out one attempt to each that watches.
type oneAttempt struct {
	attempt observe.Attempted
	lost    int
	watched observe.Watch
}

func (l *oneAttempt) Subscribe(ctx context.Context, w observe.Watch) func() ([]observe.Attempted, int, error) {
	l.watched = w
	told := false
	return func() ([]observe.Attempted, int, error) {
		if told {
			<-ctx.Done()
			return nil, 0, ctx.Err()
		}
		told = true
		return []observe.Attempted{l.attempt}, l.lost, nil
	}
}

// hub is a real hub, in the form that pages need.
type hub struct{ *live.Hub }

func (h hub) Subscribe(ctx context.Context, w observe.Watch) func() ([]observe.Attempted, int, error) {
	s := h.Hub.Subscribe(ctx, w)
	return func() ([]observe.Attempted, int, error) { return s.Next(ctx) }
}

// attempt settles attempt n of an event type, of the account.
func (h hub) attempt(account postrider.AccountID, eventType string, n int) {
	h.Hooks().Settled(observe.Settled{
		Delivery:   postrider.Claimed{Attempt: n, Event: &postrider.Event{Account: account, Type: eventType}},
		Attempt:    postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 204, StartedAt: time.Now()},
		Transition: postrider.Transition{To: postrider.Delivered},
	})
}

// browser is a writer that keeps what a stream sends, and can be slow.
type browser struct {
	*httptest.ResponseRecorder

	slow time.Duration // of each write
}

func (b *browser) Write(p []byte) (int, error) {
	time.Sleep(b.slow)
	return b.ResponseRecorder.Write(p)
}

// messages returns the rows of each message of the tail, and what it says was left out.
func (b *browser) messages(t *testing.T) (html []string, lost []int) {
	t.Helper()
	for line := range strings.Lines(b.Body.String()) {
		data, is := strings.CutPrefix(line, "data: ")
		if !is {
			continue
		}
		var message struct {
			HTML string `json:"html"`
			Lost int    `json:"lost"`
		}
		if err := json.Unmarshal([]byte(data), &message); err != nil {
			t.Fatalf("read %q: %v", data, err)
		}
		html, lost = append(html, message.HTML), append(lost, message.Lost)
	}
	return html, lost
}

// watching is some people who watch the tail in virtual time.
type watching struct {
	*world

	hub  hub
	open sync.WaitGroup
}

func newWatching(t *testing.T) *watching {
	t.Helper()
	w := &watching{world: newWorld(t, web.Options{}), hub: hub{live.New()}}
	w.web.Watch(w.hub)
	return w
}

// tail opens a stream of a person until the server ends it.
func (w *watching) tail(person, path string, slow time.Duration) *browser {
	b := &browser{httptest.NewRecorder(), slow}
	w.watch(b, person, path)
	return b
}

// watch opens a stream of a person, and sends it to the writer until the server ends it.
func (w *watching) watch(to http.ResponseWriter, person, path string) {
	r := httptest.NewRequestWithContext(w.Context(), http.MethodGet, "http://localhost"+path, nil)
	r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: person})
	r.AddCookie(&http.Cookie{Name: "postrider-portal", Value: person})
	w.open.Go(func() { w.web.ServeHTTP(to, r) })
	synctest.Wait()
}

// end shuts the server down, and waits for all streams.
func (w *watching) end() {
	w.web.End()
	w.hub.End()
	w.open.Wait()
}

func TestATailSendsTheNewestRowsOnceASecondAndTellsHowManyItLeavesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		fast, slow := w.tail("operator", "/dashboard/live/tail", 0), w.tail("operator", "/dashboard/live/tail", 4*time.Second)
		for n := range 400 {
			w.hub.attempt(w.account.ID, "order.created", n)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(12 * time.Second)
		begun := time.Now()
		w.end()
		if took := time.Since(begun); took >= 4*time.Second { // a write that the slow one has begun
			t.Errorf("the streams end %v after the server", took)
		}
		for name, b := range map[string]*browser{"fast": fast, "slow": slow} {
			html, lost := b.messages(t)
			rows, all := 0, 0
			for n, message := range html {
				if count := strings.Count(message, "<tr>"); count > 25 {
					t.Errorf("%s: a message of %d rows", name, count)
				}
				rows, all = rows+strings.Count(message, "<tr>"), all+lost[n]
			}
			if rows+all != 400 || rows == 0 || name == "fast" && (len(html) < 3 || len(html) > 6) || name == "slow" && len(html) > 3 {
				t.Errorf("%s: %d messages with %d rows, %d left out, of 400 attempts in 4 s", name, len(html), rows, all)
			}
		}
	})
}

// arrivals is a writer that keeps when each message of a kind was sent.
type arrivals struct {
	*httptest.ResponseRecorder

	kind string
	at   []time.Time
}

func (a *arrivals) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), a.kind) {
		a.at = append(a.at, time.Now())
	}
	return len(p), nil
}

func TestStreamsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, kind string
		streams    int
		rate       int           // messages a second, of all streams
		turn       time.Duration // the longest time between two messages of a stream
	}{
		{"/dashboard/live", "event: changed", 5, 10, 3 * time.Second},
		{"/dashboard/live", "event: changed", 50, 10, 7 * time.Second},
		{"/dashboard/live", "event: changed", 400, 14, 32 * time.Second},
		{"/dashboard/live/tail", "event: tail", 1000, 250, 6 * time.Second},
	} {
		t.Run(fmt.Sprint(test.streams, test.path), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWatching(t)
				shown := make([]*arrivals, test.streams)
				for n := range shown {
					shown[n] = &arrivals{ResponseRecorder: httptest.NewRecorder(), kind: test.kind}
					person := fmt.Sprint("operator ", n/8)
					w.sessions.add(person, postrider.Caller{Name: person, Session: postrider.SessionID{byte(n / 8)}, Scopes: postrider.Scopes})
					w.watch(shown[n], person, test.path)
				}
				begun, lasts := time.Now(), 2*time.Minute
				for n := range int(lasts / (100 * time.Millisecond)) {
					w.hub.attempt(w.account.ID, "order.created", n)
					time.Sleep(100 * time.Millisecond)
				}
				w.end()
				each := map[int64]int{} // messages in each second
				for n, a := range shown {
					last := begun
					for _, at := range append(a.at, begun.Add(lasts)) {
						if at.Sub(last) > test.turn {
							t.Fatalf("stream %d had nothing for %v", n, at.Sub(last))
						}
						last = at
						each[int64(at.Sub(begun)/time.Second)]++
					}
				}
				delete(each, int64(lasts/time.Second)) // the ends of the streams
				for second, sent := range each {
					if sent > test.rate {
						t.Errorf("%d messages in second %d, want at most %d", sent, second, test.rate)
					}
				}
			})
		})
	}
}

func TestTailsOfOneKeyShareASubscriptionAndNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		other := postrider.AccountID{15: 9}
		w.sessions.add("rival", postrider.Caller{Name: "Rita", Account: other, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
		counted := &counting{hub: w.hub}
		w.web.Watch(counted)
		people := []string{"operator", "operator", "customer", "customer", "rival"}
		shown := map[string][]*browser{}
		for _, person := range people {
			base := "/portal"
			if person == "operator" {
				base = "/dashboard"
			}
			shown[person] = append(shown[person], w.tail(person, base+"/live/tail", 0))
		}
		if counted.n != 3 {
			t.Errorf("%d subscriptions of five streams with three keys", counted.n)
		}
		w.hub.attempt(w.account.ID, "ours.made", 1)
		w.hub.attempt(other, "theirs.made", 1)
		time.Sleep(3 * time.Second)
		w.end()
		for person, want := range map[string][2]bool{"operator": {true, true}, "customer": {true, false}, "rival": {false, true}} {
			for _, b := range shown[person] {
				got := b.Body.String()
				if has := [2]bool{strings.Contains(got, "ours.made"), strings.Contains(got, "theirs.made")}; has != want {
					t.Errorf("%s sees %v of the two accounts, want %v:\n%s", person, has, want, got)
				}
			}
		}
	})
}

func TestATailThatIsOpenForLongTellsTimesFromNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatching(t)
		b := w.tail("operator", "/dashboard/live/tail", 0)
		time.Sleep(10 * time.Minute)
		w.hub.attempt(w.account.ID, "order.created", 1)
		time.Sleep(3 * time.Second)
		w.end()
		html, _ := b.messages(t)
		if len(html) != 1 || !strings.Contains(html[0], ">now</time>") {
			t.Errorf("an attempt of this moment is shown as %q", html)
		}
	})
}

func TestATailEndsWithItsSession(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/dashboard/live/tail", "/dashboard/live"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWatching(t)
			ended, other := w.tail("operator", path, 0), w.tail("viewer", path, 0)
			w.hub.attempt(w.account.ID, "order.created", 1)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			before := ended.Body.Len()
			if err := w.sessions.Logout(t.Context(), "operator"); err != nil {
				t.Fatal(err)
			}
			w.hub.attempt(w.account.ID, "order.created", 2)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := ended.Body.String()[before:]; got != "" {
				t.Errorf("%s sends %q after its session ended", path, got)
			}
			if sent := strings.Count(other.Body.String(), "event: "); sent != 2 {
				t.Errorf("%s sends the other session %d of 2 messages: %s", path, sent, other.Body)
			}
			w.end()
		})
	}
}

// counting counts the subscriptions.
type counting struct {
	hub

	n int
}

func (c *counting) Subscribe(ctx context.Context, w observe.Watch) func() ([]observe.Attempted, int, error) {
	c.n++
	return c.hub.Subscribe(ctx, w)
}

func TestTheTailShowsAttemptsOfOneAccountAsRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTheTailShowsAttemptsOfOneAccountAsRows)
}

func testTheTailShowsAttemptsOfOneAccountAsRows(t *testing.T) {
	w := newWorld(t, web.Options{})
	_, d := w.dead()
	one := &oneAttempt{lost: 3, attempt: observe.Attempted{
		Delivery: d.ID, Event: d.Event, Endpoint: d.Endpoint, Account: d.Account, EventType: hostile, Attempt: 2,
		Outcome: postrider.OutcomeRejected, StatusCode: 503, Duration: 40 * time.Millisecond, Status: postrider.Pending, At: time.Now(),
	}}
	handler := web.New(web.Deps{Deps: page.Deps{API: w.api.As, Sessions: w.sessions, Brand: memory.New(memory.Options{})}, Live: one},
		web.Options{})
	for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+base+"/live/tail?outcome=rejected&event_type=order.*", nil)
		r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: person})
		r.AddCookie(&http.Cookie{Name: "postrider-portal", Value: person})
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		cancel()
		got := rec.Body.String()
		for _, text := range []string{"event: tail\n", `"lost":3`, d.ID.String(), "Receiver answered 503", "503", "40 ms"} {
			if !strings.Contains(strings.ReplaceAll(got, "\u00a0", " "), text) {
				t.Errorf("the tail of %s lacks %q:\n%s", person, text, got)
			}
		}
		if strings.Contains(got, "<script>") || rec.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("the tail of %s is %s:\n%s", person, rec.Header().Get("Content-Type"), got)
		}
		if one.watched.Outcome != postrider.OutcomeRejected || one.watched.EventType != "order.*" {
			t.Errorf("%s watches %+v", person, one.watched)
		}
		if person == "customer" && one.watched.Account != w.account.ID {
			t.Errorf("a customer watches the account %s", one.watched.Account)
		}
	}
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/dashboard/tail", nil)
	r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: "operator"})
	handler.ServeHTTP(rec, r)
	if page := rec.Body.String(); !strings.Contains(page, "data-tail>") || strings.Contains(page, "has no live tail") {
		t.Errorf("the page of the tail is %s", page)
	}
}
