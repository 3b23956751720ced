package receiver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/receiver"
	"github.com/postrider/postrider/signature"
)

// hooks is a receiver under test, with its one sender.
type hooks struct {
	*receiver.Receiver
	keys   []signature.Key
	format signature.Format
	handle func(receiver.Event) error
}

func testKeys(t *testing.T, texts ...string) (keys []signature.Key) {
	t.Helper()
	for _, text := range texts {
		secret, err := signature.ParseSecret(text)
		must(t, err)
		keys = append(keys, signature.Key{Secret: secret})
	}
	return keys
}

const (
	secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherText  = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func newHooks(t *testing.T, s receiver.Store, handle func(receiver.Event) error) *hooks {
	t.Helper()
	return newHooksOf(t, s, handle, by(signature.Standard))
}

// setup has what differs from a test's defaults.
type setup struct {
	receiver.Options
	schemes []signature.Scheme // schemes that are accepted; the sender signs in the first
}

func by(schemes ...signature.Scheme) setup { return setup{schemes: schemes} }

func newHooksOf(t *testing.T, s receiver.Store, handle func(receiver.Event) error, as setup) *hooks {
	t.Helper()
	h := &hooks{keys: testKeys(t, secretText), handle: handle, format: signature.Format{Scheme: as.schemes[0]}}
	var verifiers []signature.Verifier
	for _, scheme := range as.schemes {
		verifiers = append(verifiers, signature.Verifier{Format: signature.Format{Scheme: scheme}, Keys: h.keys})
	}
	var err error
	h.Receiver, err = receiver.New(verifiers, s, func(_ context.Context, e receiver.Event) error { return h.handle(e) }, as.Options)
	must(t, err)
	return h
}

func newMemory() *receiver.Memory { return receiver.NewMemory(receiver.MemoryOptions{}) }

// request returns a signed attempt with the current time.
func (h *hooks) request(t *testing.T, id, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks", strings.NewReader(body))
	m := signature.Message{ID: id, Delivery: "dlv_" + id, Type: "order.created", Timestamp: time.Now(), Body: []byte(body)}
	must(t, signature.Sign(r.Header, m, h.keys, h.format))
	return r
}

func (h *hooks) wantStatus(t *testing.T, r *http.Request, want int) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != want {
		t.Errorf("the answer is %d %s, want %d", w.Code, w.Body, want)
	}
	return w
}

func TestReceiverProcessesAnEventOnce(t *testing.T) {
	t.Parallel()
	for name, open := range openStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []receiver.Event
			h := newHooks(t, open(t), func(e receiver.Event) error {
				got = append(got, e)
				return nil
			})
			const body = `{"type":"order.paid","order":42}`
			for range 3 {
				h.wantStatus(t, h.request(t, "evt_1", body), 204)
			}
			h.wantStatus(t, h.request(t, "evt_2", body), 204)
			if len(got) != 2 {
				t.Fatalf("the handler was called %d times for two events", len(got))
			}
			e := got[0]
			if e.ID != "evt_1" || e.Type != "order.paid" || string(e.Body) != body || e.Scheme != signature.Standard ||
				time.Since(e.Timestamp) > time.Minute || e.Header.Get("Webhook-Id") != "evt_1" {
				t.Errorf("the event is %+v", e)
			}
		})
	}
}

// Several requests for one event arrive together, and the handler fails every other time. It
// succeeds once, and in the end every request gets a 2xx.
func TestReceiverSucceedsOnceForParallelRequests(t *testing.T) {
	t.Parallel()
	for name, open := range openStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls, inside, successes atomic.Int64
			h := newHooks(t, open(t), func(receiver.Event) error {
				defer inside.Add(-1)
				if inside.Add(1) > 1 {
					t.Error("the handler runs twice at a time")
				}
				if calls.Add(1)%2 == 1 {
					return errors.New("not this time")
				}
				successes.Add(1)
				return nil
			})
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() { repeat(t, h) })
			}
			all.Wait()
			if calls.Load() != 2 || successes.Load() != 1 {
				t.Errorf("%d calls of which %d succeeded, want 2 and 1", calls.Load(), successes.Load())
			}
		})
	}
}

// repeat sends a request until it gets a 2xx.
func repeat(t *testing.T, h *hooks) {
	t.Helper()
	for range 10_000 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, h.request(t, "evt_1", `{}`))
		switch w.Code {
		case http.StatusNoContent:
			return
		case http.StatusConflict, http.StatusInternalServerError:
		default:
			t.Errorf("the answer is %d", w.Code)
			return
		}
	}
	t.Error("the event was never processed")
}

func TestReceiverAnswersErrors(t *testing.T) {
	t.Parallel()
	mishap := errors.New("mishap")
	for want, err := range map[int]error{
		500: mishap, 422: errors.Join(receiver.Permanent(mishap), io.EOF),
	} {
		fails := true
		h := newHooks(t, newMemory(), func(receiver.Event) error {
			if fails {
				return err
			}
			return nil
		})
		for range 2 {
			h.wantStatus(t, h.request(t, "evt_1", `{}`), want)
		}
		fails = false
		h.wantStatus(t, h.request(t, "evt_1", `{}`), 204)
		if !errors.Is(err, mishap) {
			t.Error("a permanent error hides its cause")
		}
	}
}

func TestReceiverGivesUpTheEventOfAPanic(t *testing.T) {
	t.Parallel()
	panics := true
	h := newHooks(t, newMemory(), func(receiver.Event) error {
		if panics {
			panic(http.ErrAbortHandler)
		}
		return nil
	})
	func() {
		defer func() {
			if cause := recover(); cause != http.ErrAbortHandler { //nolint:errorlint // net/http compares it too
				t.Errorf("the panic's cause is %v", cause)
			}
		}()
		h.wantStatus(t, h.request(t, "evt_1", `{}`), 0)
	}()
	panics = false
	h.wantStatus(t, h.request(t, "evt_1", `{}`), 204)
}

func TestReceiverAnswersOthersWhileItProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHooks(t, newMemory(), func(receiver.Event) error {
			time.Sleep(30 * time.Second)
			return nil
		})
		var first sync.WaitGroup
		hasty, hangUp := context.WithTimeout(t.Context(), 10*time.Second)
		defer hangUp()
		first.Go(func() { h.wantStatus(t, h.request(t, "evt_1", `{}`).WithContext(hasty), 204) })
		time.Sleep(20 * time.Second)
		if w := h.wantStatus(t, h.request(t, "evt_1", `{}`), 409); w.Header().Get("Retry-After") != "5" {
			t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
		}
		first.Wait()
		begun := time.Now()
		h.wantStatus(t, h.request(t, "evt_1", `{}`), 204)
		if time.Since(begun) != 0 {
			t.Error("what was processed is processed again")
		}
	})
}

// The context of a handler ends with the lease, before another request may claim the event. It does
// not end with the sender's connection.
func TestReceiverEndsTheHandlerWithItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		handle := func(ctx context.Context, _ receiver.Event) error {
			begun := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(begun))
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				t.Error("the deadline does not say whose it is")
			}
			return ctx.Err()
		}
		h := newHooks(t, newMemory(), nil)
		hooks, err := receiver.New([]signature.Verifier{{Keys: h.keys}}, newMemory(), handle, receiver.Options{Lease: time.Minute})
		must(t, err)
		h.Receiver = hooks
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			h.wantStatus(t, h.request(t, "evt_1", `{}`).WithContext(gone), 500)
		}
		if len(took) != 2 || took[0] != time.Minute || took[1] != time.Minute {
			t.Errorf("the handlers were given %v", took)
		}
	})
}

// If the store cannot record an event, the handler's success still counts. If nobody settles a
// claim, the event is free again when the lease ends.
func TestReceiverWithoutARecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		calls := 0
		h := newHooksOf(t, forgetful{newMemory()}, func(receiver.Event) error {
			calls++
			return nil
		}, setup{receiver.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, by(signature.Standard).schemes})
		h.wantStatus(t, h.request(t, "evt_1", `{}`), 204)
		if !strings.Contains(log.String(), "disk full") {
			t.Errorf("the log says %q", log.String())
		}
		h.wantStatus(t, h.request(t, "evt_1", `{}`), 409)
		time.Sleep(time.Minute)
		h.wantStatus(t, h.request(t, "evt_1", `{}`), 204)
		if calls != 2 {
			t.Errorf("the handler was called %d times", calls)
		}
	})
}

type forgetful struct{ *receiver.Memory }

func (forgetful) Record(context.Context, receiver.Claim) error { return errors.New("disk full") }

func TestReceiverRefusesWhatIsNotAuthentic(t *testing.T) {
	t.Parallel()
	h := newHooks(t, newMemory(), func(receiver.Event) error {
		t.Error("the handler was called")
		return nil
	})
	for name, spoil := range map[string]func(*http.Request){
		"another body":   func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"order":43}`)) },
		"another id":     func(r *http.Request) { r.Header.Set("Webhook-Id", "evt_2") },
		"no signature":   func(r *http.Request) { r.Header.Del("Webhook-Signature") },
		"another's sign": func(r *http.Request) { sign(t, r, testKeys(t, otherText), time.Now()) },
		"too old":        func(r *http.Request) { sign(t, r, h.keys, time.Now().Add(-301*time.Second)) },
		"too new":        func(r *http.Request) { sign(t, r, h.keys, time.Now().Add(302*time.Second)) },
		"another scheme": func(r *http.Request) { r.Header.Set("Webhook-Signature", "v2,AAAA") },
	} {
		r := h.request(t, "evt_1", `{"order":42}`)
		spoil(r)
		if w := h.wantStatus(t, r, 401); strings.TrimSpace(w.Body.String()) != "Unauthorized" {
			t.Errorf("%s: the answer tells %q", name, w.Body)
		}
	}
}

func sign(t *testing.T, r *http.Request, keys []signature.Key, at time.Time) {
	t.Helper()
	must(t, signature.Sign(r.Header, signature.Message{ID: "evt_1", Timestamp: at, Body: []byte(`{"order":42}`)}, keys, signature.Format{}))
}

func TestReceiverBoundsAndUnpacksBodies(t *testing.T) {
	t.Parallel()
	var got []byte
	h := newHooksOf(t, newMemory(), func(e receiver.Event) error {
		got = e.Body
		return nil
	}, setup{receiver.Options{MaxBody: 1000}, by(signature.Standard).schemes})
	fits, large := strings.Repeat("x", 1000), strings.Repeat("x", 1001)
	h.wantStatus(t, h.request(t, "evt_1", fits), 204)
	h.wantStatus(t, h.request(t, "evt_2", large), 413)
	unsized := h.request(t, "evt_2", large)
	unsized.ContentLength = -1
	h.wantStatus(t, unsized, 413)

	h.wantStatus(t, packed(h.request(t, "evt_3", fits), fits), 204)
	if string(got) != fits {
		t.Errorf("the handler was given %d bytes", len(got))
	}
	h.wantStatus(t, packed(h.request(t, "evt_4", large), large), 413)
	broken := h.request(t, "evt_5", fits)
	broken.Header.Set("Content-Encoding", "gzip")
	h.wantStatus(t, broken, 400)
	cut := packed(h.request(t, "evt_5", fits), fits)
	cut.Body = io.NopCloser(io.LimitReader(cut.Body, 20))
	h.wantStatus(t, cut, 400)
	other := h.request(t, "evt_5", fits)
	other.Header.Set("Content-Encoding", "br")
	h.wantStatus(t, other, 415)
}

func packed(r *http.Request, body string) *http.Request {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write([]byte(body))
	w.Close()
	r.Header.Set("Content-Encoding", "gzip")
	r.Body, r.ContentLength = io.NopCloser(&out), int64(out.Len())
	return r
}

func TestReceiverTakesPOST(t *testing.T) {
	t.Parallel()
	h := newHooks(t, newMemory(), nil)
	for _, method := range []string{"GET", "HEAD", "PUT", "OPTIONS"} {
		r := httptest.NewRequestWithContext(t.Context(), method, "/webhooks", http.NoBody)
		if w := h.wantStatus(t, r, 405); w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: Allow is %q", method, w.Header().Get("Allow"))
		}
	}
}

func TestReceiverAgreesToBeSentEvents(t *testing.T) {
	t.Parallel()
	h := newHooksOf(t, newMemory(), nil, setup{receiver.Options{AllowedOrigin: "hooks.example"}, by(signature.Standard).schemes})
	const challenge = `{"type":"postrider.challenge","challenge":"abc"}`
	w := h.wantStatus(t, h.request(t, "evt_1", challenge), 200)
	if strings.TrimSpace(w.Body.String()) != `{"challenge":"abc"}` {
		t.Errorf("the challenge is answered with %s", w.Body)
	}
	forged := h.request(t, "evt_1", challenge)
	forged.Header.Set("Webhook-Id", "evt_2")
	h.wantStatus(t, forged, 401)

	ask := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/webhooks", http.NoBody)
	ask.Header.Set("WebHook-Request-Origin", "hooks.example")
	w = h.wantStatus(t, ask, 200)
	if got := w.Header().Get("WebHook-Allowed-Origin"); got != "hooks.example" {
		t.Errorf("WebHook-Allowed-Origin is %q", got)
	}
}

func TestNewRefusesVerifiersThatCannotVerify(t *testing.T) {
	t.Parallel()
	symmetric, public := testKeys(t, secretText), testKeys(t, "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=")
	for name, row := range map[string]struct {
		verifiers []signature.Verifier
		want      error
	}{
		"none":                 {nil, signature.ErrNoKey},
		"no key":               {[]signature.Verifier{{Keys: symmetric}, {}}, signature.ErrNoKey},
		"an empty secret":      {[]signature.Verifier{{Keys: []signature.Key{{}}}}, signature.ErrNoKey},
		"no such scheme":       {[]signature.Verifier{{Keys: symmetric, Format: signature.Format{Scheme: "x"}}}, signature.ErrScheme},
		"an impossible header": {[]signature.Verifier{{Keys: symmetric, Format: signature.Format{Header: "X"}}}, signature.ErrFormat},
		"a public key where none can": {
			[]signature.Verifier{{Keys: public, Format: signature.Format{Scheme: signature.Stripe}}},
			signature.ErrNoKey,
		},
		"a public key": {[]signature.Verifier{{Keys: public}}, nil},
	} {
		if _, err := receiver.New(row.verifiers, newMemory(), nil, receiver.Options{}); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
	}
}
