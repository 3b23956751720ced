package postgres_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

// pooler relays connections between a store and its server. It tells each connection a process
// number that is not the one of its session, as poolers do. It returns the DSN of the database
// behind it.
func pooler(t *testing.T, dsn string) string {
	t.Helper()
	socket := testkit.SharedCluster(t).Socket()
	dir, err := os.MkdirTemp("", "pooler") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", filepath.Join(dir, filepath.Base(socket)))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { relay(t.Context(), client, socket) })
		}
	})
	return strings.Replace(dsn, filepath.Dir(socket), dir, 1)
}

// relay relays one connection, and changes the process number in the message BackendKeyData.
func relay(ctx context.Context, client net.Conn, socket string) {
	defer client.Close()
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return
	}
	defer server.Close()
	var asking sync.WaitGroup
	defer asking.Wait()
	defer client.Close()
	asking.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	buffer := make([]byte, 32<<10)
	for told := false; ; {
		n, err := server.Read(buffer)
		if at := bytes.Index(buffer[:n], []byte{'K', 0, 0, 0, 12}); at >= 0 && at+9 <= n && !told {
			buffer[at+8] ^= 1
			told = true
		}
		if _, late := client.Write(buffer[:n]); late != nil || err != nil {
			return
		}
	}
}

// logged is a log that the test can read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func TestBehindAPoolerTheHeartbeatDecides(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	log := &logged{}
	s, err := postgres.Open(t.Context(), pooler(t, dsn), postgres.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		held, ended := make(chan struct{}), make(chan error, 1)
		var holding sync.WaitGroup
		holding.Go(func() { ended <- s.Hold(ctx, 1, func(string) { close(held) }) })
		select {
		case <-held:
		case err := <-ended:
			t.Fatal(err)
		}
		membership, err := s.Heartbeat(t.Context(), store.Heartbeat{Incarnation: 1, TTL: time.Minute})
		if err != nil || membership.Unlocked || len(membership.Shards) != store.Shards {
			t.Errorf("Heartbeat = %+v, %v; want every shard", membership, err)
		}
		stop()
		holding.Wait()
	}
	membership, err := s.Heartbeat(t.Context(), store.Heartbeat{Incarnation: 2, TTL: time.Minute})
	if err != nil || membership.Nodes != 2 || len(membership.Shards) != 0 {
		t.Errorf("Heartbeat of another node = %+v, %v; want that the first is alive", membership, err)
	}
	if n := log.count("the heartbeat decides"); n != 1 {
		t.Errorf("the log says %d times that the heartbeat decides, want once", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// skewSQL creates a function that returns a shifted time. Sessions whose search path has the
// schema call it in place of the server's own clock function.
const skewSQL = `
	create schema skew;
	create table skew.ahead (ahead interval not null, at timestamptz);
	insert into skew.ahead values ('0', null);
	create function skew.clock_timestamp() returns timestamptz language sql volatile
	return (select coalesce(c.at, pg_catalog.clock_timestamp()) + c.ahead from skew.ahead c)`

func TestAStepOfTheServersClockChangesNothingThatIsDue(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		dsn := freshDSN(t)
		own := connect(t, dsn)
		if _, err := own.PgConn().Exec(t.Context(), skewSQL).ReadAll(); err != nil {
			t.Fatal(err)
		}
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		skewed := dsn + separator + "search_path=public,skew,pg_catalog"
		at := time.Now().UTC().Truncate(time.Microsecond) // both clocks are at the same time
		if _, err := own.Exec(t.Context(), `update skew.ahead set at = $1`, at); err != nil {
			t.Fatal(err)
		}
		opts := postgres.Options{Now: func() time.Time { return at }}
		one, two := openWith(t, skewed, opts), openWith(t, skewed, opts)
		if _, err := own.Exec(t.Context(), `update skew.ahead set ahead = $1`, by); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*postgres.Store{one, two, one} {
			wall, err := s.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if off := wall.Sub(at) - by; off != 0 {
				t.Errorf("by %v: the time of day is off by %v", by, off)
			}
			if off := s.Clock().Now().Sub(at); off != 0 {
				t.Errorf("by %v: the time that decides what is due is off by %v", by, off)
			}
		}
		var version int64
		var ahead time.Duration
		if err := own.QueryRow(t.Context(), `select version, ahead * interval '1 microsecond' from clock`).Scan(&version, &ahead); err != nil {
			t.Fatal(err)
		}
		if version != 2 || ahead != -by {
			t.Errorf("by %v: the adjustment is %v in version %d, want one of %v", by, ahead, version, -by)
		}
	}
}
