package outboxtest_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

var (
	scratch   string // a folder for the files of all tests
	postrider string // the program of this repository
	cluster   string // address of a PostgreSQL server
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runAll builds the program, starts a PostgreSQL server with the template of all shops, and runs
// the tests.
func runAll(m *testing.M) (code int, err error) {
	if scratch, err = os.MkdirTemp("", "outbox"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	postrider = filepath.Join(scratch, "postrider")
	build := exec.Command("go", "build", "-o", postrider, "./cmd/postrider")
	build.Dir = ".."
	if _, err := output(build); err != nil {
		return 1, err
	}

	port, err := freePort()
	if err != nil {
		return 1, err
	}
	server := exec.Command("go", "run", "./internal/testkit/throwaway", "listen_addresses=127.0.0.1", "port="+port,
		"max_prepared_transactions=10")
	server.Dir, server.Stderr = "..", os.Stderr
	lifeline, err := server.StdinPipe()
	if err != nil {
		return 1, err
	}
	said, err := server.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := server.Start(); err != nil {
		return 1, err
	}
	defer func() {
		lifeline.Close()
		if failed := server.Wait(); failed != nil {
			code, err = 1, fmt.Errorf("stop PostgreSQL: %w", failed)
		}
	}()
	lines := bufio.NewScanner(said)
	if !lines.Scan() {
		return 1, fmt.Errorf("start PostgreSQL: %w", lines.Err())
	}
	cluster = "127.0.0.1:" + port
	if err := makeTemplate(context.Background()); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// makeTemplate makes the database shop, of which every test gets a copy: a table of orders, the
// outbox, and the role shop_app, which may publish.
func makeTemplate(ctx context.Context) error {
	if err := execute(ctx, connectTo("postgres"), `create database shop`, `create role shop_app login`); err != nil {
		return err
	}
	template := connectTo("shop")
	install := exec.Command(postrider, "outbox", "install", "--database-url", template)
	if _, err := output(install); err != nil {
		return err
	}
	return execute(ctx, template,
		`create table orders (id bigint generated always as identity primary key, number text not null unique, total integer not null)`,
		`grant select, insert on orders to shop_app`,
		`grant postrider_producer to shop_app`,
	)
}

func execute(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
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

// connectTo returns the connection string of a database of the cluster, as the superuser.
func connectTo(database string) string {
	return "postgres://postgres@" + cluster + "/" + database + "?sslmode=disable"
}

// freePort returns a port that is free and that the system does not assign. The system assigns ports
// from 32768 on to listeners and connections that ask for any port.
func freePort() (string, error) {
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("no port is free")
}

// shop is a producer's database.
type shop struct{ name string }

var shops atomic.Int64

// newShop makes a shop with no orders and an empty outbox.
func newShop(t *testing.T) shop {
	t.Helper()
	s := shop{"shop_" + strconv.FormatInt(shops.Add(1), 10)}
	if err := execute(t.Context(), connectTo("postgres"), `create database `+s.name+` template shop`); err != nil {
		t.Fatal(err)
	}
	return s
}

// env returns the variables with which programs connect to the shop.
func (s shop) env(user string) []string {
	host, port, _ := net.SplitHostPort(cluster)
	return []string{"PGHOST=" + host, "PGPORT=" + port, "PGDATABASE=" + s.name, "PGUSER=" + user}
}

// connect returns a connection of the role shop_app.
func (s shop) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	return connect(t, strings.Replace(connectTo(s.name), "postgres@", "shop_app@", 1))
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// column returns the values of a query with one column of text, as the superuser sees them.
func (s shop) column(t *testing.T, query string) []string {
	t.Helper()
	rows, err := connect(t, connectTo(s.name)).Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// run executes statements as the superuser.
func (s shop) run(t *testing.T, statements string) {
	t.Helper()
	if err := execute(t.Context(), connectTo(s.name), statements); err != nil {
		t.Error(err)
	}
}

// output returns what a program wrote to its standard output. It must succeed.
func output(command *exec.Cmd) (string, error) {
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w (make setup installs the programs)\n%s%s", command, err, out, complaints.String())
	}
	return string(out), nil
}
