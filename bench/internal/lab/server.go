package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/client"
)

// ServerOptions says which server to start.
type ServerOptions struct {
	Store string        // sqlite or postgres
	Ready time.Duration // how long it may take until the server is ready; default 30 s
	Args  []string      // further flags of postrider serve; see Configure

	Program string // from BuildCommit; default: the server of this tree
}

// Server is a Postrider server with an empty store of its own. The store outlives the process,
// which may be killed and started again.
type Server struct {
	lab     *Lab
	name    string
	opts    ServerOptions
	dir     string
	dsn     string // database of PostgreSQL; empty: SQLite in dir
	address string
	ops     string
	args    []string
	process *Process
	client  *client.Client
	key     string
}

// StartServer makes an empty store, starts a server on it and waits until the server is ready.
func (l *Lab) StartServer(ctx context.Context, opts ServerOptions) (*Server, error) {
	s := l.newServer(opts)
	if opts.Store == "postgres" {
		cluster, err := l.postgres(ctx)
		if err != nil {
			return nil, err
		}
		if s.dsn, err = cluster.Database(ctx, "bench", nil); err != nil {
			return nil, err
		}
	}
	return s, s.settle(ctx)
}

// StartNode starts another server on the store of first, which must be PostgreSQL.
func (l *Lab) StartNode(ctx context.Context, first *Server) (*Server, error) {
	s := l.newServer(first.opts)
	s.dsn, s.key = first.dsn, first.key
	return s, s.settle(ctx)
}

func (l *Lab) newServer(opts ServerOptions) *Server {
	opts.Ready = cmp.Or(opts.Ready, 30*time.Second)
	opts.Program = cmp.Or(opts.Program, "postrider")
	l.servers++
	name := "server" + strconv.Itoa(l.servers)
	return &Server{lab: l, name: name, opts: opts, dir: filepath.Join(l.dir, name)}
}

// settle gives the server its addresses and starts it.
func (s *Server) settle(ctx context.Context) error {
	var err error
	if s.address, err = freeAddress(ctx); err != nil {
		return err
	}
	if s.ops, err = freeAddress(ctx); err != nil {
		return err
	}
	s.args = []string{
		s.lab.Program(s.opts.Program), "serve", "--dev", "--log-level", "warn",
		"--listen", s.address, "--ops-listen", s.ops, "--data-dir", s.dir,
	}
	if s.dsn != "" {
		s.args = append(s.args, "--database-url", s.dsn)
	}
	return s.Restart(ctx)
}

// OnPostgres reports whether the server's store is PostgreSQL.
func (s *Server) OnPostgres() bool { return s.dsn != "" }

// database returns the name of the server's database.
func (s *Server) database() string {
	name, _, _ := strings.Cut(s.dsn[strings.LastIndexByte(s.dsn, '@')+2:], "?")
	return name
}

// Configure replaces the further flags of the server. They apply from its next start on.
func (s *Server) Configure(args ...string) { s.opts.Args = args }

// Restart starts the server's process, which must not run, and waits until the server is ready.
func (s *Server) Restart(ctx context.Context) error {
	var err error
	if s.process, err = s.lab.Start(ctx, s.name, nil, slices.Concat(s.args, s.opts.Args)...); err != nil {
		return err
	}
	if err := s.untilReady(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, s.process.Tail())
	}
	if s.client != nil {
		return nil
	}
	key, err := s.Key()
	if err != nil {
		return err
	}
	s.client = client.New(s.URL(), key, client.Options{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}})
	return nil
}

func (s *Server) untilReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Ready)
	defer cancel()
	probe := &http.Client{Timeout: time.Second}
	defer probe.CloseIdleConnections()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ops+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("wait for the server: %w", err)
		}
		if answer, err := probe.Do(request); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-again.C:
		case <-s.process.Exited():
			return errors.New("wait for the server: it has ended")
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: not ready in %v", s.opts.Ready)
		}
	}
}

// Profile returns a profile of net/http/pprof, for example allocs, or profile?seconds=5.
func (s *Server) Profile(ctx context.Context, which string) ([]byte, error) {
	return s.readOps(ctx, "/debug/pprof/"+which)
}

// Metrics returns the server's metrics in the text format of Prometheus.
func (s *Server) Metrics(ctx context.Context) (Metrics, error) {
	text, err := s.readOps(ctx, "/metrics")
	return Metrics(text), err
}

// readOps reads a path of the server's listener for operators.
func (s *Server) readOps(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.ops+path, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := once.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s: %s", path, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// Metrics is the text of /metrics.
type Metrics string

// Lines returns the lines that start with begin and whose value is not 0.
func (m Metrics) Lines(begin string) (lines []string) {
	for line := range strings.Lines(string(m)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, begin) && !strings.HasSuffix(line, " 0") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Sum adds up the values of the lines that start with begin.
func (m Metrics) Sum(begin string) (sum float64) {
	for _, line := range m.Lines(begin) {
		// A value that is no number counts as 0.
		value, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		sum += value
	}
	return sum
}

// Key returns the admin key that the first server on the store made.
func (s *Server) Key() (string, error) {
	if s.key != "" {
		return s.key, nil
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "admin.key"))
	if err != nil {
		return "", fmt.Errorf("read the server's key: %w", err)
	}
	s.key = strings.TrimSpace(string(text))
	return s.key, nil
}

// Process returns the process that the server runs as.
func (s *Server) Process() *Process { return s.process }

// Client returns a client of the server. It works across restarts.
func (s *Server) Client() *client.Client { return s.client }

// Login returns an HTTP client with the session of an operator who has logged in to the
// dashboard with the first key.
func (s *Server) Login(ctx context.Context) (*http.Client, error) {
	key, err := s.Key()
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	browser := &http.Client{Jar: jar}
	form := strings.NewReader(url.Values{"key": {key}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/login", form)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := browser.Do(request)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK || strings.HasSuffix(response.Request.URL.Path, "/login") {
		return nil, fmt.Errorf("log in: %s at %s\n%s", response.Status, response.Request.URL.Path, s.process.Tail())
	}
	return browser, nil
}

// Address returns host:port of the server's API.
func (s *Server) Address() string { return s.address }

// URL returns the base URL of the server's API.
func (s *Server) URL() string { return "http://" + s.address }

// freeAddress returns a loopback address with a port that is free at the moment. The server needs a
// fixed port, because it must return to the same address after a restart.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
