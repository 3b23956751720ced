package browser_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestForgedFormsAreRefused sends forms of other sites, with the cookies of an
// operator: nothing happens.
func TestForgedFormsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.visitors[operator].session(t)
	pause := "/dashboard/endpoints/" + w.names["healthy"] + "/pause"
	for _, forge := range []func(*http.Request){
		func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		},
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example"); r.Header.Del("Sec-Fetch-Site") },
		func(r *http.Request) { r.Header.Set("Origin", "null"); r.Header.Del("Sec-Fetch-Site") },
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
	} {
		request := admin.request(t, http.MethodPost, pause, url.Values{"reason": {"forged"}})
		forge(request)
		if status, text := send(t, request); status != http.StatusForbidden || strings.Contains(text, w.names["healthy"]) {
			t.Errorf("a form of %s (%s) answers %d %s", request.Header.Get("Origin"), request.Header.Get("Sec-Fetch-Site"), status, text)
		}
	}
	if got := w.call(t, "GET /endpoints/"+w.names["healthy"], nil); got.id("status") != "enabled" {
		t.Errorf("a forged form changed the endpoint: %s", got.text)
	}
	if status, text := send(t, admin.request(t, http.MethodPost, pause, url.Values{})); status != http.StatusSeeOther {
		t.Errorf("a form of the dashboard itself answers %d %s", status, text)
	}
}

// TestDatabaseIsAway stops PostgreSQL under an open page: the next page says so,
// and comes back with the database.
func TestDatabaseIsAway(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	w := &world{server: newServer(t, "--database-url", database.url), names: map[string]string{}}
	v := newVisitor(t, w.url)
	w.logIn(t, v)
	tb := v.newTab(t)
	tb.open("/dashboard/endpoints")
	tb.sees("No endpoints yet")
	database.stop(t)
	if status := tb.open("/dashboard/endpoints"); status != http.StatusServiceUnavailable {
		t.Errorf("without a database the page answers %d", status)
	}
	tb.sees("Not available right now")
	tb.seen.expect("503")
}

// TestFormThatWasNotSent pauses an endpoint while no request gets through, and once
// more when one does.
func TestFormThatWasNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open(w.path(t, "/dashboard/endpoints/{healthy}"))
	eval[bool](tb, `(window.through = window.fetch, window.fetch = () => Promise.reject(new TypeError("offline")), true)`)
	tb.click("Pause")
	eventually(t, func() string {
		if said := eval[string](tb, `document.getElementById("status").textContent`); said != "Not sent: the server did not answer." {
			return "the status is " + said
		}
		return ""
	})
	eval[bool](tb, `(window.fetch = window.through, true)`)
	tb.click("Pause")
	tb.sees("Resume")
}

// TestThousandsOfEndpoints opens the list of many endpoints: a page of it is no
// larger and no slower than of a few.
func TestThousandsOfEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const endpoints, callers = 3000, 16
	var making sync.WaitGroup
	for caller := range callers {
		making.Go(func() {
			for i := caller; i < endpoints; i += callers {
				w.call(t, "POST /endpoints", object{
					"account": "acme", "url": w.receiver.url + "/many/" + strconv.Itoa(i),
					"event_types": []string{"never.published"},
				})
			}
		})
	}
	making.Wait()
	tb := w.visitors[operator].newTab(t)
	tb.seen.restart()
	began := time.Now()
	tb.open("/dashboard/endpoints")
	tb.find("link", "Next page")
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the list of %d endpoints takes %v", endpoints, took)
	}
	if size := tb.seen.transferred(); size > firstLoad {
		t.Errorf("the list of %d endpoints has %d bytes", endpoints, size)
	}
	tb.click("Next page")
	tb.find("link", "First page")
}

// TestStreamsDoNotStopDeliveries watches the deliveries of a server that is asked
// for 1,000 live tails by one session, and whose streams nobody reads. Those beyond
// the limit of a session are refused.
func TestStreamsDoNotStopDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.visitors[operator].session(t)
	const streams, events = 1000, 200
	for range streams {
		request := admin.request(t, http.MethodGet, "/dashboard/live", nil)
		request.Header.Set("Accept", "text/event-stream")
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatalf("open a stream: %v", err)
		}
		t.Cleanup(func() { response.Body.Close() })
		if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusServiceUnavailable &&
			response.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("a stream answers %d", response.StatusCode)
		}
	}
	came := len(w.receiver.requests("/acme/orders"))
	for range events {
		w.publish(t, "acme", "order.created", nil)
	}
	within(t, patience, func() string {
		if now := len(w.receiver.requests("/acme/orders")); now < came+events {
			return strconv.Itoa(came+events-now) + " deliveries are missing"
		}
		return ""
	})
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard")
}
