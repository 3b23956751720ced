// Command publish measures what a publish adds to the transactions of a producer.
//
//	go run ./bench/publish -seconds 10 -rounds 5
//	go run ./bench/publish -seconds 10 -rounds 5 -rate 1000
//
// It starts a PostgreSQL and runs pgbench with transactions that insert an order and change a stock, without
// and with a publish. The variants take turns. It prints the medians of the rounds: transactions a second,
// the median latency, and both in proportion to the transaction without a publish in the same round.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

type options struct {
	dir     string
	clients int
	seconds int
	rounds  int
	rate    int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "folder for the database; empty: the system's for temporary files")
	flag.IntVar(&o.clients, "clients", 16, "clients of pgbench")
	flag.IntVar(&o.seconds, "seconds", 10, "seconds of a variant in a round")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds")
	flag.IntVar(&o.rate, "rate", 0, "transactions a second; 0: as many as the clients can make")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

// order is the transaction of the producer, around a place for a publish.
const order = `\set product random(1, 10000)
begin;
insert into orders (product, note) values (:product, 'ordered by a client of the shop');
update stock set n = n - 1 where product = :product;
%s
commit;
`

// variants are the transactions that are compared. The first one has no publish. The two after it tell what a
// further statement costs, and what a producer would pay without checks, order and rights.
var variants = []struct {
	name, publish string
	notify        bool
}{
	{"no publish", "", false},
	{"an empty statement", "select 1;", false},
	{"a row in a table of their own", "insert into messages (account, type, data) values ('acme', 'order.created', '" + data + "');", false},
	{"publish", publish(""), false},
	{"publish, keys that differ", publish(", ordering_key => ':product'"), false},
	{"publish, one key", publish(", ordering_key => 'shop'"), false},
	{"publish, install --notify", publish(""), true},
}

const data = `{"product": :product, "customer": "c-4711", "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]}`

func publish(more string) string {
	return "select postrider.publish('acme', 'order.created', '" + data + "'" + more + ");"
}

// figures are those of one variant in one round.
type figures struct{ perSecond, median float64 }

func run(ctx context.Context, o options, out io.Writer) (err error) {
	if o.clients < 1 || o.seconds < 1 || o.rounds < 1 {
		return errors.New("-clients, -seconds and -rounds must be at least 1")
	}
	if o.rate < 0 {
		return errors.New("-rate must not be negative")
	}
	cluster, err := testkit.StartPostgres(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	dsn, err := cluster.Database(ctx, "shop", nil)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "publish")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	measured := make([][]figures, len(variants))
	for range o.rounds {
		for i, v := range variants {
			if err := prepare(ctx, dsn, v.notify); err != nil {
				return err
			}
			script := filepath.Join(dir, "script")
			if err := os.WriteFile(script, fmt.Appendf(nil, order, v.publish), 0o600); err != nil {
				return err
			}
			command := exec.CommandContext(ctx, cluster.Bin("pgbench"), "--no-vacuum", "--log", "--client", fmt.Sprint(o.clients),
				"--jobs=2", "--time", fmt.Sprint(o.seconds), "--file", script, dsn)
			if o.rate > 0 {
				command.Args = append(command.Args, "--rate", fmt.Sprint(o.rate))
			}
			f, err := bench(command, o.seconds)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			measured[i] = append(measured[i], f)
		}
	}
	return report(out, measured)
}

// prepare makes empty tables.
func prepare(ctx context.Context, dsn string, notify bool) error {
	if err := outbox.Install(ctx, outbox.Config{URL: dsn, Local: true}, notify); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, `
truncate postrider.outbox;
drop table if exists orders, stock, messages;
create table messages (id uuid primary key default gen_random_uuid(), account text, type text, data jsonb, at timestamptz default now());
create index on messages (at);
create table orders (id bigint generated always as identity primary key, product int, note text, at timestamptz default now());
create table stock (product int primary key, n int) with (fillfactor = 70);
insert into stock select g, 1000000 from generate_series(1, 10000) g;
analyze stock;
checkpoint`).ReadAll()
	return err
}

// bench runs pgbench and reads its logs. The protocol is the simple one, because variables in texts need it.
func bench(command *exec.Cmd, seconds int) (figures, error) {
	dir, err := os.MkdirTemp("", "log")
	if err != nil {
		return figures{}, err
	}
	defer os.RemoveAll(dir)
	command.Dir = dir
	if said, err := command.CombinedOutput(); err != nil {
		return figures{}, fmt.Errorf("run pgbench: %w: %s", err, said)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return figures{}, err
	}
	var micros []int
	for _, name := range logs {
		more, err := latencies(name)
		if err != nil {
			return figures{}, err
		}
		micros = append(micros, more...)
	}
	if len(micros) == 0 {
		return figures{}, errors.New("pgbench has made no transaction")
	}
	slices.Sort(micros)
	return figures{float64(len(micros)) / float64(seconds), float64(micros[len(micros)/2]) / 1000}, nil
}

// latencies reads a log of pgbench. The third field of a line is the latency in microseconds.
func latencies(name string) (micros []int, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var client, number, took int
		if _, err := fmt.Sscan(lines.Text(), &client, &number, &took); err != nil {
			return nil, fmt.Errorf("read the log of pgbench: %w", err)
		}
		micros = append(micros, took)
	}
	return micros, lines.Err()
}

// report prints a row for each variant.
func report(out io.Writer, measured [][]figures) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| transaction | a second | share | median ms | more ms |\n|---|--:|--:|--:|--:|\n", time.Now().UTC().Format(time.DateOnly))
	for i, v := range variants {
		var perSecond, share, median, more []float64
		for round, f := range measured[i] {
			plain := measured[0][round]
			perSecond, share = append(perSecond, f.perSecond), append(share, f.perSecond/plain.perSecond)
			median, more = append(median, f.median), append(more, f.median-plain.median)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.2f | %+.2f |\n", v.name, middle(perSecond), middle(share), middle(median), middle(more))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
