package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

// outboxes connects to the databases of sources.
type outboxes struct {
	store store.Sources
	vault *secrets.Vault
	dial  func(ctx context.Context, network, address string) (net.Conn, error) // keeps to the rules for egress
}

// Open connects to the database of the source. The caller closes the result.
func (o outboxes) Open(ctx context.Context, s postrider.Source) (*outbox.DB, error) {
	password, err := o.vault.DecryptSource(ctx, s)
	if err != nil {
		return nil, err
	}
	return outbox.Open(ctx, outbox.Config{URL: s.URL, Password: password, CA: s.CA, Table: s.Table, Source: s.ID, Dial: o.dial})
}

// openTime is the time for which an expunge waits for a connection to one database.
const openTime = 30 * time.Second

// Expunge removes all rows of an account from the outboxes of all sources but those that are away already.
func (o outboxes) Expunge(ctx context.Context, away map[string]error, account ...string) (rows int64, err error) {
	sources, err := o.store.Sources(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range sources {
		if away[s.Name] == nil {
			n, fault := o.expungeOf(ctx, s, account)
			rows += n
			away[s.Name] = fault
		}
		if fault := away[s.Name]; fault != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.Name, fault))
		}
	}
	return rows, err
}

func (o outboxes) expungeOf(ctx context.Context, s postrider.Source, account []string) (int64, error) {
	opens, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	db, err := o.Open(opens, s)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return db.Expunge(ctx, account...)
}
