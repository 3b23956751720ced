package contract_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// producers is a PostgreSQL server with the databases of producers. Its database shop is their template: it has
// an outbox, which the program has installed, and a table of the producer's own. The role link reads both.
type producers struct {
	port string
	made atomic.Int64
}

// newProducers starts the server. The test's end ends it.
func newProducers(t *testing.T) *producers {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p := &producers{port: freePort(t)}
	newDatabase(t, "listen_addresses=127.0.0.1", "port="+p.port)
	execute(t, p.url("postgres", "postgres"), "create database shop")
	template := p.url("postgres", "shop")
	if out, err := exec.CommandContext(t.Context(), program, "outbox", "install", "--database-url", template).CombinedOutput(); err != nil {
		t.Fatalf("install an outbox: %v\n%s", err, out)
	}
	conn := execute(t, template, "create role link login", "grant postrider_reader to link",
		"create table outbox (id uuid primary key default gen_random_uuid(), type text, payload json)", "grant select, delete on outbox to link")
	conn.Close(t.Context()) // a template has no connections
	return p
}

// freePort returns a port that is free and that the system does not assign to those who ask for any.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// url returns the URL of a database for a role.
func (p *producers) url(role, database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s?sslmode=disable", role, p.port, database)
}

// database makes the database of another producer, runs the statements, and returns its URL for the role link, and
// a connection to it. The test's end closes the connection.
func (p *producers) database(t *testing.T, statements ...string) (link string, conn *pgx.Conn) {
	t.Helper()
	name := "shop_" + strconv.FormatInt(p.made.Add(1), 10)
	execute(t, p.url("postgres", "postgres"), "create database "+name+" template shop")
	return p.url("link", name), execute(t, p.url("postgres", name), statements...)
}

// execute runs statements and returns the connection. The test's end closes it.
func execute(t *testing.T, url string, statements ...string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return conn
}

// rejected waits until the source has as many rejected rows, and returns the id of the first.
func (c *caller) rejected(source string, rows int) (id string) {
	c.Helper()
	got := c.until("rejected", "GET /sources/"+source+"/rejected", func(a answer) bool { return len(a.items()) == rows })
	return got.items()[0]["id"].(string)
}

// driveRows reads the outbox of a producer, in which rows of each kind are rejected, retried and discarded.
func (c *caller) driveRows(p *producers) {
	c.Helper()
	c.want(201, "POST /accounts", object{"uid": "rows"})
	link, shop := p.database(c.T,
		`select postrider.publish('rows', 'order.paid', '{}')`,
		`select postrider.publish('nobody', 'order.paid', '{}', ordering_key => 'a', idempotency_key => 'b')`,
		`select postrider.publish('nobody', 'order paid', '{}', on_error => 'reject')`,
		`select postrider.publish_bytes('nobody', 'order.exported', 'id,total', 'text/csv')`,
		`select postrider.publish_bytes('nobody', 'order.exported', '\xff', 'application/octet-stream')`,
	)
	open := execute(c.T, shop.Config().ConnString(), "begin", "select pg_current_xact_id()")
	c.want(201, "PUT /sources/rows", object{"database_url": link})
	c.until("moved", "GET /sources/rows", func(a answer) bool { return a.body["state"].(object)["moved_until"] != nil })
	refused := c.rejected("rows", 4)
	c.want(404, "GET /events/"+refused, nil)
	c.want(404, "GET /search?q="+refused, nil)
	page := c.want(200, "GET /sources/rows/rejected?account=nobody&limit=1", nil)
	c.want(200, "GET /sources/rows/rejected?account=nobody&limit=1&cursor="+page.id("next_cursor"), nil)
	c.want(200, "GET /sources/rows/state", nil)
	if err := open.Close(c.Context()); err != nil {
		c.Fatal(err)
	}

	c.want(200, "POST /sources/rows/pause", nil)
	var waits string
	err := shop.QueryRow(c.Context(), `select postrider.publish('rows', 'order.paid', '{}')`).Scan(&waits)
	if err != nil {
		c.Fatal(err)
	}
	c.want(404, "GET /events/"+waits, nil)
	c.want(404, "GET /search?q="+waits, nil)
	c.want(200, "GET /sources/rows/state", nil)
	c.want(200, "POST /sources/rows/rejected/retry", object{"account": "nobody", "code": "not_found", "new_account": "rows"})
	c.want(200, "POST /sources/rows/resume", nil)
	c.until("published", "GET /events/"+waits, func(a answer) bool { return a.status == 200 })
	c.want(200, "POST /sources/rows/rejected/discard", object{"ids": []any{c.rejected("rows", 1)}})
	c.want(204, "DELETE /sources/rows", nil)
}

// driveTable reads a table of the producer's own. A row that cannot be published waits in it.
func (c *caller) driveTable(p *producers) {
	c.Helper()
	link, _ := p.database(c.T, `insert into outbox (type, payload) values ('order.paid', '{"order": 1}'), ('order paid', '{"order": 2}')`)
	table := object{"name": "public.outbox", "id": "id", "type": "type", "data": "payload", "fixed_account": "rows"}
	c.want(201, "PUT /sources/table", object{"database_url": link, "table": table})
	row := c.rejected("table", 1)
	c.want(200, "GET /sources/table/state", nil)
	c.want(422, "POST /sources/table/rejected/retry", object{"ids": []any{row}})
	c.want(200, "POST /sources/table/rejected/discard", object{"ids": []any{row}})
	c.want(204, "DELETE /sources/table", nil)
}
