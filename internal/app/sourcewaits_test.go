package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/outbox"
)

// shopDatabase is a database with an outbox that a server reads through a gate.
type shopDatabase struct {
	*shop

	url  string // without the gate
	pool *pgxpool.Pool
	gate *gate
}

// databaseOf makes a database of its own in the shop, and has the server read its outbox.
func databaseOf(t *testing.T, s *shop, r *running) *shopDatabase {
	t.Helper()
	p := &shopDatabase{shop: &shop{T: t, cluster: s.cluster, url: s.url}}
	database := strings.ReplaceAll(strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:]), "-", "_")
	p.exec("create database " + database)
	p.url = strings.Replace(s.url, "/postgres?", "/"+database+"?", 1)
	p.ok(outbox.Install(t.Context(), outbox.Config{URL: p.url}, false))
	var err error
	p.pool, err = pgxpool.New(t.Context(), p.url)
	p.ok(err)
	t.Cleanup(p.pool.Close)
	address := p.pool.Config().ConnConfig.Host + ":" + fmt.Sprint(p.pool.Config().ConnConfig.Port)
	p.gate = newGate(t, address)
	_, err = r.api.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: strings.Replace(p.url, address, p.gate.address, 1)}, false)
	p.ok(err)
	return p
}

// publish publishes a row in a transaction of its own, and returns its id.
func (p *shopDatabase) publish(ctx context.Context) (id string, err error) {
	err = p.pool.QueryRow(ctx, `select postrider.publish(account => 'acme', type => 'order.created', data => '{}')`).Scan(&id)
	return id, err
}

// publishRead publishes a row and waits until it was read and moved.
func (p *shopDatabase) publishRead(ctx context.Context) error {
	id, err := p.publish(ctx)
	for waits := true; err == nil && waits; <-time.After(5 * time.Millisecond) {
		err = p.pool.QueryRow(ctx, `select exists (select from postrider.outbox where postrider.row_id(id) = $1)`, id).Scan(&waits)
	}
	return err
}

// lockedRow locks a row that waits in the outbox.
func lockedRow(_ *testing.T, p *shopDatabase) func() {
	open := p.gate.hold() // the row must not be read before it is locked
	defer open()
	_, err := p.publish(p.Context())
	p.ok(err)
	return inTransaction(p.T, p.url, `select from postrider.outbox for update`)
}

// openKey has a transaction of the producer that stays open publish an ordering key. Another one of the key waits.
func openKey(t *testing.T, p *shopDatabase) func() {
	const publish = `select postrider.publish(account => 'acme', type => 'order.created', data => '{}', ordering_key => 'held')`
	end := inTransaction(t, p.url, publish)
	_, err := p.pool.Exec(t.Context(), `do $$ begin
		set local lock_timeout = '200ms';
		perform `+strings.TrimPrefix(publish, "select ")+`;
	end $$`)
	if err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("another transaction of the key: %v, want a timeout of the lock", err)
	}
	return end
}

// hangingProducer has the producer's database answer nothing.
func hangingProducer(_ *testing.T, p *shopDatabase) func() { return p.gate.hold() }

// pauseSource changes the row of the source in the store.
func pauseSource(ctx context.Context, c *client.Client) error {
	_, err := c.PauseSource(ctx, "shop")
	return err
}

// gate forwards connections to a server. While it is held, nothing gets through in either direction.
type gate struct {
	address string
	passing sync.RWMutex

	mu    sync.Mutex
	conns []net.Conn
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{address: listener.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				client.Close()
				continue
			}
			g.mu.Lock()
			g.conns = append(g.conns, client, server)
			g.mu.Unlock()
			running.Go(func() { g.pass(client, server) })
			running.Go(func() { g.pass(server, client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		g.mu.Lock()
		for _, conn := range g.conns {
			conn.Close()
		}
		g.mu.Unlock()
		running.Wait()
	})
	return g
}

// pass forwards what comes from a connection until one of the two ends.
func (g *gate) pass(from, to net.Conn) {
	defer to.Close()
	_, _ = io.Copy(writer(func(piece []byte) (int, error) {
		g.passing.RLock()
		defer g.passing.RUnlock()
		return to.Write(piece)
	}), from)
}

// hold lets nothing pass until open is called.
func (g *gate) hold() (open func()) {
	g.passing.Lock()
	return g.passing.Unlock
}

type writer func(piece []byte) (int, error)

func (w writer) Write(piece []byte) (int, error) { return w(piece) }
