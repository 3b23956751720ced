package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

// TestNodesOnASlowDatabaseLoseAndRepeatNothing runs three nodes on a database that responds 200 ms
// late. The heartbeats still arrive in time, so no node is taken for dead and nothing is sent
// twice.
func TestNodesOnASlowDatabaseLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	cluster := testkit.SharedCluster(t)
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	proxy := testkit.NewFaultProxy(t, "unix", cluster.Socket())
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	env := map[string]string{
		"POSTRIDER_DATABASE_URL": strings.Replace(dsn, filepath.Dir(cluster.Socket()), proxy.Dir, 1),
	}
	nodes := []*running{startWith(t, t.TempDir(), env)}
	key, err := os.ReadFile(nodes[0].keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "admin.key"), key, 0o600); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, startWith(t, dir, env))
	}
	nodes[0].subscribe(t, receiver.URL)
	for range 5 { // so that some are another node's to serve
		_, err := nodes[0].api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{Account: "acme", URL: receiver.URL, EventTypes: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
	}

	proxy.Delay(100 * time.Millisecond) // either way
	const events = 3                    // of each node
	for range events {
		for _, node := range nodes {
			receipt, err := node.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
			if err != nil || receipt.Deliveries == nil || *receipt.Deliveries != 6 {
				t.Fatalf("published %+v, %v; want 6 deliveries", receipt, err)
			}
		}
	}
	want := events * len(nodes) * 6
	eventually(t, "every delivery arrives", func() bool { return len(receiver.Requests()) >= want })
	proxy.Delay(0)
	eventually(t, "every delivery is settled", func() bool {
		page, err := nodes[1].api.Deliveries(t.Context(), client.DeliveryFilter{Status: postrider.Pending})
		return err == nil && len(page.Data) == 0
	})
	if got := len(receiver.Requests()); got != want {
		t.Errorf("%d requests for %d deliveries", got, want)
		for _, node := range nodes {
			t.Logf("stop: %v; log:\n%s", node.stop(), node.log)
		}
	}
}
