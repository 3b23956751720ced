// Command pgx places two orders with pgx: one transaction commits and one is rolled back. PGHOST,
// PGDATABASE and PGUSER say where the database is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

// docs:begin

type order struct {
	Number string `json:"number"`
	Total  int    `json:"total"`
}

// place stores an order and publishes its event, both in tx.
func place(ctx context.Context, tx pgx.Tx, o order) (event string, err error) {
	if _, err := tx.Exec(ctx, "insert into orders (number, total) values ($1, $2)", o.Number, o.Total); err != nil {
		return "", fmt.Errorf("insert order: %w", err)
	}
	const publish = "select postrider.publish(account => $1, type => $2, data => $3)"
	if err := tx.QueryRow(ctx, publish, "acme", "order.created", o).Scan(&event); err != nil {
		return "", fmt.Errorf("publish order: %w", err)
	}
	return event, nil
}

// docs:end

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)

	// docs:begin
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		event, err := place(ctx, tx, order{"A-1", 4200})
		fmt.Println(event)
		return err
	})
	// docs:end
	if err != nil {
		return err
	}

	// docs:begin
	declined := errors.New("the card was declined")
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := place(ctx, tx, order{"A-2", 100}); err != nil {
			return err
		}
		return declined // rolls back: no order, no event
	})
	// docs:end
	if !errors.Is(err, declined) {
		return err
	}
	return nil
}
