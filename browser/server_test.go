package browser_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
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

type object = map[string]any

// server is the program of this repository as its users run it: built, in a
// process of its own, in dev mode, on a store of its own.
type server struct {
	url     string
	folder  string // of its data
	key     string // the admin's
	process *exec.Cmd
	reading sync.WaitGroup

	mu  sync.Mutex
	log bytes.Buffer
}

var listens = regexp.MustCompile(`postrider listens" api=(\S+)`)

// newServer starts a server on an empty store: SQLite, unless the settings say
// otherwise. The test's end kills it.
func newServer(t *testing.T, settings ...string) *server {
	t.Helper()
	s := startServer(t, t.TempDir(), settings...)
	key, err := os.ReadFile(filepath.Join(s.folder, "admin.key"))
	if err != nil {
		t.Fatalf("read the server's key: %v", err)
	}
	s.key = strings.TrimSpace(string(key))
	return s
}

// startServer starts a server on the data of a folder. Its keys are those of its store.
func startServer(t *testing.T, folder string, settings ...string) *server {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{folder: folder}
	s.process = exec.Command(program, slices.Concat([]string{
		"serve", "--dev", "--log-format=text", "--data-dir", folder, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0",
		"--archive", "file://" + t.TempDir(),
	}, settings)...)
	s.process.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "POSTRIDER_") })
	log, err := s.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	t.Cleanup(func() { s.end(t) })
	address := make(chan string, 1)
	s.reading.Go(func() { s.read(log, address) })
	select {
	case found, ok := <-address:
		if !ok {
			t.Fatal("the server ended at once")
		}
		s.url = "http://" + found
	case <-time.After(patience):
		t.Fatal("the server does not listen")
	}
	return s
}

// command runs a command of the program, and returns its output. It knows the server and
// its key.
func (s *server) command(t *testing.T, args ...string) string {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "POSTRIDER_URL="+s.url, "POSTRIDER_API_KEY="+s.key)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("postrider %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// read keeps the log, and sends the address that it names.
func (s *server) read(log io.Reader, address chan<- string) {
	defer close(address)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		s.mu.Lock()
		fmt.Fprintln(&s.log, lines.Text())
		s.mu.Unlock()
		if found := listens.FindStringSubmatch(lines.Text()); found != nil {
			address <- found[1]
		}
	}
}

// end kills the process and waits for it. The log of a server that panicked
// fails its test.
func (s *server) end(t *testing.T) {
	t.Helper()
	_ = s.process.Process.Signal(syscall.SIGKILL) // it may have ended
	s.reading.Wait()
	_ = s.process.Wait() // it reports the signal
	log := s.log.Bytes()
	if bytes.Contains(log, []byte("panic")) {
		t.Error("the server's log tells of a panic")
	}
	if t.Failed() {
		t.Logf("the end of the server's log:\n%s", log[max(0, len(log)-4000):])
	}
}

// answer is what the API answered.
type answer struct {
	status int
	text   string
	body   object
}

// id returns a text of the answer.
func (a answer) id(name string) string {
	text, _ := a.body[name].(string)
	return text
}

// items returns the items of a list.
func (a answer) items() []object {
	var items []object
	data, _ := a.body["data"].([]any)
	for _, item := range data {
		items = append(items, item.(object))
	}
	return items
}

// call sends a request to the API, as METHOD and path below /v1/webhooks, with
// the admin's key. It fails the test unless the answer is a success. Any
// goroutine may call it.
func (s *server) call(t *testing.T, route string, body any) answer {
	t.Helper()
	got := s.ask(t, s.key, route, body)
	if got.status/100 != 2 {
		t.Errorf("%s %v = %d %s", route, body, got.status, got.text)
	}
	return got
}

// ask is call with another key, for any answer.
func (s *server) ask(t *testing.T, key, route string, body any) answer {
	t.Helper()
	method, path, _ := strings.Cut(route, " ")
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // hostile texts are sent as they are
	if err := encoder.Encode(body); err != nil {
		t.Errorf("%s: %v", route, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+"/v1/webhooks"+path, &text)
	if err != nil {
		t.Errorf("%s: %v", route, err)
		return answer{}
	}
	request.Header.Set("Authorization", "Bearer "+key)
	if body == nil {
		request.Body, request.ContentLength = nil, 0
	} else {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("%s: %v", route, err)
		return answer{}
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s: %v", route, err)
	}
	got := answer{status: response.StatusCode, text: string(said)}
	if len(said) > 0 && json.Unmarshal(said, &got.body) != nil {
		t.Errorf("%s answers no JSON: %s", route, said)
	}
	return got
}

// publish publishes an event and returns its id and that of its first
// delivery, if it has one.
func (s *server) publish(t *testing.T, account, eventType string, more object) (event, delivery string) {
	t.Helper()
	body := object{"account": account, "type": eventType, "data": object{"n": 1}}
	for name, value := range more {
		body[name] = value
	}
	event = s.call(t, "POST /events", body).id("id")
	if items := s.call(t, "GET /events/"+event+"/deliveries", nil).items(); len(items) > 0 {
		delivery, _ = items[0]["id"].(string)
	}
	return event, delivery
}

// settled waits until a delivery has the status.
func (s *server) settled(t *testing.T, delivery, status string) {
	t.Helper()
	eventually(t, func() string {
		if got := s.call(t, "GET /deliveries/"+delivery, nil); got.id("status") != status {
			return "the delivery is not " + status + ": " + got.text
		}
		return ""
	})
}
