package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"postrider": main})
}

// TestScript runs the scripts of testdata/script, which are sessions with the program. They have
// some commands besides those of testscript:
//
//	serve [flag…]           run a server on free ports; sets ADDRESS, POSTRIDER_URL, OPS and OPS_ADDRESS
//	drain                   end it with SIGTERM; it must exit with 0
//	insist                  send SIGTERM, and more of them once it drains; they must end it
//	crash                   end it with SIGKILL
//	receiver [code…]        receive webhooks, and answer with the codes in turn, the last one for good,
//	                        0 never, 429+60 with Retry-After: 60, 500+abort with webhook-delivery: abort;
//	                        sets RECEIVER
//	received n              wait for the n-th webhook, and write it to the files head and body
//	accepted n              wait until n webhooks were answered with 2xx, and write their webhook-sequence headers, in
//	                        the order they came, to a file for each data.key
//	until pattern program…  run the program until its output matches
//	capture name pattern    set a variable to the group of the pattern in the last output
//	code n program…         run the program, which must exit with n
//
// The folder tls has the certificate of an authority in ca.pem, and a client's certificate and key
// in client.pem and client.key.
func TestScript(t *testing.T) {
	t.Parallel()
	files := certificates(t)
	testscript.Run(t, params(testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			return os.CopyFS(filepath.Join(env.WorkDir, "tls"), files)
		},
	}))
}

// certificates returns a folder with an authority's certificate, and the certificate and the key of
// a client.
func certificates(t *testing.T) fs.FS {
	t.Helper()
	ca := testkit.NewCA(t)
	own := ca.Certificate(t, time.Now().Add(time.Hour), "client")
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{
		"ca.pem":     {Data: ca.PEM()},
		"client.pem": {Data: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})},
		"client.key": {Data: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})},
	}
}

// TestScriptOnPostgreSQL runs some scripts on PostgreSQL: those of the promises, and those whose
// behaviour each store implements itself.
func TestScriptOnPostgreSQL(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/script/promise-*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range []string{"backlog", "circuit", "ordered", "ordering", "outlives"} {
		scripts = append(scripts, "testdata/script/"+name+".txtar")
	}
	testscript.Run(t, params(testscript.Params{
		Files: scripts,
		Setup: func(env *testscript.Env) error {
			empty := func(context.Context, string) error { return nil } // the server makes its tables
			env.Setenv("POSTRIDER_DATABASE_URL", testkit.Postgres(t, empty))
			return nil
		},
	}))
}

func params(p testscript.Params) testscript.Params {
	prepare := p.Setup
	p.Setup = func(env *testscript.Env) error {
		// Under the race detector, a program waits for a second before it exits, for reports from
		// other threads. The scripts run 700 programs. Only the servers can have races, and they
		// wait for their goroutines themselves.
		env.Setenv("GORACE", "atexit_sleep_ms=0")
		return prepare(env)
	}
	p.RequireExplicitExec = true
	p.RequireUniqueNames = true
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"serve": serve, "drain": drain, "insist": insist, "crash": crash, "receiver": receive, "received": received, "accepted": accepted,
		"until": until, "capture": capture, "code": code,
	}
	return p
}

// patience is how long a script waits for an event.
const patience = 30 * time.Second

// processes are the running servers of scripts, by the script's folder.
var processes sync.Map

func serve(ts *testscript.TestScript, _ bool, args []string) {
	// The binary runs as a program of its own, so that a signal ends it as in production.
	command := exec.Command(lookPath(ts, "postrider"), append([]string{
		"serve", "--dev", "--log-format=text", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0",
	}, args...)...)
	command.Dir = ts.MkAbs(".")
	command.Env = environment(ts)
	out, err := os.OpenFile(ts.MkAbs("serve.out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer out.Close()
	command.Stdout = out
	log, err := command.StderrPipe()
	ts.Check(err)
	ts.Check(command.Start())
	s := &process{command: command, listening: make(chan [2]string, 1)}
	s.reading.Go(func() { s.read(log) })
	processes.Store(ts.MkAbs("."), s)
	ts.Defer(func() { s.end(syscall.SIGKILL) })

	select {
	case addresses, ok := <-s.listening:
		if !ok {
			ts.Fatalf("the server ended at once:\n%s", s.text())
		}
		ts.Setenv("ADDRESS", addresses[0])
		ts.Setenv("POSTRIDER_URL", "http://"+addresses[0])
		ts.Setenv("OPS", "http://"+addresses[1])
		ts.Setenv("OPS_ADDRESS", addresses[1])
	case <-time.After(patience):
		ts.Fatalf("the server does not listen:\n%s", s.text())
	}
}

func drain(ts *testscript.TestScript, _ bool, _ []string) {
	loaded, ok := processes.LoadAndDelete(ts.MkAbs("."))
	if !ok {
		ts.Fatalf("no server runs")
	}
	s := loaded.(*process)
	if err := s.end(syscall.SIGTERM); err != nil {
		ts.Fatalf("the server ended with %v:\n%s", err, s.text())
	}
	ts.Check(os.WriteFile(ts.MkAbs("serve.log"), []byte(s.text()), 0o600))
}

func insist(ts *testscript.TestScript, _ bool, _ []string) {
	loaded, ok := processes.LoadAndDelete(ts.MkAbs("."))
	if !ok {
		ts.Fatalf("no server runs")
	}
	s := loaded.(*process)
	ts.Check(s.command.Process.Signal(syscall.SIGTERM))
	for deadline := time.Now().Add(patience); !strings.Contains(s.text(), "postrider drains"); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("the server does not drain:\n%s", s.text())
		}
	}
	// A SIGTERM that arrives before the first one has its effect still counts as the first one.
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		s.reading.Wait()
		close(ended)
	})
	for again := true; again; {
		_ = s.command.Process.Signal(syscall.SIGTERM) // the process may have ended
		select {
		case <-ended:
			again = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	waiting.Wait()
	_ = s.command.Wait() // the error says that a signal ended the process
	if status, ok := s.command.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		ts.Fatalf("the server ended with %v, and not by the signal:\n%s", s.command.ProcessState, s.text())
	}
}

func crash(ts *testscript.TestScript, _ bool, _ []string) {
	loaded, ok := processes.LoadAndDelete(ts.MkAbs("."))
	if !ok {
		ts.Fatalf("no server runs")
	}
	_ = loaded.(*process).end(syscall.SIGKILL) // the error says that a signal ended the process
}

// process is a server that a script started.
type process struct {
	command   *exec.Cmd
	listening chan [2]string // gets its addresses once; closed when the log ends
	reading   sync.WaitGroup

	mu  sync.Mutex
	log strings.Builder
}

var listens = regexp.MustCompile(`postrider listens" api=(\S+) ops=(\S+)`)

func (s *process) read(log io.Reader) {
	defer close(s.listening)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		s.mu.Lock()
		fmt.Fprintln(&s.log, lines.Text())
		s.mu.Unlock()
		if found := listens.FindStringSubmatch(lines.Text()); found != nil {
			s.listening <- [2]string(found[1:])
		}
	}
}

func (s *process) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *process) end(signal os.Signal) error {
	_ = s.command.Process.Signal(signal) // the process may have ended
	s.reading.Wait()
	return s.command.Wait()
}

// inbox records the webhooks of a script.
type inbox struct {
	codes      []int
	asks       []string // for each code, the header webhook-delivery that is sent with it; empty: none
	retryAfter string   // sent with every answer other than 2xx; empty: not sent

	mu       sync.Mutex
	requests []webhook
}

type webhook struct {
	head, body string
	sequence   string
	accepted   bool
}

var inboxes sync.Map

func receive(ts *testscript.TestScript, _ bool, args []string) {
	r := &inbox{codes: []int{http.StatusOK}, asks: []string{""}}
	if len(args) > 0 {
		r.codes, r.asks = nil, nil
	}
	for _, arg := range args {
		code, more, _ := strings.Cut(arg, "+")
		answer, err := strconv.Atoi(code)
		ts.Check(err)
		r.codes = append(r.codes, answer)
		if strings.Trim(more, "0123456789") == "" {
			r.retryAfter, more = cmp.Or(more, r.retryAfter), ""
		}
		r.asks = append(r.asks, more)
	}
	server := httptest.NewServer(r)
	ts.Defer(server.Close)
	inboxes.Store(ts.MkAbs("."), r)
	ts.Setenv("RECEIVER", server.URL)
}

// ServeHTTP notes a webhook and answers it.
func (r *inbox) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	var head strings.Builder
	_ = request.Header.Write(&head) // a strings.Builder returns no error
	r.mu.Lock()
	turn := min(len(r.requests)+1, len(r.codes)) - 1
	answer, ask := r.codes[turn], r.asks[turn]
	r.requests = append(r.requests, webhook{
		head: head.String(), body: string(body), sequence: request.Header.Get("Webhook-Sequence"), accepted: answer/100 == 2,
	})
	r.mu.Unlock()
	if answer == 0 {
		<-request.Context().Done()
		return
	}
	if answer/100 != 2 && r.retryAfter != "" {
		w.Header().Set("Retry-After", r.retryAfter)
	}
	if ask != "" {
		w.Header().Set("Webhook-Delivery", ask)
	}
	w.WriteHeader(answer)
}

func received(ts *testscript.TestScript, _ bool, args []string) {
	loaded, ok := inboxes.Load(ts.MkAbs("."))
	if len(args) != 1 || !ok {
		ts.Fatalf("usage: received n, after receiver")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	r := loaded.(*inbox)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		r.mu.Lock()
		requests := slices.Clone(r.requests)
		r.mu.Unlock()
		if len(requests) >= n {
			ts.Check(os.WriteFile(ts.MkAbs("head"), []byte(requests[n-1].head), 0o600))
			ts.Check(os.WriteFile(ts.MkAbs("body"), []byte(requests[n-1].body), 0o600))
			return
		}
	}
	ts.Fatalf("webhook %d did not come", n)
}

func accepted(ts *testscript.TestScript, _ bool, args []string) {
	loaded, ok := inboxes.Load(ts.MkAbs("."))
	if len(args) != 1 || !ok {
		ts.Fatalf("usage: accepted n, after receiver")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	r := loaded.(*inbox)
	var taken []webhook
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && len(taken) < n; <-time.After(20 * time.Millisecond) {
		r.mu.Lock()
		taken = slices.DeleteFunc(slices.Clone(r.requests), func(w webhook) bool { return !w.accepted })
		r.mu.Unlock()
	}
	if len(taken) != n {
		ts.Fatalf("%d webhooks were accepted, want %d", len(taken), n)
	}
	sequences := map[string]string{}
	for _, w := range taken {
		var body struct {
			Data struct {
				Key string `json:"key"`
			} `json:"data"`
		}
		ts.Check(json.Unmarshal([]byte(w.body), &body))
		sequences[body.Data.Key] += w.sequence + "\n"
	}
	for key, list := range sequences {
		ts.Check(os.WriteFile(ts.MkAbs(key), []byte(list), 0o600))
	}
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until pattern program [argument…]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var last string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		if ts.Exec(args[1], args[2:]...) == nil {
			if last = ts.ReadFile("stdout"); pattern.MatchString(last) {
				return
			}
		}
	}
	ts.Fatalf("%q is not in the output:\n%s", args[0], last)
}

func capture(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: capture name pattern")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	found := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("%q is not in the output", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func code(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: code n program [argument…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError) //nolint:errorlint // Exec returns it bare
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// environment returns the environment of a script's programs.
func environment(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "POSTRIDER_DATABASE_URL", "POSTRIDER_DATA_DIR", "GORACE"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

func lookPath(ts *testscript.TestScript, program string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	ts.Fatalf("no program %s", program)
	return ""
}

// TestTheDemonstrationJudgesByItsOwnLedger checks that a demonstration fails if a receiver misses
// an event.
func TestTheDemonstrationJudgesByItsOwnLedger(t *testing.T) {
	t.Parallel()
	rs := newReceivers()
	rs.expect("evt_1")
	want := map[string]int{"healthy": 1, "slow": 1, "flaky": 1}
	if missing, forged := rs.verdict(); !maps.Equal(missing, want) || forged != 0 {
		t.Errorf("verdict = %v missing, %d forged; want %v, 0", missing, forged, want)
	}
	for _, r := range rs.all {
		r.accepted["evt_1"] = true
	}
	request := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "/healthy", strings.NewReader("{}"))
	rs.all[0].ServeHTTP(httptest.NewRecorder(), request)
	if missing, forged := rs.verdict(); len(missing) != 0 || forged != 1 {
		t.Errorf("verdict = %v missing, %d forged; want none, 1", missing, forged)
	}
}

// TestTheLinkOfTheDemonstrationLogsIn checks that the link leads to a session of the dashboard, and
// that no other path of its server does.
func TestTheLinkOfTheDemonstrationLogsIn(t *testing.T) {
	t.Parallel()
	var sent string
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Method + " " + r.URL.Path + " " + r.FormValue("key")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "token"})
		http.Redirect(w, r, "/dashboard", http.StatusSeeOther)
	})
	rs := newReceivers()
	rs.link.server, rs.link.url, rs.link.key = server, "http://127.0.0.1:8080", "pr_key"
	get := func(path string) *http.Response {
		w := httptest.NewRecorder()
		rs.server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w.Result()
	}
	if r := get("/dashboard/guess"); r.StatusCode != http.StatusNotFound || sent != "" {
		t.Errorf("a guess got %s and sent %q", r.Status, sent)
	}
	r := get(rs.link.path())
	if sent != "POST /login pr_key" || r.Header.Get("Location") != "http://127.0.0.1:8080/dashboard?range=1h" || len(r.Cookies()) != 1 ||
		r.Cookies()[0].Value != "token" {
		t.Errorf("the link sent %q and leads to %q with %v", sent, r.Header.Get("Location"), r.Cookies())
	}
}
