package postgres

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// counted counts the bytes that a connection reads.
type counted struct {
	net.Conn

	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// A part of the archive takes 16 MiB of rows. Those behind it are read again for the next part, so
// few may be read in vain; and while the archive rests, no query is open.
func TestThePagesOfAnArchiveAreNotReadInVain(t *testing.T) {
	t.Parallel()
	const part = 16 << 20
	for name, size := range map[string]int{"256 kB": 256 << 10, "1 MB": 1 << 20, "2 kB": 2 << 10} {
		dsn := testkit.Postgres(t, Migrate)
		config, err := parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		var read atomic.Int64
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return counted{conn, &read}, err
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		s := &Store{pool: pool}
		_, err = pool.Exec(t.Context(), `
			insert into events (id, account, type, data, api_version, ordering_key, hops, sequence, created_at)
			select (lpad(to_hex(floor(extract(epoch from now()) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 19))::uuid,
				gen_random_uuid(), 'order.created', $1, '', '', 0, 0, now()
			from generate_series(1, $2::int) i`, noise(size), 1+20<<20/size)
		if err != nil {
			t.Fatal(err)
		}
		read.Store(0)
		taken, open := 0, int32(0)
		err = s.ArchiveRows(t.Context(), store.ArchiveRows{Kind: store.OldEvents, Day: store.DayOf(time.Now())},
			func(row store.ArchivedRow) bool {
				open = max(open, pool.Stat().AcquiredConns())
				taken += len(row.Event.Data)
				return taken < part
			})
		if got := float64(read.Load()) / float64(taken); err != nil || taken < part || got > 1.4 || open > 0 {
			t.Errorf("rows of %s: %.1f bytes were read for each of %d, %d queries were open meanwhile, %v; want at most 1.4 and none", name, got,
				taken, open, err)
		}
	}
}

// noise returns bytes that no table compresses.
func noise(n int) []byte {
	data := make([]byte, n)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(data) // never fails
	return data
}
