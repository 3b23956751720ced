package outboxtest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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

// server is the program of this repository on SQLite, which reads the outbox of a shop. It has an
// account acme with one endpoint.
type server struct {
	folder  string
	api     string
	process *exec.Cmd
	reading *sync.WaitGroup
}

// newServer starts a server that reads the outbox of the shop and sends its events to the receiver,
// those of one ordering key in sequence. The test's end ends the server.
func newServer(t *testing.T, s shop, to *receiver) *server {
	t.Helper()
	v := &server{folder: t.TempDir()}
	v.start(t)
	t.Cleanup(func() { v.end(syscall.SIGTERM) })
	v.run(t, "accounts", "create", "acme")
	v.run(t, "endpoints", "create", to.url, "--account", "acme", "--payload", "raw", "--order", "by_key")
	v.run(t, "sources", "put", "shop", "--database-url", connectTo(s.name))
	return v
}

var listens = regexp.MustCompile(`postrider listens" api=(\S+)`)

// start starts the server with the data of its folder, and waits until it listens.
func (v *server) start(t *testing.T) {
	t.Helper()
	v.process = exec.Command(postrider, "serve", "--dev", "--log-format=text",
		"--data-dir", v.folder, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	v.process.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "POSTRIDER_") })
	log, err := v.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.process.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	v.reading = &sync.WaitGroup{}
	v.reading.Go(func() {
		defer close(address)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if found := listens.FindStringSubmatch(lines.Text()); found != nil {
				address <- found[1]
			}
		}
	})
	v.api = "http://" + <-address
	if v.api == "http://" {
		t.Fatal("the server ended at once")
	}
}

// end ends the server by a signal and waits for its end.
func (v *server) end(by os.Signal) {
	_ = v.process.Process.Signal(by)
	v.reading.Wait()
	_ = v.process.Wait() // it reports the signal
}

// run runs a command on the server.
func (v *server) run(t *testing.T, words ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), postrider, words...)
	command.Env = append(os.Environ(), "POSTRIDER_URL="+v.api, "POSTRIDER_DATA_DIR="+v.folder)
	if _, err := output(command); err != nil {
		t.Fatal(err)
	}
}

// receiver accepts all webhooks.
type receiver struct {
	url      string
	received chan int // the number of each webhook
}

// newReceiver starts a receiver of events whose data is {"n": number}.
func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{received: make(chan int, 100_000)}
	listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var data struct{ N int }
		if err == nil {
			err = json.Unmarshal(body, &data)
		}
		if err != nil {
			t.Errorf("the webhook %q: %v", body, err)
		}
		r.received <- data.N
	}))
	t.Cleanup(listener.Close)
	r.url = listener.URL
	return r
}

// until returns the numbers of the webhooks in the order of their arrival, up to the given one.
func (r *receiver) until(t *testing.T, last int) (numbers []int) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case n := <-r.received:
			if numbers = append(numbers, n); n == last {
				return numbers
			}
		case <-timeout:
			t.Fatalf("the webhook %d did not arrive; %d others did", last, len(numbers))
		}
	}
}

// all waits until each number from 1 to n has arrived, in any order. An event may arrive twice.
func (r *receiver) all(t *testing.T, n int) {
	t.Helper()
	timeout := time.After(patience)
	for arrived := make([]bool, n+1); n > 0; {
		select {
		case got := <-r.received:
			if got < 1 || got >= len(arrived) {
				t.Fatalf("the webhook %d arrived, which no transaction committed", got)
			}
			if !arrived[got] {
				arrived[got], n = true, n-1
			}
		case <-timeout:
			t.Fatalf("%d webhooks did not arrive", n)
		}
	}
}
