package browser_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// database is a PostgreSQL server with an empty database.
type database struct {
	url     string
	orders  io.Writer
	answers *bufio.Scanner
}

// newDatabase starts a PostgreSQL server; the test's end ends it.
func newDatabase(t *testing.T) *database {
	t.Helper()
	command := exec.Command("go", "run", "./internal/testkit/throwaway")
	command.Dir, command.Stderr = "..", os.Stderr
	orders, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		orders.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	d := &database{orders: orders, answers: bufio.NewScanner(said)}
	d.url = d.answer(t)
	return d
}

func (d *database) answer(t *testing.T) string {
	t.Helper()
	if !d.answers.Scan() {
		t.Fatal("PostgreSQL broke")
	}
	return d.answers.Text()
}

// stop ends the server at once.
func (d *database) stop(t *testing.T) { d.order(t, "stop") }

// start starts it again, with what it had.
func (d *database) start(t *testing.T) { d.order(t, "start") }

func (d *database) order(t *testing.T, action string) {
	t.Helper()
	fmt.Fprintln(d.orders, action) // what goes wrong, its answer says
	d.answer(t)
}
