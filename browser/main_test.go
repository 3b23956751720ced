package browser_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// update is the flag -update: the screenshots in docs are written anew.
var update bool

// shared is the folder of what all tests use: the program and axe-core.
var shared = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "browser") })

func TestMain(m *testing.M) {
	flag.BoolVar(&update, "update", false, "write the screenshots in docs/screenshots anew")
	flag.Parse()
	code := m.Run()
	endChromium()
	if endProducers != nil {
		if err := endProducers(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if dir, err := shared(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// build builds the program of this repository and returns its path.
var build = sync.OnceValues(func() (string, error) { return buildProgram("cmd/postrider") })

// buildProgram builds a program of this repository and returns its path.
func buildProgram(folder string) (string, error) {
	dir, err := shared()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, filepath.Base(folder))
	command := exec.Command("go", "build", "-o", program, "./"+folder)
	command.Dir = ".."
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	return program, nil
}

// eventually repeats try until it returns nothing. Its text says what is still
// missing.
func eventually(t *testing.T, try func() string) {
	t.Helper()
	within(t, patience, try)
}

func within(t *testing.T, limit time.Duration, try func() string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		missing := try()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", limit, missing)
		}
	}
}
