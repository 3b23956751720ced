package contract_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 100 * time.Second

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "contract")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "postrider")
	command := exec.Command("go", "build", "-o", program, "./cmd/postrider")
	command.Dir = ".."
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return program, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if program, err := build(); err == nil {
		os.RemoveAll(filepath.Dir(program))
	}
	os.Exit(code)
}

// server is the program of this repository as its users run it: built, in a
// process of its own, on one store.
type server struct {
	settings []string
	folder   string
	url      string
	key      string
	process  *exec.Cmd
	reading  *sync.WaitGroup
	log      *bytes.Buffer
}

// newServer starts a server on an empty store. The test's end ends it.
func newServer(t *testing.T, store ...string) *server {
	t.Helper()
	s := &server{settings: store, folder: t.TempDir()}
	s.start(t, "--dev")
	key, err := os.ReadFile(filepath.Join(s.folder, "admin.key"))
	if err != nil {
		t.Fatalf("read the server's key: %v", err)
	}
	s.key = strings.TrimSpace(string(key))
	t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", s.log.Bytes()[max(0, s.log.Len()-4000):])
		}
	})
	return s
}

var listens = regexp.MustCompile(`postrider listens" api=(\S+)`)

// start starts the process, with more settings.
func (s *server) start(t *testing.T, more ...string) {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{
		"serve", "--log-format=text", "--data-dir", s.folder, "--receiver-control", "--expunge-list", filepath.Join(s.folder, "expunged.ndjson"),
		"--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--archive", "file://" + s.folder,
		"--smtp-url=smtp+plain://127.0.0.1:9", "--smtp-from=hooks@acme.example", // nobody listens there
	}, s.settings, more)
	s.process, s.log, s.reading = exec.Command(program, args...), new(bytes.Buffer), new(sync.WaitGroup)
	s.process.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "POSTRIDER_") })
	log, err := s.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	address, buffer := make(chan string, 1), s.log
	s.reading.Go(func() {
		defer close(address)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(buffer, lines.Text())
			if found := listens.FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
	})
	select {
	case found, ok := <-address:
		if !ok {
			t.Fatalf("the server ended at once:\n%s", buffer)
		}
		s.url = "http://" + found
	case <-time.After(patience):
		t.Fatal("the server does not listen")
	}
}

// end ends the process and waits for it.
func (s *server) end(by syscall.Signal) {
	_ = s.process.Process.Signal(by)
	s.reading.Wait()
	_ = s.process.Wait() // it reports the signal
}

// newDatabase starts a PostgreSQL server with the settings and returns the URL of an empty database, and
// a function that ends the server. The test's end ends it at the latest.
func newDatabase(t *testing.T, settings ...string) (url string, stop func()) {
	t.Helper()
	command := exec.Command("go", append([]string{"run", "./internal/testkit/throwaway"}, settings...)...)
	command.Dir, command.Stderr = "..", os.Stderr
	lifeline, err := command.StdinPipe()
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
	stop = sync.OnceFunc(func() {
		lifeline.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	t.Cleanup(stop)
	lines := bufio.NewScanner(said)
	if !lines.Scan() {
		t.Fatal("PostgreSQL does not start")
	}
	return lines.Text(), stop
}
