package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
)

// noSessions knows no code of a link.
type noSessions struct{ Sessions }

func (noSessions) Entry(context.Context, string) (Session, error) {
	return Session{}, postrider.ErrNotFound
}

// hanging is a store that does not respond before the time limit of its caller.
type hanging struct {
	asked chan struct{} // gets one for each call
	calls atomic.Int32  // that wait
}

func (h *hanging) Portal(ctx context.Context) (postrider.Portal, error) {
	h.calls.Add(1)
	defer h.calls.Add(-1)
	h.asked <- struct{}{}
	<-ctx.Done()
	return postrider.Portal{}, ctx.Err()
}

func (h *hanging) Logo(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestPagesThatWaitForTheirBrandHoldUpNoOther opens as many pages of the portal as there
// are renderers, while the store does not respond.
func TestPagesThatWaitForTheirBrandHoldUpNoOther(t *testing.T) {
	t.Parallel()
	store := &hanging{asked: make(chan struct{}, 100)} // each page asks more than once
	h := New(Deps{Sessions: noSessions{}, Brand: store}, Options{})
	ctx, leave := context.WithCancel(t.Context())
	var pages sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	for range n {
		pages.Go(func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/portal/enter/code", http.NoBody))
		})
	}
	for range n {
		<-store.asked
	}
	login := httptest.NewRecorder()
	h.ServeHTTP(login, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/login", http.NoBody))
	if waiting := store.calls.Load(); login.Code != http.StatusOK || waiting != int32(n) {
		t.Errorf("the login = %d, when %d of %d pages waited for their brand; want 200, and all", login.Code, waiting, n)
	}
	leave()
	pages.Wait()
}

func TestALogoHasATimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Deps{Brand: &hanging{asked: make(chan struct{}, 1)}}, Options{})
		begun := time.Now()
		got := httptest.NewRecorder()
		h.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/portal/brand/0a.png", http.NoBody))
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("the logo = %d after %v, want an end after 10s", got.Code, took)
		}
	})
}

// slowAPI does not respond before the time limit of its caller.
type slowAPI struct{ asked chan struct{} }

func (a slowAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked <- struct{}{}
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// TestAPageWaitsForTheAnswerOfAnotherNoLongerThanItsTimeLimit asks twice for the same
// numbers. The second page has less time than the first one.
func TestAPageWaitsForTheAnswerOfAnotherNoLongerThanItsTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := slowAPI{make(chan struct{}, 1)}
		transport := &briefTransport{next: api, cache: &briefCache{answers: map[string]*briefAnswer{}}}
		ask := func(limit time.Duration) (took time.Duration, err error) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errSlow)
			defer cancel()
			begun := time.Now()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.internal/v1/webhooks/stats", http.NoBody)
			if err != nil {
				return 0, err
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}
			return time.Since(begun), err
		}
		var first sync.WaitGroup
		first.Go(func() {
			if took, err := ask(10 * time.Second); took != 10*time.Second || !errors.Is(err, errSlow) {
				t.Errorf("the first page ended after %v with %v", took, err)
			}
		})
		<-api.asked
		if took, err := ask(2 * time.Second); took != 2*time.Second || !errors.Is(err, errSlow) {
			t.Errorf("the second page ended after %v with %v, want after 2s, errSlow", took, err)
		}
		first.Wait()
	})
}

// TestPagesFailTogether asks twenty times for the same numbers while the store hangs, one second
// after the other. All end when the first one does. A page whose browser leaves ends alone.
func TestPagesFailTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := slowAPI{make(chan struct{}, 100)}
		transport := &briefTransport{next: api, cache: &briefCache{answers: map[string]*briefAnswer{}}}
		ask := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errSlow)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.internal/v1/webhooks/stats", http.NoBody)
			if err != nil {
				return err
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}
			return err
		}
		var pages sync.WaitGroup
		leaving, leave := context.WithCancel(t.Context())
		pages.Go(func() {
			if err := ask(leaving); !errors.Is(err, context.Canceled) {
				t.Errorf("the page that left: %v", err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		for n := range 20 {
			pages.Go(func() {
				pause := time.NewTimer(time.Duration(n) * 400 * time.Millisecond)
				<-pause.C
				if err := ask(t.Context()); !errors.Is(err, errSlow) || time.Since(begun) > 11*time.Second {
					t.Errorf("page %d ended after %v with %v, want with the first one that failed", n, time.Since(begun), err)
				}
			})
		}
		pause := time.NewTimer(time.Second)
		<-pause.C
		leave()
		pages.Wait()
		if calls := len(api.asked); calls != 2 {
			t.Errorf("%d calls, want that of the page that left and one more", calls)
		}
	})
}

// logLines keeps what is logged.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

// TestARefusedPageIsNoError refuses a page because of the share of its account, and fails one
// whose API has logged why. Neither is an error of the pages.
func TestARefusedPageIsNoError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		share  error
		status int
	}{
		{"the share is used up", postrider.ErrTooManyReads, http.StatusTooManyRequests},
		{"the API failed", nil, http.StatusServiceUnavailable},
	} {
		var log logLines
		h := New(Deps{
			API: func(postrider.Caller) http.RoundTripper { return awayAPI{} }, Sessions: oneOperator{}, Brand: noBrand{},
			Share: func(ctx context.Context, _ postrider.Caller) (context.Context, func(), error) {
				return ctx, func() {}, c.share
			},
		}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/dashboard/events", nil)
		r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: "token"})
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != c.status || rec.Header().Get("Retry-After") != "2" {
			t.Errorf("%s: %d, Retry-After %q", c.why, rec.Code, rec.Header().Get("Retry-After"))
		}
		if len(log.lines) != 1 || !strings.Contains(log.lines[0], "level=INFO") {
			t.Errorf("%s: logged %q, want one line that is no error", c.why, log.lines)
		}
	}
}

// noBrand has the standard look.
type noBrand struct{}

func (noBrand) Portal(context.Context) (postrider.Portal, error) { return postrider.Portal{}, nil }
func (noBrand) Logo(context.Context) ([]byte, error)             { return nil, nil }

// TestPromise5ABrowserThatDoesNotReadKeepsNoTurn ends the turn of a page before its first byte is
// written, and the turn of a handler that panics.
func TestPromise5ABrowserThatDoesNotReadKeepsNoTurn(t *testing.T) {
	t.Parallel()
	turns := 0
	h := New(Deps{
		API: func(postrider.Caller) http.RoundTripper { return awayAPI{} }, Sessions: oneOperator{}, Brand: noBrand{},
		Share: func(ctx context.Context, _ postrider.Caller) (context.Context, func(), error) {
			turns++
			return ctx, sync.OnceFunc(func() { turns-- }), nil
		},
	}, Options{})
	for _, path := range []string{"/dashboard/events", "/dashboard/search?q=order", "/dashboard/tail", "/dashboard/nothing"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: "token"})
		h.ServeHTTP(writing{httptest.NewRecorder(), func() {
			if turns != 0 {
				t.Errorf("%s: the turn is not over when the page is written", path)
			}
		}}, r)
		if turns != 0 {
			t.Errorf("%s: the turn is not over after the page", path)
		}
	}
}

// writing calls a function before each write.
type writing struct {
	*httptest.ResponseRecorder
	before func()
}

func (w writing) Write(p []byte) (int, error) {
	w.before()
	return w.ResponseRecorder.Write(p)
}

// oneOperator has a session for every token.
type oneOperator struct{ Sessions }

func (oneOperator) Find(context.Context, string) (Session, error) {
	return Session{Caller: postrider.Caller{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}}, ExpiresAt: time.Now().Add(time.Hour)}, nil
}

// awayAPI is an API whose store does not respond.
type awayAPI struct{}

func (awayAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestATailWhoseAccountCannotBeReadIsNotCalledUnknown(t *testing.T) {
	t.Parallel()
	h := New(Deps{API: func(postrider.Caller) http.RoundTripper { return awayAPI{} }, Sessions: oneOperator{}}, Options{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/dashboard/live/tail?account=acme", nil)
	r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: "token"})
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("a tail while the store is away = %d, want 503", rec.Code)
	}
}

func TestOneAccountTakesNotAllStreams(t *testing.T) {
	t.Parallel()
	s := newStreams()
	caller := func(account, session byte) postrider.Caller {
		return postrider.Caller{Account: postrider.AccountID{account}, Session: postrider.SessionID{session}}
	}
	begun := 0
	for n := range 100 { // as many sessions, each with as many streams as it may have
		for range maxStreamsOfSession {
			if s.begin(caller(1, byte(n))) {
				begun++
			}
		}
	}
	if begun != maxStreamsOfAccount || !s.begin(caller(2, 200)) || !s.begin(caller(0, 201)) {
		t.Errorf("an account has %d streams, want %d and some for others", begun, maxStreamsOfAccount)
	}
	s.done(caller(1, 0))
	if !s.begin(caller(1, 0)) {
		t.Error("a stream that has ended is still counted")
	}
}

func TestAPayloadHasALimitOfMarks(t *testing.T) {
	t.Parallel()
	text := `["` + strings.Repeat(strings.Repeat("a", 2000)+`","`, 100) + `"]`
	p := newPayload([]byte(text), "a", false)
	if p.Root == nil || p.Hits != 200_000 {
		t.Fatalf("the payload has %d hits, want 200000", p.Hits)
	}
	marks := 0
	for _, part := range p.Root.Parts {
		for _, piece := range part.Text {
			if piece.Hit {
				marks++
			}
		}
	}
	if marks != maxMarks {
		t.Errorf("%d hits are marked, want %d", marks, maxMarks)
	}
}
