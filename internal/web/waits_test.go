package web_test

import (
	"context"
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
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
)

// noSessions knows no code of a link.
type noSessions struct{ page.Sessions }

func (noSessions) Entry(context.Context, string) (postrider.Session, error) {
	return postrider.Session{}, postrider.ErrNotFound
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
	h := web.New(web.Deps{Deps: page.Deps{Sessions: noSessions{}, Brand: store}}, web.Options{})
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
		h := web.New(web.Deps{Deps: page.Deps{Brand: &hanging{asked: make(chan struct{}, 1)}}}, web.Options{})
		begun := time.Now()
		got := httptest.NewRecorder()
		h.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/portal/brand/0a.png", http.NoBody))
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("the logo = %d after %v, want an end after 10s", got.Code, took)
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
		h := web.New(web.Deps{Deps: page.Deps{
			API: func(postrider.Caller) http.RoundTripper { return awayAPI{} }, Sessions: oneOperator{}, Brand: noBrand{},
			Share: func(ctx context.Context, _ postrider.Caller) (context.Context, func(), error) {
				return ctx, func() {}, c.share
			},
		}}, web.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
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
	h := web.New(web.Deps{Deps: page.Deps{
		API: func(postrider.Caller) http.RoundTripper { return awayAPI{} }, Sessions: oneOperator{}, Brand: noBrand{},
		Share: func(ctx context.Context, _ postrider.Caller) (context.Context, func(), error) {
			turns++
			return ctx, sync.OnceFunc(func() { turns-- }), nil
		},
	}}, web.Options{})
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
type oneOperator struct{ page.Sessions }

func (oneOperator) Find(context.Context, string) (postrider.Session, error) {
	return postrider.Session{
		Kind: postrider.SessionOperator, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead},
		ExpiresAt: time.Now().Add(time.Hour),
	}, nil
}

// awayAPI is an API whose store does not respond.
type awayAPI struct{}

func (awayAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestATailWhoseAccountCannotBeReadIsNotCalledUnknown(t *testing.T) {
	t.Parallel()
	h := web.New(web.Deps{Deps: page.Deps{API: func(postrider.Caller) http.RoundTripper { return awayAPI{} }, Sessions: oneOperator{}}},
		web.Options{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/dashboard/live/tail?account=acme", nil)
	r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: "token"})
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("a tail while the store is away = %d, want 503", rec.Code)
	}
}
