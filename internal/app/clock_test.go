package app_test

import (
	"context"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit"
)

// skewSQL puts another clock before the database's own, for sessions that look
// for it there.
const skewSQL = `
	create schema skew;
	create table skew.ahead (ahead interval not null);
	insert into skew.ahead values ('0');
	create function skew.clock_timestamp() returns timestamptz language sql volatile
	return (select pg_catalog.clock_timestamp() + a.ahead from skew.ahead a)`

// TestTheDatabasesTimeIsSignedWhateverTheNodesClockSays moves the database's clock away from the
// server's clock. Requests carry the database's time. Beyond five minutes the server says that it
// is not ready, and continues to work.
func TestTheDatabasesTimeIsSignedWhateverTheNodesClockSays(t *testing.T) {
	t.Parallel()
	cluster := testkit.SharedCluster(t)
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	ask := func(statement string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), cluster.Bin("psql"), dsn, "-c", statement).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", statement, err, out)
		}
	}
	ask(skewSQL)
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := startWith(t, t.TempDir(), map[string]string{"POSTRIDER_DATABASE_URL": dsn + "&search_path=public,skew,pg_catalog"})
	r.subscribe(t, receiver.URL)
	for i, step := range []struct {
		ahead time.Duration
		ready bool
	}{{0, true}, {4 * time.Minute, true}, {6 * time.Minute, false}, {-6 * time.Minute, false}, {time.Second, true}} {
		ask("update skew.ahead set ahead = '" + strconv.Itoa(int(step.ahead.Seconds())) + " s'")
		eventually(t, "readyz says how far the clocks are apart", func() bool {
			status, text := r.ready(t)
			shown := strings.Contains(text, "clock of this machine is "+step.ahead.Abs().String()+" off")
			return (status == http.StatusOK) == step.ready && shown == !step.ready && strings.Contains(text, "clock_offset")
		})
		signed := func() bool {
			r.publish(t)
			eventually(t, "it is delivered", func() bool { return len(receiver.Requests()) > i })
			all := receiver.Requests()
			at, err := strconv.ParseInt(all[len(all)-1].Header.Get("Webhook-Timestamp"), 10, 64)
			return err == nil && (time.Until(time.Unix(at, 0))-step.ahead).Abs() < 10*time.Second
		}
		eventually(t, "requests carry the database's time", signed)
	}
}
