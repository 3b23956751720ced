package compat_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
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

// server is the program of this repository as its users run it: built, in a
// process of its own, spoken to through its API alone.
type server struct {
	url string
	key string
}

// startServer builds the server and runs it on an empty store until the test
// ends.
func startServer(t *testing.T) *server {
	t.Helper()
	program := filepath.Join(t.TempDir(), "postrider")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/postrider")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	folder := t.TempDir()
	serve := exec.CommandContext(t.Context(), program, "serve", "--dev", "--log-format=text",
		"--data-dir", folder, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	serve.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "POSTRIDER_") })
	serve.Cancel = func() error { return serve.Process.Signal(syscall.SIGTERM) }
	serve.WaitDelay = 20 * time.Second
	s := &server{url: "http://" + listening(t, serve)}
	key, err := os.ReadFile(filepath.Join(folder, "admin.key"))
	if err != nil {
		t.Fatalf("read the server's key: %v", err)
	}
	s.key = strings.TrimSpace(string(key))
	return s
}

var listens = regexp.MustCompile(`postrider listens" api=(\S+)`)

// listening starts the server and returns the address of its API, which is in
// its log.
func listening(t *testing.T, serve *exec.Cmd) string {
	t.Helper()
	log, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	var text strings.Builder
	var reading sync.WaitGroup
	address := make(chan string, 1)
	reading.Go(func() {
		defer close(address)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if found := listens.FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
	})
	t.Cleanup(func() { // the test's context has told it to end
		reading.Wait()
		_ = serve.Wait() // it reports the signal
		if t.Failed() {
			t.Logf("the server's log:\n%s", text.String())
		}
	})
	select {
	case found, ok := <-address:
		if !ok {
			t.Fatal("the server ended at once")
		}
		return found
	case <-time.After(patience):
		t.Fatal("the server does not listen")
	}
	return ""
}

// call calls the API, which must agree, and decodes its answer, unless that is
// nil.
func (s *server) call(t *testing.T, route string, body, answer any) {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	var text io.Reader = http.NoBody
	if raw, ok := body.([]byte); ok {
		text = bytes.NewReader(raw)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatalf("%s: %v", route, err)
		}
		text = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, text)
	if err != nil {
		t.Fatalf("%s: %v", route, err)
	}
	request.Header.Set("Authorization", "Bearer "+s.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", route, err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 {
		t.Fatalf("%s: %s: %s (%v)", route, response.Status, got, err)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(got, answer); err != nil {
		t.Fatalf("%s: %v in %s", route, err, got)
	}
}
