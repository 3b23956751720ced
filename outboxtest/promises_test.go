package outboxtest_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// publish publishes the numbers from first to last, in the transaction of conn, if there is one.
const publish = `select postrider.publish(account => 'acme', type => 'n', data => json_build_object('n', n))
	from generate_series($1::int, $2::int) n`

// publishKey publishes one number with an ordering key.
const publishKey = `select postrider.publish(account => 'acme', type => 'n', data => json_build_object('n', $1::int), ordering_key => $2)`

func do(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestPromise11RollbacksSendNothing publishes with one ordering key, so that the last event arrives
// after all others that will ever arrive.
func TestPromise11RollbacksSendNothing(t *testing.T) {
	t.Parallel()
	s, to := newShop(t), newReceiver(t)
	newServer(t, s, to)
	conn := s.connect(t)
	do(t, conn, publishKey, 1, "key")
	do(t, conn, "begin")
	do(t, conn, publishKey, 2, "key")
	do(t, conn, "rollback")
	do(t, conn, "begin")
	do(t, conn, publishKey, 3, "key")
	do(t, conn, "savepoint here")
	do(t, conn, publishKey, 4, "key")
	do(t, conn, "rollback to here")
	do(t, conn, publishKey, 5, "key")
	do(t, conn, "commit")
	do(t, conn, "begin")
	do(t, conn, publishKey, 6, "key")
	do(t, conn, "prepare transaction 'undone'")
	do(t, conn, "rollback prepared 'undone'")
	do(t, conn, "begin")
	do(t, conn, publishKey, 7, "key")
	do(t, conn, "prepare transaction 'done'")
	do(t, conn, "commit prepared 'done'")
	if got, want := to.until(t, 7), []int{1, 3, 5, 7}; !slices.Equal(got, want) {
		t.Errorf("%v arrived, want %v", got, want)
	}
}

// TestPromise12CommittedEventsArrive kills the server again and again while transactions publish.
func TestPromise12CommittedEventsArrive(t *testing.T) {
	t.Parallel()
	s, to := newShop(t), newReceiver(t)
	v := newServer(t, s, to)
	conn := s.connect(t)
	const rounds, each = 5, 400
	for round := range rounds {
		do(t, conn, "begin")
		do(t, conn, publish, 1_000_000, 1_000_100)
		do(t, conn, "rollback")
		do(t, conn, publish, round*each+1, (round+1)*each)
		v.end(syscall.SIGKILL)
		v.start(t)
	}
	to.all(t, rounds*each)
}

// TestPromise13OrderOfCommits lets four connections publish with one ordering key, and roll back a
// third of their transactions. Each writes the number into a log while it has the key, so that the
// log has the order of the commits.
func TestPromise13OrderOfCommits(t *testing.T) {
	t.Parallel()
	s, to := newShop(t), newReceiver(t)
	s.run(t, `create table log (at serial, n int); grant all on log, log_at_seq to shop_app`)
	newServer(t, s, to)
	var publishers sync.WaitGroup
	for publisher := range 4 {
		conn := s.connect(t)
		publishers.Go(func() {
			for i := range 100 {
				n := 1 + publisher + 4*i
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), publishKey, n, "key")
					_, logged := tx.Exec(t.Context(), "insert into log (n) values ($1)", n)
					return errors.Join(err, logged, rollBack(rand.IntN(3) == 0))
				})
				if err != nil && !errors.Is(err, errRollBack) {
					t.Errorf("publish %d: %v", n, err)
				}
			}
		})
	}
	publishers.Wait()
	do(t, s.connect(t), publishKey, 1_000, "key")
	got := to.until(t, 1_000)
	want, err := numbers(t, connect(t, connectTo(s.name)), "select n from log order by at")
	if want = append(want, 1_000); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v arrived, want %v, the order of the commits (%v)", got, want, err)
	}
}

var errRollBack = errors.New("roll back")

func rollBack(yes bool) error {
	if yes {
		return errRollBack
	}
	return nil
}

func numbers(t *testing.T, conn *pgx.Conn, query string) ([]int, error) {
	t.Helper()
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}

// TestPromise14PublishersDoNotWait publishes while no server runs, beside a transaction that has
// published and stays open.
func TestPromise14PublishersDoNotWait(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	other, conn := s.connect(t), s.connect(t)
	do(t, other, "begin")
	do(t, other, publishKey, 1, "key")
	do(t, other, publish, 2, 3)
	do(t, conn, "set lock_timeout = '200ms'")
	do(t, conn, publish, 4, 5)
	do(t, conn, publishKey, 6, "another key")
	_, err := conn.Exec(t.Context(), publishKey, 7, "key")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "55P03" {
		t.Errorf("a publish of the same ordering key: %v, want that it waits for the lock", err)
	}
	do(t, other, "commit")
	do(t, conn, publishKey, 7, "key")
}

// TestPromise15EventsWaitWhileTheServerIsDown publishes before there is a server, and while it is
// down.
func TestPromise15EventsWaitWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	s, to := newShop(t), newReceiver(t)
	conn := s.connect(t)
	do(t, conn, publish, 1, 1_000)
	v := newServer(t, s, to)
	v.end(syscall.SIGTERM)
	do(t, conn, publish, 1_001, 2_000)
	v.start(t)
	to.all(t, 2_000)
}
