// Command throwaway starts a PostgreSQL server for the tests of modules that
// cannot import package testkit. It writes the DSN of an empty database to its
// standard output. Each line that it reads, stop or start, ends the server at
// once or starts it again with the same files, and is answered with the line
// ok. At the end of its standard input the server and its files go.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/postrider/postrider/internal/testkit"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "throwaway:", err)
		os.Exit(1)
	}
}

func run() error {
	cluster, err := testkit.StartPostgres("")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, cluster.DSN("postgres"))
	orders := bufio.NewScanner(os.Stdin)
	for err == nil && orders.Scan() {
		if err = cluster.Control(orders.Text()); err == nil {
			fmt.Fprintln(os.Stdout, "ok")
		}
	}
	return errors.Join(err, orders.Err(), cluster.Stop())
}
