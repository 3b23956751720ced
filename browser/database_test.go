package browser_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// database is a PostgreSQL server with an empty database.
type database struct {
	url     string
	process *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// newDatabase starts a PostgreSQL server; the test's end ends it.
func newDatabase(t *testing.T) *database {
	t.Helper()
	d, err := startDatabase()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// startDatabase starts a PostgreSQL server with the settings. Its caller ends it.
func startDatabase(settings ...string) (*database, error) {
	command := exec.Command("go", append([]string{"run", "./internal/testkit/throwaway"}, settings...)...)
	command.Dir, command.Stderr = "..", os.Stderr
	orders, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	d := &database{process: command, orders: orders, answers: bufio.NewScanner(said)}
	if !d.answers.Scan() {
		return nil, errors.Join(errors.New("PostgreSQL does not start"), d.end())
	}
	d.url = d.answers.Text()
	return d, nil
}

// end ends the server and removes its files.
func (d *database) end() error {
	d.orders.Close()
	if err := d.process.Wait(); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}

// stop ends the server at once.
func (d *database) stop(t *testing.T) { d.order(t, "stop") }

// start starts it again, with what it had.
func (d *database) start(t *testing.T) { d.order(t, "start") }

func (d *database) order(t *testing.T, action string) {
	t.Helper()
	fmt.Fprintln(d.orders, action) // what goes wrong, its answer says
	if !d.answers.Scan() {
		t.Fatal("PostgreSQL broke")
	}
}
