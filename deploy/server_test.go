package deploy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 100 * time.Second

// wait polls until done, at most for patience.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if done() {
			return
		}
	}
	t.Fatalf("%s: not within %v", what, patience)
}

// run starts a program, ends it with the test, and returns the first match of the pattern in
// what it logs on standard error.
func run(t *testing.T, pattern, program string, args ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "POSTRIDER_") })
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	var reading sync.WaitGroup
	found, wanted := make(chan []string, 1), regexp.MustCompile(pattern)
	reading.Go(func() {
		defer close(found)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			fmt.Fprintln(&said, lines.Text())
			if match := wanted.FindStringSubmatch(lines.Text()); match != nil && len(found) == 0 {
				found <- match
			}
		}
	})
	t.Cleanup(func() {
		_ = command.Process.Kill()
		reading.Wait()
		_ = command.Wait() // it reports the kill
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", program, said.Bytes()[max(0, said.Len()-4000):])
		}
	})
	select {
	case match := <-found:
		if match == nil {
			t.Fatalf("%s ended at once", program)
		}
		return match
	case <-time.After(patience):
		t.Fatalf("%s does not start", program)
	}
	return nil
}

var build = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "deploy")
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "build", "-o", filepath.Join(folder, "postrider"), "./cmd/postrider")
	command.Dir = ".."
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return filepath.Join(folder, "postrider"), nil
})

// program returns the program of this repository, built once.
func program(t *testing.T) string {
	t.Helper()
	built, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // helm says for each load that the chart has symbolic links
	code := m.Run()
	if built, err := build(); err == nil {
		os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// startPostrider starts a server on SQLite, backs it up, and has it open and close two circuits,
// deliver an event to one endpoint, end its delivery to the other, and refuse a second event. It
// returns the address of its metrics.
func startPostrider(t *testing.T) (ops string) {
	t.Helper()
	folder := t.TempDir()
	match := run(t, `postrider listens" api=(\S+) ops=(\S+)`, program(t), "serve", "--dev",
		"--data-dir="+filepath.Join(folder, "data"), "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	backup := exec.CommandContext(t.Context(), program(t), "backup", "--data-dir="+filepath.Join(folder, "data"),
		"--to="+filepath.Join(folder, "backup.db"))
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("back up: %v\n%s", err, out)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(receiver.Close)
	key := strings.TrimSpace(string(readFile(t, filepath.Join(folder, "data", "admin.key"))))
	api := "http://" + match[1] + "/v1/webhooks"
	post(t, api+"/accounts", key, http.StatusCreated, map[string]any{"uid": "acme"})
	for _, path := range []string{"/good", "/gone"} {
		made := post(t, api+"/endpoints", key, http.StatusCreated,
			map[string]any{"account": "acme", "url": receiver.URL + path, "event_types": []string{"*"}})
		for _, status := range []string{"open", "closed"} {
			post(t, api+"/endpoints/"+made+"/circuit", key, http.StatusOK, map[string]any{"status": status})
		}
	}
	post(t, api+"/events", key, http.StatusAccepted, map[string]any{"account": "acme", "type": "order.created", "data": map[string]any{}})
	post(t, api+"/events", key, http.StatusUnprocessableEntity, map[string]any{"account": "acme", "type": "", "data": map[string]any{}})
	send(t, http.MethodPut, api+"/sources/shop?check=false", key, http.StatusCreated, // nobody listens there
		map[string]any{"database_url": "postgres://reader@127.0.0.1:1/shop?sslmode=disable"})
	return match[2]
}

// post makes a request of the API, checks its status, and returns the id of what it made.
func post(t *testing.T, to, key string, status int, body any) (id string) {
	t.Helper()
	return send(t, http.MethodPost, to, key, status, body)
}

// send makes a request of the API by the method, as post does.
func send(t *testing.T, method, to, key string, status int, body any) (id string) {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, to, bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var made struct{ ID string }
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil || response.StatusCode != status {
		t.Fatalf("%s %s: %s, %v, want %d\n%s", method, to, response.Status, err, status, text)
	}
	return made.ID
}

// prometheus is a Prometheus that runs.
type prometheus struct{ url string }

// startPrometheus starts one that scrapes the server once a second and evaluates the rules.
func startPrometheus(t *testing.T, ops string) prometheus {
	t.Helper()
	folder := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs:\n"+
		"  - {job_name: postrider, static_configs: [{targets: [%q]}]}\n", ops)
	rules := bytes.ReplaceAll(readFile(t, ruleFile), []byte("interval: 30s"), []byte("interval: 1s"))
	for name, body := range map[string][]byte{"prometheus.yml": []byte(config), "rules.yml": rules} {
		if err := os.WriteFile(filepath.Join(folder, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A port that the system gives to nobody else, at an address that nobody else uses.
	address := fmt.Sprintf("127.%d.%d.%d:9090", rand.IntN(256), rand.IntN(256), 2+rand.IntN(250))
	run(t, "Server is ready to receive web requests", tool(t, "prometheus"), "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	return prometheus{"http://" + address}
}

// get asks the API of Prometheus and returns what is in "data".
func (p prometheus) get(t *testing.T, path string, parameters url.Values, data any) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path+"?"+parameters.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return nil
}

// series returns how many series the query has now.
func (p prometheus) series(t *testing.T, query string) (int, error) {
	t.Helper()
	var data struct{ Result []any }
	err := p.get(t, "/api/v1/query", url.Values{"query": {query}}, &data)
	return len(data.Result), err
}
