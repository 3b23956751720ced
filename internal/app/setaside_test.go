package app_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

// TestPromise5AnUnreadablePolicySetsOneEndpointAside damages the stored policy of one of two
// endpoints, while the server runs and before it starts. The other endpoint gets its deliveries.
// The damaged one loses nothing, and gets all its deliveries after a repair by hand or through the
// API.
func TestPromise5AnUnreadablePolicySetsOneEndpointAside(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		setOneAside(t, dir, nil, func(statement string) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db")+"?_pragma=busy_timeout(10000)")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
		psql := testkit.SharedCluster(t).Bin("psql")
		setOneAside(t, t.TempDir(), map[string]string{"POSTRIDER_DATABASE_URL": dsn}, func(statement string) {
			if out, err := exec.CommandContext(t.Context(), psql, dsn, "-c", statement).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", statement, err, out)
			}
		})
	})
}

// aside is a server with an endpoint that gets damaged, and another one.
type aside struct {
	*testing.T
	*running
	bad           apitypes.Endpoint
	toBad, toGood *testkit.Receiver
	published     int // events
	reached       int // of them, the damaged endpoint when it was last readable
	ask           func(statement string)
}

func setOneAside(t *testing.T, dir string, env map[string]string, ask func(string)) {
	t.Helper()
	answer := testkit.Status(http.StatusOK)
	a := &aside{
		T: t, running: startWith(t, dir, env), ask: ask,
		toBad: testkit.NewReceiver(t, answer), toGood: testkit.NewReceiver(t, answer),
	}
	a.bad = a.subscribe(t, a.toBad.URL)
	_, err := a.api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{Account: "acme", URL: a.toGood.URL, EventTypes: []string{"*"}})
	a.must(err)
	a.publishes()
	a.reaches()

	a.replace(`"concurrency":10`, `"concurency":10`)
	// A change of something else lets the server read the row again.
	_, err = a.api.ChangeEndpoint(t.Context(), a.bad.ID, apitypes.EndpointUpdate{Description: apitypes.Of("damaged")})
	a.must(err)
	a.waits(a.publishes())
	a.must(a.stop())
	if log := a.log.String(); !strings.Contains(log, "endpoint set aside") || !strings.Contains(log, "concurency is not a field") {
		t.Errorf("the log does not say which field of which endpoint:\n%s", log)
	}

	a.running = startWith(t, dir, env)
	a.waits(a.publishes())
	a.replace(`"concurency":10`, `"concurrency":10`)
	a.reaches() // by itself

	a.replace(`"version":1`, `"version":2`) // as a newer server would
	_, err = a.api.PauseEndpoint(t.Context(), a.bad.ID, "")
	a.must(err)
	_, err = a.api.ResumeEndpoint(t.Context(), a.bad.ID)
	a.must(err)
	a.waits(a.publishes())
	a.mendsThroughTheAPI()
	a.reaches()
}

func (a *aside) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// replace changes the stored policy of the endpoint by hand.
func (a *aside) replace(was, is string) {
	a.Helper()
	a.ask(fmt.Sprintf(`update endpoints set policy = replace(policy, '%s', '%s') where url = '%s'`, was, is, a.bad.URL))
}

// publishes publishes an event, and waits until the other endpoint has it.
func (a *aside) publishes() postrider.EventID {
	a.Helper()
	event := a.publish(a.T)
	a.published++
	a.toGood.Wait(a.T, a.published)
	return event
}

// reaches waits until the damaged endpoint has every event.
func (a *aside) reaches() {
	a.Helper()
	a.toBad.Wait(a.T, a.published)
	a.reached = a.published
}

// waits holds what the API says of the damaged endpoint, and of its delivery of
// an event.
func (a *aside) waits(event postrider.EventID) {
	a.Helper()
	eventually(a.T, "the delivery says why it waits", func() bool {
		page, err := a.api.EventDeliveries(a.Context(), event, client.Paging{})
		a.must(err)
		return slices.ContainsFunc(page.Data, func(d apitypes.Delivery) bool {
			return d.Endpoint == a.bad.ID && d.Waiting != nil && d.Waiting.Reason == postrider.WaitPolicyUnreadable && d.Attempts == 0
		})
	})
	if n := len(a.toBad.Requests()); n != a.reached {
		a.Errorf("%d requests to the damaged endpoint, want %d", n, a.reached)
	}
	e, err := a.api.Endpoint(a.Context(), a.bad.ID)
	a.must(err)
	if e.PolicyError == nil || !strings.Contains(*e.PolicyError, a.bad.ID.String()) ||
		!slices.Equal(e.Warnings, []string{"policy_unreadable"}) {
		a.Errorf("the endpoint has the error %v and the warnings %v, want that its policy cannot be read", e.PolicyError, e.Warnings)
	}
	if _, err := a.api.TestEndpoint(a.Context(), a.bad.ID, apitypes.EndpointTest{}); !isProblem(err, http.StatusConflict) {
		a.Errorf("a test of the endpoint: %v, want 409", err)
	}
}

// mendsThroughTheAPI sets a policy: a part of it is refused, since the rest of it
// cannot be kept.
func (a *aside) mendsThroughTheAPI() {
	a.Helper()
	part := apitypes.Policy{Concurrency: apitypes.Of(7)}
	_, err := a.api.ChangeEndpoint(a.Context(), a.bad.ID, apitypes.EndpointUpdate{Policy: part})
	if !isProblem(err, http.StatusUnprocessableEntity) {
		a.Errorf("a change of a part of the policy: %v, want 422", err)
	}
	whole := a.bad.Policy // as it was before the damage
	e, err := a.api.ChangeEndpoint(a.Context(), a.bad.ID, apitypes.EndpointUpdate{Policy: whole})
	a.must(err)
	if e.PolicyError != nil || e.Concurrency != whole.Concurrency || len(e.Warnings) > 0 {
		a.Errorf("the endpoint after the change is %+v", e)
	}
}

func isProblem(err error, status int) bool {
	problem, ok := errors.AsType[*client.Error](err)
	return ok && problem.Status == status
}
