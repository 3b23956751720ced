// Command throwaway starts a PostgreSQL server for the tests of modules that cannot import package
// testkit. It writes the DSN of an empty database to its standard output. The input line stop ends
// the server at once; the line start starts it again with the same files. The answer to each is the
// line ok. When the standard input ends, the server ends and its files are removed. Its arguments are
// configuration parameters of the server, as name=value.
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
	cluster, err := testkit.StartPostgres("", os.Args[1:]...)
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
