package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
	"github.com/postrider/postrider/signature"
)

// challengeOf returns the challenge in a request.
func challengeOf(r testkit.Request) string {
	var body struct{ Type, Challenge string }
	if err := json.Unmarshal(r.Body, &body); err != nil || body.Type != "postrider.challenge" {
		return ""
	}
	return body.Challenge
}

func TestVerifyChallenge(t *testing.T) {
	t.Parallel()
	answer := func(code int, format string) testkit.Answer {
		return func(w http.ResponseWriter, r testkit.Request) {
			w.WriteHeader(code)
			if strings.Contains(format, "%s") {
				fmt.Fprintf(w, format, challengeOf(r))
				return
			}
			io.WriteString(w, format)
		}
	}
	for _, tt := range []struct {
		name   string
		answer testkit.Answer
		want   string
	}{
		{"JSON", answer(200, `{"challenge":"%s"}`), ""},
		{"bare", answer(202, "%s"), ""},
		{"bare with a line end", answer(200, "%s\n"), ""},
		{"another status", answer(404, "%s"), "the receiver did not agree: http_status: 404 Not Found"},
		{"nothing", answer(200, ""), "the receiver did not agree: its response is not the challenge"},
		{"another challenge", answer(200, "AAAAAAAAAAAAAAAAAAAAAAAAAA"), "the receiver did not agree: its response is not the challenge"},
		{"more than the challenge", answer(200, "ok %s"), "the receiver did not agree: its response is not the challenge"},
		{
			"an echo", func(w http.ResponseWriter, r testkit.Request) { w.Write(r.Body) },
			"the receiver did not agree: its response is not the challenge",
		},
		{"a redirect", redirectTo(307, "/there"), "the receiver did not agree: http_status: 307 Temporary Redirect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, tt.answer)
			checkVerified(t, open(t, laptop()).Verify(t.Context(), routed(r.URL+"/hooks", following(3)), webhook.VerifyChallenge), tt.want)
			got := r.Only(t)
			v := signature.Verifier{Keys: []signature.Key{{Secret: secretOf(1)}}}
			if err := v.Verify(got.Header, got.Body, time.Now()); err != nil || got.Method != http.MethodPost {
				t.Errorf("%s %q: %v", got.Method, got.Body, err)
			}
		})
	}
}

func checkVerified(t *testing.T, err error, want string) {
	t.Helper()
	var unverified *webhook.UnverifiedError
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (!errors.As(err, &unverified) || !errors.Is(err, postrider.ErrConflict) || err.Error() != want):
		t.Errorf("Verify = %v, want %s", err, want)
	}
}

func TestVerifyCloudEvents(t *testing.T) {
	t.Parallel()
	const refused = "the receiver did not agree: its response has no WebHook-Allowed-Origin that allows hooks.example"
	for _, tt := range []struct {
		name, allowed string
		code          int
		want          string
	}{
		{"our origin", "hooks.example", 200, ""},
		{"our origin in capitals", "Hooks.Example", 204, ""},
		{"any origin", "*", 200, ""},
		{"none", "", 200, refused},
		{"another", "other.example", 200, refused},
		{"a part of ours", "example", 200, refused},
		{"a list", "other.example, hooks.example", 200, refused},
		{"an error", "*", 405, "the receiver did not agree: http_status: 405 Method Not Allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
				if tt.allowed != "" {
					w.Header().Set("WebHook-Allowed-Origin", tt.allowed)
				}
				w.WriteHeader(tt.code)
			})
			e := openWith(t, laptop(), glass{}, webhook.Options{RequestOrigin: "hooks.example"})
			checkVerified(t, e.Verify(t.Context(), routed(r.URL+"/hooks?a=b", following(0)), webhook.VerifyCloudEvents), tt.want)
			got := r.Only(t)
			if got.Method != http.MethodOptions || got.Target != "/hooks?a=b" || got.Header.Get("WebHook-Request-Origin") != "hooks.example" ||
				len(got.Body) > 0 {
				t.Errorf("%s %s %v %q", got.Method, got.Target, got.Header, got.Body)
			}
			if got.Header.Get("Authorization") != "Bearer canary-token" || got.Header.Get("X-Hidden") != "canary-hidden" {
				t.Errorf("its gateway would not know us: %v", got.Header)
			}
		})
	}
}

func TestVerifyWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	silent := testkit.NewReceiver(t, func(http.ResponseWriter, testkit.Request) { <-t.Context().Done() })
	for url, want := range map[string]string{
		"http://10.0.0.1/":       "the receiver did not agree: target_forbidden",
		"http://rebind.example/": "the receiver did not agree: target_forbidden",
		"http://127.0.0.1:1/":    "the receiver did not agree: connection_refused",
		silent.URL:               "the receiver did not agree: timeout",
	} {
		for _, method := range []string{webhook.VerifyChallenge, webhook.VerifyCloudEvents} {
			t.Run(method+" "+url, func(t *testing.T) {
				t.Parallel()
				opts := laptop()
				opts.Resolver = &answers{list: [][]string{{"10.0.0.1"}}}
				within := testkit.Patience
				if url == silent.URL {
					within = slow
				}
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				checkVerified(t, open(t, opts).Verify(ctx, routed(url), method), want)
			})
		}
	}
	var invalid *postrider.InvalidError
	if err := open(t, laptop()).Verify(t.Context(), routed(silent.URL), "prayer"); !errors.As(err, &invalid) {
		t.Errorf("another method: %v", err)
	}
	e := openWith(t, laptop(), stuckVault{secret: errors.New("key is unknown")}, webhook.Options{})
	if err := e.Verify(t.Context(), routed(silent.URL), webhook.VerifyChallenge); err == nil || errors.Is(err, postrider.ErrConflict) {
		t.Errorf("a vault that does not open: %v", err)
	}
}

// Only the challenge is signed; the handshake of CloudEvents is not.
func TestVerifyWithoutAKey(t *testing.T) {
	t.Parallel()
	expired := func(r *store.EndpointSnapshot) { r.Secrets = nil }
	for _, tt := range []struct {
		name   string
		change func(*store.EndpointSnapshot)
		class  string
	}{
		{"of the scheme", unsignable(t), "no_key_for_scheme"},
		{"at all", expired, "no_active_secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) { w.Header().Set("WebHook-Allowed-Origin", "*") })
			e, to := open(t, laptop()), routed(r.URL, following(0), tt.change)
			var unasked *webhook.UnverifiedError
			err := e.Verify(t.Context(), to, webhook.VerifyChallenge)
			if !errors.As(err, &unasked) || !unasked.Unasked || !errors.Is(err, postrider.ErrConflict) || len(r.Requests()) != 0 ||
				!strings.HasPrefix(err.Error(), "the receiver was not asked: "+tt.class) {
				t.Errorf("challenge: %v, %d requests", err, len(r.Requests()))
			}
			if err := e.Verify(t.Context(), to, webhook.VerifyCloudEvents); err != nil {
				t.Errorf("handshake: %v", err)
			}
			if got := r.Only(t); got.Header.Get("X-Hidden") != "canary-hidden" {
				t.Errorf("its gateway would not know us: %v", got.Header)
			}
		})
	}
}
