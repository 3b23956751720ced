// Command database-sql places two orders with database/sql: one transaction commits and one is
// rolled back. PGHOST, PGDATABASE and PGUSER say where the database is.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
)

// docs:begin

type order struct {
	Number string `json:"number"`
	Total  int    `json:"total"`
}

// place stores an order and publishes its event, both in tx.
func place(ctx context.Context, tx *sql.Tx, o order) (event string, err error) {
	if _, err := tx.ExecContext(ctx, "insert into orders (number, total) values ($1, $2)", o.Number, o.Total); err != nil {
		return "", fmt.Errorf("insert order: %w", err)
	}
	data, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("encode order: %w", err)
	}
	const publish = "select postrider.publish(account => $1, type => $2, data => $3)"
	if err := tx.QueryRowContext(ctx, publish, "acme", "order.created", string(data)).Scan(&event); err != nil {
		return "", fmt.Errorf("publish order: %w", err)
	}
	return event, nil
}

// docs:end

// docs:begin

// placePaid commits the order and its event if pay succeeds. Otherwise it rolls both back.
func placePaid(ctx context.Context, db *sql.DB, o order, pay func() error) (event string, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback() // after a commit it does nothing
	if event, err = place(ctx, tx, o); err != nil {
		return "", err
	}
	if err := pay(); err != nil {
		return "", err
	}
	return event, tx.Commit()
}

// docs:end

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	db, err := sql.Open("pgx", "")
	if err != nil {
		return err
	}
	defer db.Close()

	event, err := placePaid(ctx, db, order{"A-1", 4200}, func() error { return nil })
	if err != nil {
		return err
	}
	fmt.Println(event)

	declined := errors.New("the card was declined")
	_, err = placePaid(ctx, db, order{"A-2", 100}, func() error { return declined })
	if !errors.Is(err, declined) {
		return err
	}
	return nil
}
