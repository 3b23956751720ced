package browser_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// producers starts the PostgreSQL server that has the databases of all shops, and returns the address of one
// by its name. The database shop is their template: the program has installed an outbox in it, from which the
// role link reads.
var producers = sync.OnceValues(func() (func(role, name string) string, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server, err := startDatabase("listen_addresses=127.0.0.1", "port="+port)
	if err != nil {
		return nil, err
	}
	endProducers = server.end
	at := func(role, name string) string {
		return fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s?sslmode=disable", role, port, name)
	}
	program, err := build()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := execute(ctx, at("postgres", "postgres"), "create database shop"); err != nil {
		return nil, err
	}
	if out, err := exec.Command(program, "outbox", "install", "--database-url", at("postgres", "shop")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("install an outbox: %w\n%s", err, out)
	}
	return at, execute(ctx, at("postgres", "shop"), "create role link login", "grant postrider_reader to link")
})

// endProducers ends the server of the shops. producers sets it; nil: none was started.
var endProducers func() error

// freePort returns a port that is free and that the system does not assign to those who ask for any.
func freePort() (string, error) {
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("no port is free")
}

func execute(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// shop is the database of a producer, with an empty outbox.
type shop struct {
	url  string    // as the server connects to it
	conn *pgx.Conn // of a superuser
}

var shops atomic.Int64

// newShop makes a shop. The test's end closes its connection.
func newShop(t *testing.T) *shop {
	t.Helper()
	at, err := producers()
	if err != nil {
		t.Fatal(err)
	}
	name := "shop_" + strconv.FormatInt(shops.Add(1), 10)
	if err := execute(t.Context(), at("postgres", "postgres"), "create database "+name+" template shop"); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), at("postgres", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return &shop{at("link", name), conn}
}

// producer makes a role that may publish, unless it is there, and logs it in. All shops have the same roles.
func (s *shop) producer(t *testing.T, role string) {
	t.Helper()
	role = pgx.Identifier{role}.Sanitize()
	if _, err := s.conn.Exec(t.Context(), "create role "+role); err != nil && !strings.Contains(err.Error(), "already exists") {
		t.Fatal(err)
	}
	s.do(t, "grant postrider_producer to "+role)
	s.do(t, "set session authorization "+role)
}

// do runs a statement.
func (s *shop) do(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := s.conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s %.200q: %v", statement, args, err)
	}
}

// fields are the arguments of postrider.publish.
type fields map[string]any

// publish publishes a row. What is wrong with it makes it a rejected one.
func (s *shop) publish(t *testing.T, f fields) {
	t.Helper()
	text, args := "select postrider.publish(on_error => 'reject'", []any{}
	for name, value := range f {
		args = append(args, value)
		text += fmt.Sprintf(", %s => $%d", name, len(args))
	}
	s.do(t, text+")", args...)
}

// source makes a source of the shop, and waits until the API shows as many rejected rows.
func (s *server) source(t *testing.T, of *shop, rejected int) (id string) {
	t.Helper()
	id = s.call(t, "PUT /sources/shop", object{"database_url": of.url}).id("id")
	eventually(t, func() string {
		if n := len(s.call(t, "GET /sources/shop/rejected?limit=50", nil).items()); n != rejected {
			return fmt.Sprintf("%d rows are rejected, want %d", n, rejected)
		}
		return ""
	})
	return id
}
