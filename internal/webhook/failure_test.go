package webhook_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
)

// TestConnectionsThatAreNotMade connects to addresses that refuse in different ways. Failures that
// need a misbehaving peer are in the tests of hostile receivers.
func TestConnectionsThatAreNotMade(t *testing.T) {
	t.Parallel()
	const broadcast = "255.255.255.255" // Linux says that its network is unreachable
	for _, tt := range []struct {
		name      string
		addresses []string
		want      string
	}{
		{"a closed port", []string{"127.0.0.1"}, "connection_refused"},
		{"no way there", []string{broadcast}, "no_route"},
		{"a closed port and no way there", []string{"127.0.0.1", broadcast}, "connection_refused"},
		{"no way there and a closed port", []string{broadcast, "127.0.0.1"}, "connection_refused"},
		{"no address", []string{}, "dns_not_found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := laptop()
			opts.Allow = append(slices.Clone(opts.Allow), netip.MustParsePrefix(broadcast+"/32"))
			opts.Resolver = &answers{list: [][]string{tt.addresses}}
			a := send(t, open(t, opts), routed("http://receiver.example:"+closedPort+"/"), testkit.Patience)
			if a.Outcome != postrider.OutcomeUnreachable || a.Error != tt.want || a.RequestHead != nil {
				t.Errorf("outcome %s, error %q, head %q; want unreachable, %q, nothing sent", a.Outcome, a.Error, a.RequestHead, tt.want)
			}
		})
	}
}

// TestPromise2WhatThisServerLacksIsNoAttempt allows one connection for all receivers, and one
// receiver keeps it busy. A request or a token fetch that needs another connection is postponed. A
// redirect is not followed; the request that left is recorded and excused. The log has one line,
// with a count.
func TestPromise2WhatThisServerLacksIsNoAttempt(t *testing.T) {
	t.Parallel()
	opts := laptop()
	opts.Descriptors, opts.LocalPorts = 20, 2 // two connections, one to each server
	log := new(bytes.Buffer)
	e := openWith(t, opts, glass{}, webhook.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	hold := make(chan struct{})
	busy := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) { <-hold; w.WriteHeader(200) })
	var first postrider.Attempt
	var under sync.WaitGroup
	under.Go(func() { first = send(t, e, routed(busy.URL), testkit.Patience) })
	busy.Wait(t, 1)

	r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
		w.Header().Set("Location", busy.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	follows := policy(func(p *postrider.Policy) { p.MaxRedirects = 1 })
	for _, tt := range []struct {
		name    string
		to      store.EndpointSnapshot
		outcome postrider.Outcome
		error   string
		excused bool
	}{
		{"a request", routed(busy.URL), postrider.OutcomePostponed, "out_of_ports", false},
		{"a token", routed(r.URL, granted(busy.URL)), postrider.OutcomePostponed, "out_of_ports", false},
		{"a redirect", routed(r.URL, follows), postrider.OutcomeRejected, "redirect: out_of_ports: to " + busy.URL, true},
	} {
		a := send(t, e, tt.to, testkit.Patience)
		if a.Outcome != tt.outcome || a.Error != tt.error || a.Excused != tt.excused || a.Excused != (a.RequestHead != nil) {
			t.Errorf("%s: outcome %s, error %q, excused %t, head %q", tt.name, a.Outcome, a.Error, a.Excused, a.RequestHead)
		}
	}
	close(hold)
	if under.Wait(); first.Outcome != postrider.OutcomeAccepted {
		t.Errorf("the busy receiver: %s, %s", first.Outcome, first.Error)
	}
	if n := strings.Count(log.String(), "attempts postponed"); n < 1 || n > 3 {
		t.Errorf("%d lines for three attempts: %s", n, log)
	}
}

// closedPort is a port on which nobody listens. A free port that the system assigns may be used by
// another test a moment later.
const closedPort = "1"

// TestEveryFailureIsOfTheList checks the failures of attempts to hostile receivers, which the test
// of promise 6 makes.
func TestEveryFailureIsOfTheList(t *testing.T) {
	t.Parallel()
	for _, h := range testkit.Hostiles() {
		for _, v := range h.Verdicts {
			class, _, _ := strings.Cut(v.Error, ":")
			if class != "" && !slices.Contains(postrider.Failures, postrider.Failure(class)) {
				t.Errorf("%s: %q is no failure", h.Name, class)
			}
		}
	}
}

// TestTheHeadOfAnAnswerDecides has responses whose body has not ended at the deadline of the
// attempt.
func TestTheHeadOfAnAnswerDecides(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	opts := laptop()
	opts.RootCAs = ca.Pool
	config := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	url, _ := serveTLS(t, config, func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "the beginning") // this test is about the sender
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	for _, tt := range []struct {
		status  int
		outcome postrider.Outcome
		err     string
	}{
		{200, postrider.OutcomeAccepted, ""},
		{410, postrider.OutcomeGone, "http_status: 410 Gone"},
		{500, postrider.OutcomeRejected, "http_status: 500 Internal Server Error"},
	} {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			t.Parallel()
			begins := func(a postrider.Attempt) bool { return len(a.ResponseBody) > 0 }
			a, within := sendUntil(t, open(t, opts), routed(url+"/"+strconv.Itoa(tt.status)), begins)
			if a.Outcome != tt.outcome || a.StatusCode != tt.status || a.Error != tt.err || string(a.ResponseBody) != "the beginning" {
				t.Errorf("outcome %s, status %d, error %q, body %q; want %s, %d, %q, the beginning",
					a.Outcome, a.StatusCode, a.Error, a.ResponseBody, tt.outcome, tt.status, tt.err)
			}
			if a.Duration > within+grace {
				t.Errorf("took %v, with a deadline of %v", a.Duration, within)
			}
		})
	}
}
