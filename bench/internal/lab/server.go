package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/client"
)

// ServerOptions says what server to start.
type ServerOptions struct {
	Store string        // sqlite or postgres
	Ready time.Duration // how long it may take to get ready; default 30 s
	Args  []string      // further flags of postrider serve
}

// Server is a Postrider server with an empty store of its own, which outlives
// its process: it may be killed and started again.
type Server struct {
	lab     *Lab
	opts    ServerOptions
	dir     string
	address string
	ops     string
	args    []string
	process *Process
	client  *client.Client
}

// StartServer makes an empty store, starts a server on it and waits until it
// is ready.
func (l *Lab) StartServer(ctx context.Context, opts ServerOptions) (*Server, error) {
	opts.Ready = cmp.Or(opts.Ready, 30*time.Second)
	l.servers++
	s := &Server{lab: l, opts: opts, dir: filepath.Join(l.dir, "store"+strconv.Itoa(l.servers))}
	var err error
	if s.address, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	if s.ops, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	s.args = append([]string{
		l.Program("postrider"), "serve", "--dev", "--log-level", "warn",
		"--listen", s.address, "--ops-listen", s.ops, "--data-dir", s.dir,
	}, opts.Args...)
	if opts.Store == "postgres" {
		cluster, err := l.postgres()
		if err != nil {
			return nil, err
		}
		dsn, err := cluster.Database(ctx, "bench", nil)
		if err != nil {
			return nil, err
		}
		s.args = append(s.args, "--database-url", dsn)
	}
	return s, s.Restart(ctx)
}

// Restart starts the server's process, which must not run, and waits until it
// is ready.
func (s *Server) Restart(ctx context.Context) error {
	var err error
	name := "server" + strconv.Itoa(s.lab.servers)
	if s.process, err = s.lab.Start(ctx, name, nil, s.args...); err != nil {
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

// Key returns the admin key that the server made at its first start.
func (s *Server) Key() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "admin.key"))
	if err != nil {
		return "", fmt.Errorf("read the server's key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Process returns the process that the server runs as.
func (s *Server) Process() *Process { return s.process }

// Client returns a client of the server. It stays good across restarts.
func (s *Server) Client() *client.Client { return s.client }

// URL returns the base of the server's API.
func (s *Server) URL() string { return "http://" + s.address }

// freeAddress returns a loopback address with a port that was free just now. A
// server that is started again has to come back at the same one.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
