package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

const newAcme = `{"account": "acme", "url": "https://acme.example/hooks", "event_types": ["*"]}`

func TestANewEndpointWaitsUntilItsReceiverAgreed(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Verify: "challenge"})
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	made := w.want(201, "POST /endpoints", newAcme)
	id := made.id("id")
	has(t, "made", made.body, map[string]any{"status": "paused", "status_reason": "unverified", "verified_at": nil})
	published := w.want(202, "POST /events", `{"account": "acme", "type": "a", "data": 1}`)
	if published.body["deliveries"] != 1.0 {
		t.Errorf("published while it waits: %s", published.text)
	}
	has(t, "resume", w.want(409, "POST /endpoints/"+id+"/resume", "").body, map[string]any{"code": "unverified"})
	unverified := map[string]any{"status": "disabled", "status_reason": "off", "warnings": []any{"unverified"}}
	has(t, "disabled", w.want(200, "POST /endpoints/"+id+"/disable", `{"reason": "off"}`).body, unverified)
	has(t, "read", w.want(200, "GET /endpoints/"+id, "").body, unverified)
	has(t, "enable", w.want(409, "POST /endpoints/"+id+"/enable", "").body, map[string]any{"code": "unverified"})

	verified := w.want(200, "POST /endpoints/"+id+"/verify", "")
	has(t, "without a warning", verified.body, map[string]any{"warnings": []any{}})
	if verified.id("status") != "disabled" || verified.id("verified_at") == "" {
		t.Errorf("verified, but disabled by a person: %s", verified.text)
	}
	w.want(200, "POST /endpoints/"+id+"/enable", "")
	moved := w.want(200, "PATCH /endpoints/"+id, `{"url": "https://acme.example/other"}`)
	has(t, "moved", moved.body, map[string]any{"status": "paused", "status_reason": "unverified", "verified_at": nil})
	verified = w.want(200, "POST /endpoints/"+id+"/verify", `{"method": "challenge"}`)
	has(t, "verified", verified.body, map[string]any{"status": "enabled", "status_reason": nil})
	has(t, "changed", w.want(200, "PATCH /endpoints/"+id, `{"url": "https://acme.example/other", "timeout_ms": 2000}`).body,
		map[string]any{"status": "enabled", "verified_at": verified.body["verified_at"]})
	want := []string{"challenge https://acme.example/hooks", "challenge https://acme.example/other"}
	if !slices.Equal(w.receiver.asked, want) {
		t.Errorf("asked %q, want %q", w.receiver.asked, want)
	}
	got := w.want(422, "POST /endpoints/"+id+"/verify", `{"method": "cloudevents"}`)
	if !slices.Equal(got.fields(), []string{"method"}) {
		t.Errorf("another method than the operator's: %s", got.text)
	}
}

func TestAPersonsPauseOutlastsVerification(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Verify: "cloudevents"})
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	id := w.want(201, "POST /endpoints", newAcme).id("id")
	w.want(200, "POST /endpoints/"+id+"/pause", `{"reason": "not yet"}`)
	has(t, "verified", w.want(200, "POST /endpoints/"+id+"/verify", "").body, map[string]any{"status": "paused", "status_reason": "not yet"})
	has(t, "resumed", w.want(200, "POST /endpoints/"+id+"/resume", "").body, map[string]any{"status": "enabled"})
}

func TestVerificationWithoutTheFlagIsAQuestionOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.tenant("acme").endpoint
	for _, body := range []string{"", `{"method": "email"}`} {
		if got := w.want(422, "POST /endpoints/"+id+"/verify", body); !slices.Equal(got.fields(), []string{"method"}) {
			t.Errorf("%q: %s", body, got.text)
		}
	}
	has(t, "verified", w.want(200, "POST /endpoints/"+id+"/verify", `{"method": "cloudevents"}`).body, map[string]any{"status": "enabled"})
	has(t, "moved", w.want(200, "PATCH /endpoints/"+id, `{"url": "https://acme.example/x"}`).body,
		map[string]any{"status": "enabled", "verified_at": nil})
}

func TestAReceiverThatDoesNotAgreeIsToldWhatToAnswer(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Verify: "challenge"})
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	id := w.want(201, "POST /endpoints", newAcme).id("id")
	w.receiver.answer = fmt.Errorf("it answered 404: %w", postrider.ErrConflict)
	got := w.want(409, "POST /endpoints/"+id+"/verify", "")
	if got.id("code") != "verification_failed" || !strings.Contains(got.id("detail"), "must respond") ||
		!strings.Contains(got.id("detail"), "404") {
		t.Errorf("refused: %s", got.text)
	}
	has(t, "still", w.want(200, "GET /endpoints/"+id, "").body, map[string]any{"status": "paused", "verified_at": nil})
	w.receiver.answer = fmt.Errorf("open secret: hush")
	if got := w.want(500, "POST /endpoints/"+id+"/verify", ""); strings.Contains(got.text, "hush") {
		t.Errorf("our own fault is told: %s", got.text)
	}
}

// TestAURLThatChangesWhileItIsVerifiedIsNotVerified checks that a verification is for a URL and not
// for an endpoint.
func TestAURLThatChangesWhileItIsVerifiedIsNotVerified(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Verify: "challenge"})
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	id := w.want(201, "POST /endpoints", newAcme).id("id")
	w.receiver.then = func() { w.want(200, "PATCH /endpoints/"+id, `{"url": "https://evil.example/"}`) }
	w.want(409, "POST /endpoints/"+id+"/verify", "")
	has(t, "moved", w.want(200, "GET /endpoints/"+id, "").body, map[string]any{"status": "paused", "verified_at": nil})
}

func TestAnEndpointIsPokedTenTimesAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme, other := w.tenant("acme").endpoint, w.tenant("other").endpoint
		verify := func(e string) response {
			return w.do(w.admin, "POST /endpoints/"+e+"/verify", `{"method": "challenge"}`)
		}
		poked := 0
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
			got := w.do(w.admin, "POST /endpoints/"+acme+"/test", "")
			if got.status == 202 {
				got = verify(acme)
				poked++
			}
			if got.status == 200 {
				poked++
				continue
			}
			checkProblem(t, got)
			if got.status != 429 || got.id("code") != "too_often" || got.header.Get("Retry-After") == "" {
				t.Fatalf("refused with %d %s, Retry-After %q", got.status, got.text, got.header.Get("Retry-After"))
			}
		}
		if poked < 9 || poked > 10 || len(w.receiver.asked) > poked {
			t.Errorf("poked %d times in a minute, want 9 or 10", poked)
		}
		if got := verify(other); got.status != 200 {
			t.Errorf("another endpoint pays for it: %s", got.text)
		}
		got := verify(acme)
		if wait, _ := strconv.Atoi(got.header.Get("Retry-After")); got.status == 429 {
			time.Sleep(time.Duration(wait) * time.Second)
			got = verify(acme)
		}
		if got.status != 200 {
			t.Errorf("after Retry-After: %d %s", got.status, got.text)
		}
	})
}

func TestHopsAreCountedAndALoopIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const event = `{"account": "acme", "type": "a", "data": 1}`
	for _, tt := range []struct {
		hops   []string
		status int
		code   string
	}{
		{[]string{"0"}, 202, ""},
		{[]string{"7"}, 202, ""},
		{[]string{"007"}, 202, ""},
		{[]string{"8"}, 422, "loop_detected"},
		{[]string{"999999999"}, 422, "loop_detected"},
		{[]string{"1", "2"}, 422, "invalid"},
		{[]string{""}, 422, "invalid"},
		{[]string{"-1"}, 422, "invalid"},
		{[]string{"1000000000"}, 422, "invalid"},
		{[]string{"x:1"}, 422, "invalid"},
	} {
		for route, body := range map[string]string{"POST /events": event, "POST /events/batch": `{"events": [` + event + `]}`} {
			r := w.request(w.admin, route, body)
			r.Header["Webhook-Hops"] = tt.hops
			got := w.send(r)
			if got.status != tt.status || got.id("code") != tt.code {
				t.Errorf("%s with %q = %d %s, want %d %s", route, tt.hops, got.status, got.text, tt.status, tt.code)
			}
			if tt.code == "invalid" && !slices.Equal(got.fields(), []string{"Webhook-Hops"}) {
				t.Errorf("%s with %q names %v", route, tt.hops, got.fields())
			}
			if tt.status >= 400 {
				checkProblem(t, got)
			}
		}
	}
	if strings.Contains(w.log.String(), `"ERROR"`) {
		t.Error("a loop is logged as a fault of ours")
	}
	r := w.request(w.admin, "POST /events", event)
	r.Header = http.Header{"Webhook-Hops": {"7"}, "Authorization": r.Header["Authorization"], "Content-Type": r.Header["Content-Type"]}
	id := w.send(r).id("id")
	has(t, "event", w.want(200, "GET /events/"+id, "").body, map[string]any{"hops": 7.0})
}
