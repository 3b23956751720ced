package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/web"
)

// oneAttempt hands out one attempt, and then ends the request that watches.
type oneAttempt struct {
	attempt web.Attempted
	lost    int
	end     context.CancelFunc
	watched web.Watch
}

func (l *oneAttempt) Subscribe(_ context.Context, w web.Watch) func() ([]web.Attempted, int, error) {
	l.watched = w
	told := false
	return func() ([]web.Attempted, int, error) {
		if told {
			l.end()
			return nil, 0, errors.New("the watch has ended")
		}
		told = true
		return []web.Attempted{l.attempt}, l.lost, nil
	}
}

func TestTheTailShowsAttemptsOfOneAccountAsRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	_, d := w.dead()
	live := &oneAttempt{lost: 3, attempt: web.Attempted{
		Delivery: d.ID, Event: d.Event, Endpoint: d.Endpoint, Account: d.Account, EventType: hostile, Attempt: 2,
		Outcome: postrider.OutcomeRejected, StatusCode: 503, Duration: 40 * time.Millisecond, Status: postrider.Pending, At: time.Now(),
	}}
	handler := web.New(web.Deps{API: w.api.As, Sessions: w.sessions, Brand: memory.New(memory.Options{}), Live: live}, web.Options{})
	for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		ctx, cancel := context.WithCancel(t.Context())
		live.end = cancel
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
		if live.watched.Outcome != postrider.OutcomeRejected || live.watched.EventType != "order.*" {
			t.Errorf("%s watches %+v", person, live.watched)
		}
		if person == "customer" && live.watched.Account != w.account.ID {
			t.Errorf("a customer watches the account %s", live.watched.Account)
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
