package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

// shop is a producer with an outbox in its PostgreSQL.
type shop struct {
	*testing.T
	cluster *testkit.Cluster
	url     string
}

// newShop starts a producer's PostgreSQL. It listens on the loopback interface, as a source needs it.
func newShop(t *testing.T) *shop {
	t.Helper()
	return newShopIn(t, testkit.Memory())
}

// newShopIn starts it in a folder.
func newShopIn(t *testing.T, dir string, settings ...string) *shop {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	s := &shop{T: t, url: "postgres://postgres@" + address + "/postgres?sslmode=disable"}
	s.ok(listener.Close())
	s.cluster, err = testkit.StartPostgres(dir, append(settings, "listen_addresses=127.0.0.1", "port="+port)...)
	s.ok(err)
	t.Cleanup(func() { s.ok(s.cluster.Stop()) })
	s.ok(outbox.Install(t.Context(), outbox.Config{URL: s.url}, false))
	return s
}

func (s *shop) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// with runs a function with a connection.
func (s *shop) with(do func(*pgx.Conn) error) {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), s.url)
	s.ok(err)
	defer conn.Close(context.WithoutCancel(s.Context()))
	s.ok(do(conn))
}

// exec runs a script.
func (s *shop) exec(script string) {
	s.Helper()
	s.with(func(conn *pgx.Conn) error {
		_, err := conn.Exec(s.Context(), script)
		return err
	})
}

const order = `select postrider.publish(account => 'acme', type => 'order.created', data => '{"n": %d}');`

// TestATransactionOfAProducerIsAWebhook commits a transaction in the producer's database, and rolls another one back.
func TestATransactionOfAProducerIsAWebhook(t *testing.T) {
	t.Parallel()
	s, receiver := newShop(t), testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := start(t, t.TempDir())
	r.subscribe(t, receiver.URL)
	_, err := r.api.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: s.url}, false)
	s.ok(err)

	s.exec("begin;" + fmt.Sprintf(order, 1) + "rollback; begin;" + fmt.Sprintf(order, 2) + "commit;")
	s.exec(`select postrider.publish(account => 'nobody', type => 'order.created', data => '{"secret": "opaque"}')`)
	eventually(t, "the webhook arrives", func() bool { return len(receiver.Requests()) > 0 })
	eventually(t, "the row without an account is rejected", func() bool {
		state, err := r.api.Source(t.Context(), "shop")
		return err == nil && state.State.Rejected == 1 && state.State.Waiting == 0
	})
	if got := receiver.Requests(); len(got) != 1 || !strings.Contains(string(got[0].Body), `"data":{"n": 2}`) {
		t.Errorf("%d webhooks arrived, the first is %s", len(got), got[0].Body)
	}
	documented(t, r.counted(t, map[string]float64{
		`postrider_source_rows_total{result="published",source="shop"}`: 1,
		`postrider_source_rows_total{result="rejected",source="shop"}`:  1,
		`postrider_source_failing{source="shop"}`:                       0,
		`postrider_source_rejected_rows{source="shop"}`:                 1,
	}))

	s.ok(s.cluster.Control("stop"))
	eventually(t, "the state says that the producer is away", func() bool {
		state, err := r.api.Source(t.Context(), "shop")
		return err == nil && state.State.Error != nil
	})
	s.ok(s.cluster.Control("start"))
	s.exec(fmt.Sprintf(order, 3))
	eventually(t, "the next webhook arrives", func() bool { return len(receiver.Requests()) == 2 })
	s.ok(r.stop())
	if log := r.log.String(); !strings.Contains(log, "row rejected") || strings.Contains(log, "opaque") {
		t.Errorf("the log has no line of the rejection, or has its data:\n%s", log)
	}
}

// TestAnExpiredPasswordIsTold has a role whose password expires, and then gets another one.
func TestAnExpiredPasswordIsTold(t *testing.T) {
	t.Parallel()
	s, receiver := newShop(t), testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := start(t, t.TempDir())
	r.subscribe(t, receiver.URL)
	s.exec("create role reader login password 'opaque-one' in role postrider_reader")
	s.ok(s.cluster.Run(t.Context(), "/bin/sh", "-c", `printf 'host all reader all scram-sha-256\nhost all all all trust\n' > data/pg_hba.conf`))
	s.exec("select pg_reload_conf()")
	url := strings.Replace(s.url, "postgres@", "reader@", 1)
	put := func(password string) error {
		_, err := r.api.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: url, Password: apitypes.Of(password)}, false)
		return err
	}
	eventually(t, "another password is refused", func() bool { return put("wrong") != nil })
	s.ok(put("opaque-one"))
	s.exec(fmt.Sprintf(order, 1))
	eventually(t, "the webhook arrives", func() bool { return len(receiver.Requests()) == 1 })

	s.exec("alter role reader valid until '2000-01-01'")
	// In one transaction with the change, the reader might connect again before the commit.
	s.exec("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'reader'")
	eventually(t, "the state says that the password is refused", func() bool {
		state, err := r.api.Source(t.Context(), "shop")
		return err == nil && state.State.Error != nil && strings.Contains(*state.State.Error, "password authentication failed")
	})
	s.exec("alter role reader password 'opaque-two' valid until 'infinity'")
	s.exec(fmt.Sprintf(order, 2))
	s.ok(put("opaque-two"))
	eventually(t, "the next webhook arrives", func() bool { return len(receiver.Requests()) == 2 })
	s.ok(r.stop())
	if log := r.log.String(); strings.Contains(log, "opaque") {
		t.Errorf("the log has a password:\n%s", log)
	}
}

// TestASourceIsTakenOver stops servers in turn, so that each has to read the source.
func TestASourceIsTakenOver(t *testing.T) {
	t.Parallel()
	s, receiver := newShop(t), testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	c := newChanges(t, 2)
	c.endpoint(receiver.URL, "*")
	_, err := c.apis[0].PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: s.url}, false)
	s.ok(err)
	sent := 0
	send := func() {
		for range 20 {
			sent++
			s.exec(fmt.Sprintf(order, sent))
		}
		eventually(t, "the webhooks arrive", func() bool { return len(receiver.Requests()) == sent })
	}
	send()
	reads := func(node *running) bool {
		return sample(node.metrics(t), `postrider_source_failing{source="shop"}`) == 0
	}
	// A reader counts what it has read a moment after the webhooks.
	var reader *running
	eventually(t, "one server reads the source", func() bool {
		first, second := reads(c.nodes[0]), reads(c.nodes[1])
		if reader = c.nodes[0]; second {
			reader = c.nodes[1]
		}
		return first != second
	})
	s.ok(reader.stop())
	send()
}
