package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/postrider/postrider/internal/testkit"
)

// Producer is the PostgreSQL of a producer, apart from the stores of servers. It listens on the loopback interface.
type Producer struct {
	// URL connects to its database as its superuser.
	URL string

	cluster *testkit.Cluster
}

// StartProducer starts the PostgreSQL of a producer. The caller must stop it.
func (l *Lab) StartProducer(ctx context.Context) (*Producer, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("start producer: %w", err)
	}
	home := filepath.Join(l.dir, "producer") // see Lab.postgres
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chmod(home, 0o777)); err != nil {
		return nil, fmt.Errorf("start producer: %w", err)
	}
	cluster, err := testkit.StartPostgres(home, "listen_addresses=127.0.0.1", "port="+port, "max_prepared_transactions=64")
	if err != nil {
		return nil, err
	}
	return &Producer{"postgres://postgres@" + address + "/postgres?sslmode=disable", cluster}, nil
}

// Usage returns what the producer's PostgreSQL has used since it started.
func (p *Producer) Usage() (Usage, error) { return clusterUsage(p.cluster) }

// Stop ends the producer's PostgreSQL and removes its files.
func (p *Producer) Stop() error { return p.cluster.Stop() }

// Crash ends the producer's PostgreSQL at once, and starts it again.
func (p *Producer) Crash() error { return crash(p.cluster) }

// CrashPostgres ends the PostgreSQL of the stores at once, and starts it again.
func (l *Lab) CrashPostgres() error { return crash(l.cluster) }

func crash(c *testkit.Cluster) error { return errors.Join(c.Control("stop"), c.Control("start")) }
