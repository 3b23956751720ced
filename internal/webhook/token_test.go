package webhook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
)

// granted returns a change that sets the token URL.
func granted(tokenURL string) func(*store.EndpointSnapshot) {
	return auth(postrider.Auth{
		Kind: postrider.AuthOAuth2, TokenURL: tokenURL, ClientID: "client", Scopes: []string{"a", "b"}, Audience: "hooks",
	}, "canary-secret")
}

// tokens responds with a new token each time, which is valid for life.
func tokens(life time.Duration) testkit.Answer {
	return func(w http.ResponseWriter, r testkit.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"canary-token-%d","token_type":"bearer","expires_in":%d}`, r.Number, int(life/time.Second))
	}
}

// shown returns the tokens that a receiver got.
func shown(r *testkit.Receiver) (list []string) {
	for _, request := range r.Requests() {
		list = append(list, strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer canary-"))
	}
	return list
}

func TestOAuthFetchesATokenOnce(t *testing.T) {
	t.Parallel()
	server, r := testkit.NewReceiver(t, tokens(time.Hour)), testkit.NewReceiver(t, testkit.Status(500))
	e, to := open(t, laptop()), routed(r.URL, granted(server.URL+"/token?tenant=1"))
	for range 3 {
		if a := send(t, e, to, testkit.Patience); a.StatusCode != 500 || bytes.Contains(a.RequestHead, []byte("canary")) {
			t.Errorf("outcome %s, error %q, head %q", a.Outcome, a.Error, a.RequestHead)
		}
	}
	if diff := cmp.Diff([]string{"token-1", "token-1", "token-1"}, shown(r)); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	request := server.Only(t)
	form, err := url.ParseQuery(string(request.Body))
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"hooks"}}
	if diff := cmp.Diff(want, form); diff != "" || request.Target != "/token?tenant=1" {
		t.Errorf("%s, form (-want +got):\n%s", request.Target, diff)
	}
	if got := request.Header.Get("Authorization"); got != "Basic "+base64.StdEncoding.EncodeToString([]byte("client:canary-secret")) {
		t.Errorf("Authorization: %q", got)
	}
	to.Secrets = append(to.Secrets, encrypted(2, 2))
	send(t, e, to, testkit.Patience)
	if n := len(server.Requests()); n != 1 {
		t.Errorf("another secret took %d tokens", n)
	}
	to.Endpoint.Revision = revisions.Add(1)
	send(t, e, to, testkit.Patience)
	if got := shown(r); got[4] != "token-2" {
		t.Errorf("another revision shows %s", got[4])
	}
}

// TestOAuthSecretInTheBody has a token server that does not accept the secret in the Authorization
// header.
func TestOAuthSecretInTheBody(t *testing.T) {
	t.Parallel()
	server := testkit.NewReceiver(t, func(w http.ResponseWriter, r testkit.Request) {
		if !bytes.Contains(r.Body, []byte("client_secret=canary-secret")) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		tokens(time.Hour)(w, r)
	})
	r := testkit.NewReceiver(t, testkit.Status(200))
	if a := send(t, open(t, laptop()), routed(r.URL, granted(server.URL)), testkit.Patience); a.Error != "" || len(server.Requests()) != 2 {
		t.Errorf("error %q, %d requests", a.Error, len(server.Requests()))
	}
}

func TestOAuthTokensExpire(t *testing.T) {
	t.Parallel()
	server, r := testkit.NewReceiver(t, tokens(2*time.Second)), testkit.NewReceiver(t, testkit.Status(200))
	e, to := open(t, laptop()), routed(r.URL, granted(server.URL))
	started := time.Now()
	send(t, e, to, testkit.Patience)
	testkit.Eventually(t, "another token is fetched", func() bool {
		send(t, e, to, testkit.Patience)
		return len(server.Requests()) > 1
	})
	if took := time.Since(started); took < time.Second || took > 2*time.Second+grace {
		t.Errorf("a token of 2 s was kept for %v", took)
	}
}

// picky responds 200 to requests with a valid token, and calls refuse for others.
type picky struct {
	valid  atomic.Value // a function that reports whether a token is valid
	refuse testkit.Answer
}

func (p *picky) answer(w http.ResponseWriter, r testkit.Request) {
	if !p.valid.Load().(func(string) bool)(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer canary-")) {
		p.refuse(w, r)
	}
}

func (p *picky) accept(token string) { p.valid.Store(func(t string) bool { return t == token }) }

// refusals records the attempts that a sender records before it makes another one.
type refusals struct {
	mu   sync.Mutex
	list []postrider.Attempt
	err  error
}

func (r *refusals) record(_ context.Context, c postrider.Claimed, a postrider.Attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && c.Attempt == a.Number {
		r.list = append(r.list, a)
	}
	return r.err
}

// TestPromise3ARefusedTokenIsReplacedAtOnce has a token server that revokes its tokens again and
// again. Each event is accepted with the next token, and the refused request is recorded as an
// attempt of its own.
func TestPromise3ARefusedTokenIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]testkit.Answer{
		"401": testkit.Status(http.StatusUnauthorized),
		"invalid_token": func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="hooks", error="invalid_token"`)
			w.WriteHeader(http.StatusForbidden)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, kept := picky{refuse: refuse}, refusals{}
			server, r := testkit.NewReceiver(t, tokens(time.Hour)), testkit.NewReceiver(t, p.answer)
			e, to := openWith(t, laptop(), glass{}, webhook.Options{Continue: kept.record}), routed(r.URL, granted(server.URL))
			for i := range 4 {
				p.accept(fmt.Sprintf("token-%d", i+1))
				a := send(t, e, to, testkit.Patience)
				if a.Outcome != postrider.OutcomeAccepted || a.Number != 3+min(i, 1) || a.Excused {
					t.Errorf("event %d: outcome %s, error %q, number %d", i, a.Outcome, a.Error, a.Number)
				}
			}
			if len(kept.list) != 3 {
				t.Fatalf("recorded %+v, want three refusals", kept.list)
			}
			for _, a := range kept.list {
				if a.Outcome != postrider.OutcomeRejected || a.Error != "token_refused" || a.Number != 3 || a.StatusCode < 401 || !a.Excused ||
					!bytes.Contains(a.RequestHead, []byte("Authorization: ***")) || len(a.ResponseHead) == 0 || a.Duration == 0 {
					t.Errorf("recorded outcome %s, error %q, number %d, head %q", a.Outcome, a.Error, a.Number, a.RequestHead)
				}
			}
			if diff := cmp.Diff([]string{"token-1", "token-1", "token-2", "token-2", "token-3", "token-3", "token-4"}, shown(r)); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
		})
	}
}

// TestASecondRefusalIsTheEndpoints has an endpoint that refuses every token. Its attempts are
// rejected. The fetches are limited: ten at once, and then one a second.
func TestASecondRefusalIsTheEndpoints(t *testing.T) {
	t.Parallel()
	kept := refusals{}
	server, r := testkit.NewReceiver(t, tokens(time.Hour)), testkit.NewReceiver(t, testkit.Status(401))
	e, to := openWith(t, laptop(), glass{}, webhook.Options{Continue: kept.record}), routed(r.URL, granted(server.URL))
	began := time.Now()
	for i := range 30 {
		if a := send(t, e, to, testkit.Patience); a.Outcome != postrider.OutcomeRejected || a.Error != "http_status: 401 Unauthorized" ||
			a.Excused {
			t.Errorf("attempt %d: outcome %s, error %q, excused %t", i, a.Outcome, a.Error, a.Excused)
		}
	}
	most := 11 + int(time.Since(began)/time.Second)
	if n := len(server.Requests()); n < 11 || n > most || len(kept.list) != n-1 || len(r.Requests()) != 30+n-1 {
		t.Errorf("%d fetches, want 11 to %d; %d refusals recorded, %d requests", n, most, len(kept.list), len(r.Requests()))
	}
}

// TestPromise3ARefusalThatCannotBeRecordedIsTheAttempt has a lease that is gone when the sender
// wants to make another attempt: no second request leaves. The next attempt has a new token.
func TestPromise3ARefusalThatCannotBeRecordedIsTheAttempt(t *testing.T) {
	t.Parallel()
	p, kept := picky{refuse: testkit.Status(401)}, refusals{err: postrider.ErrFenced}
	server, r := testkit.NewReceiver(t, tokens(time.Hour)), testkit.NewReceiver(t, p.answer)
	e, to := openWith(t, laptop(), glass{}, webhook.Options{Continue: kept.record}), routed(r.URL, granted(server.URL))
	p.accept("token-1")
	send(t, e, to, testkit.Patience)
	p.accept("token-2")
	if a := send(t, e, to, testkit.Patience); a.Error != "token_refused" || !a.Excused || a.Number != 3 || len(r.Requests()) != 2 {
		t.Errorf("error %q, excused %t, number %d; %d requests", a.Error, a.Excused, a.Number, len(r.Requests()))
	}
	if a := send(t, e, to, testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
		t.Errorf("afterwards: outcome %s, error %q", a.Outcome, a.Error)
	}
	if n := len(server.Requests()); n != 2 {
		t.Errorf("%d tokens were fetched, want 2", n)
	}
}

// TestOAuthOneFetchAtATime has a token server that hangs at the first fetch, until the attempt that
// fetches is cancelled. Twenty other attempts wait, and share the second fetch.
func TestOAuthOneFetchAtATime(t *testing.T) {
	t.Parallel()
	var inside, most atomic.Int64
	arrived, release := make(chan bool, 100), make(chan bool)
	server := testkit.NewReceiver(t, func(w http.ResponseWriter, r testkit.Request) {
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		arrived <- true
		if r.Number == 1 {
			<-release
			return
		}
		tokens(time.Hour)(w, r)
	})
	r := testkit.NewReceiver(t, testkit.Status(200))
	e, to := open(t, laptop()), routed(r.URL, granted(server.URL))
	var attempts sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	attempts.Go(func() {
		if a := e.Send(ctx, claimed(event(`{}`)), to); a.Outcome != postrider.OutcomeUnreachable || a.Error != "canceled" {
			t.Errorf("the first: outcome %s, error %q", a.Outcome, a.Error)
		}
	})
	<-arrived
	for range 20 {
		attempts.Go(func() {
			if a := send(t, e, to, testkit.Patience); a.Error != "" {
				t.Errorf("another: outcome %s, error %q", a.Outcome, a.Error)
			}
		})
	}
	if a := send(t, e, to, slow); a.Outcome != postrider.OutcomeUnreachable || a.Error != "auth_error: timeout" || a.Duration > slow+grace {
		t.Errorf("one in a hurry: outcome %s, error %q after %v", a.Outcome, a.Error, a.Duration)
	}
	cancel()
	attempts.Wait()
	close(release)
	if n, together := len(server.Requests()), most.Load(); n != 2 || together > 2 || len(r.Requests()) != 20 {
		t.Errorf("%d fetches, %d at a time, %d requests", n, together, len(r.Requests()))
	}
}

// jsonAnswer responds 200 with the text as JSON.
func jsonAnswer(text string) testkit.Answer {
	return func(w http.ResponseWriter, _ testkit.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
	}
}

// echo repeats the whole request in every part of the response.
func echo(code int) testkit.Answer {
	return func(w http.ResponseWriter, r testkit.Request) {
		said := r.Header.Get("Authorization") + "canary-secret"
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Error", said)
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":%q,"error_description":%q,"error_uri":%q}`, said, said, said)
	}
}

func TestOAuthHostileTokenServers(t *testing.T) {
	t.Parallel()
	elsewhere := testkit.NewReceiver(t, tokens(time.Hour))
	for name, answer := range map[string]testkit.Answer{
		"400, a refusal that repeats the secret": echo(400),
		"200, which is a refusal":                echo(200),
		"503, an outage":                         echo(503),
		"307, a redirect": func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(307)
		},
		"401, of a known kind": func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(401)
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"canary-secret"}`)
		},
		"a huge body":             jsonAnswer(`{"access_token":"canary-token","x":"` + strings.Repeat("canary", 1<<20) + `"}`),
		"a body of a page":        jsonAnswer("<html>canary-secret"),
		"no token":                jsonAnswer(`{"token_type":"bearer"}`),
		"an empty token":          jsonAnswer(`{"access_token":""}`),
		"another type":            jsonAnswer(`{"access_token":"canary-token","token_type":"mac"}`),
		"a token with a line end": jsonAnswer(`{"access_token":"canary-token\r\nX-Evil: 1"}`),
		"a token of a megabyte":   jsonAnswer(`{"access_token":"` + strings.Repeat("x", 50<<10) + `"}`),
		"a huge head": func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("X-Flood", strings.Repeat("canary", 1<<14))
		},
		"a gzip bomb": func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bytes.Repeat([]byte{0}, 1<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.NewReceiver(t, answer)
			detail := ""
			if status, _, numbered := strings.Cut(name, ", "); numbered {
				detail = ": token server answers " + status
			}
			if strings.HasPrefix(name, "401") {
				detail += ", invalid_client"
			}
			checkNoToken(t, server.URL+"/token?canary-query", testkit.Patience, detail)
		})
	}
	t.Run("no HTTP", func(t *testing.T) {
		t.Parallel()
		address, _ := scripted(t, nil, "canary-secret canary-token\r\n\r\n", nothing)
		checkNoToken(t, "http://"+address, testkit.Patience, "")
	})
	for forbidden, detail := range map[string]string{
		"http://10.0.0.1/token": "", "http://169.254.169.254/canary": "", "file:///canary": "",
		"http://rebind.example/": ": target_forbidden", "http://127.0.0.1:1/": ": connection_refused",
	} {
		t.Run(forbidden, func(t *testing.T) {
			t.Parallel()
			checkNoToken(t, forbidden, testkit.Patience, detail)
		})
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("%d requests came where a redirect pointed", n)
	}
}

// TestOAuthSlowTokenServers has servers that return no token in time.
func TestOAuthSlowTokenServers(t *testing.T) {
	t.Parallel()
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		server := testkit.NewReceiver(t, func(http.ResponseWriter, testkit.Request) { <-t.Context().Done() })
		checkNoToken(t, server.URL, slow, ": timeout")
	})
	t.Run("a body without an end", func(t *testing.T) {
		t.Parallel()
		server := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
			io.WriteString(w, `{"access_token":"canary`)
			http.NewResponseController(w).Flush()
			<-t.Context().Done()
		})
		checkNoToken(t, server.URL, slow, ": timeout")
	})
	t.Run("a handshake without an end", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		wait := serveConns(listener, func(c net.Conn) {
			io.Copy(io.Discard, c)
			c.Close()
		})
		checkNoToken(t, "https://"+listener.Addr().String(), slow, ": timeout")
		listener.Close()
		wait()
	})
}

// checkNoToken makes an attempt that gets no token, for the reason in detail.
func checkNoToken(t *testing.T, tokenURL string, within time.Duration, detail string) {
	t.Helper()
	r := testkit.NewReceiver(t, testkit.Status(200))
	log := new(bytes.Buffer)
	opts := laptop()
	opts.Resolver = &answers{list: [][]string{{"10.0.0.1"}}}
	logged := webhook.Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	a := send(t, openWith(t, opts, glass{}, logged), routed(r.URL, granted(tokenURL)), within)
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "auth_error"+detail || len(r.Requests()) != 0 || a.RequestHead != nil {
		t.Errorf("outcome %s, error %q, head %q, %d requests", a.Outcome, a.Error, a.RequestHead, len(r.Requests()))
	}
	if a.Duration > within+grace {
		t.Errorf("took %v of %v", a.Duration, within)
	}
	if text := log.String(); !strings.Contains(text, "auth_error") || strings.Contains(text, "canary") {
		t.Errorf("log: %s", text)
	}
}
