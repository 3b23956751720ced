package app

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// outboxServer is the PostgreSQL of a producer. It is a real one, outside of the bubble: virtual time stands still while somebody
// waits for it.
type outboxServer struct {
	t       *testing.T
	cluster *testkit.Cluster
	url     string
}

func newOutboxServer(t *testing.T) *outboxServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	o := &outboxServer{t: t, url: "postgres://postgres@" + address + "/postgres?sslmode=disable"}
	if o.cluster, err = testkit.StartPostgres(testkit.Memory(), "listen_addresses=127.0.0.1", "port="+port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := outbox.Install(t.Context(), outbox.Config{URL: o.url}, false); err != nil {
		t.Fatal(err)
	}
	return o
}

// exec runs a statement. While the server is away, it does nothing.
func (o *outboxServer) exec(ctx context.Context, sql string, args ...any) {
	conn, err := pgx.Connect(ctx, o.url)
	if err != nil {
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql, args...); err != nil && ctx.Err() == nil {
		o.t.Error(err)
	}
}

// insert adds a row. Its time is that of the bubble, as if the producer were in it.
func (o *outboxServer) insert(ctx context.Context, account string) {
	const row = "insert into postrider.outbox (account, type, data, published_at) values ($1, 'order.created', '{}', $2)"
	o.exec(ctx, row, account, time.Now())
}

// addSource has the servers read the outbox.
func (in *installation) addSource(o *outboxServer) {
	in.t.Helper()
	in.outbox = o
	err := in.store.PutSource(in.ctx, postrider.Source{
		ID: store.NewID[postrider.SourceID](in.ids), Name: "shop", URL: o.url, Keep: 24 * time.Hour, CreatedAt: time.Now(),
	})
	if err != nil {
		in.t.Fatal(err)
	}
}

// produceRows adds a row for the first customer every 10 s, until ctx ends.
func (in *installation) produceRows(ctx context.Context) {
	for batch.Sleep(ctx, 10*time.Second) {
		in.outbox.insert(ctx, "customer-0")
	}
}

// outboxServerDoes stops or starts the server of the producer.
func outboxServerDoes(action string) change {
	return func(_ context.Context, in *installation) {
		if err := in.outbox.cluster.Control(action); err != nil {
			in.t.Error(err)
		}
	}
}

// allowed sets how many bytes a day the first customer may publish; 0: any number.
func allowed(perDay int64) change {
	return func(ctx context.Context, in *installation) {
		page, err := in.store.Accounts(ctx, store.AccountQuery{UID: "customer-0"})
		if err == nil {
			err = in.store.PutQuotas(ctx, page.Items[0].ID, postrider.Quotas{BytesPerDay: perDay})
		}
		if err != nil {
			in.t.Error(err)
		}
	}
}

// sourceFaults are faults of a source. Each has a real PostgreSQL server.
var sourceFaults = []fault{
	{
		name: "source-away", title: "the database of a source is away for 1 h", source: true, lasts: time.Hour, length: 2 * time.Hour,
		begin: outboxServerDoes("stop"), end: outboxServerDoes("start"),
	},
	{
		name: "source-quota", title: "the account of a source has used up its quota for 1 h", source: true, lasts: time.Hour,
		length: 2 * time.Hour,
		begin:  allowed(10), end: allowed(0),
	},
	{
		name: "source-rejects", title: "a row of a source has no account, and is discarded after 1 h", source: true, lasts: time.Hour,
		length: 2 * time.Hour,
		begin:  func(ctx context.Context, in *installation) { in.outbox.insert(ctx, "nobody") },
		end: func(ctx context.Context, in *installation) {
			in.outbox.exec(ctx, "select postrider.discard_rejected(null, 'nobody', null)")
		},
	},
}
