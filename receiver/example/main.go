// Command example receives webhooks, and prints each event once.
//
//	go run ./receiver/example -secrets secrets.txt
//
// It listens on localhost:8090, verifies Standard Webhooks, and keeps the ids of the events that it
// printed in webhooks.db, a SQLite file. To try that, stop it, start it again, and let the sender
// repeat an event: it responds 204 and does not print the event a second time.
//
// The file secrets.txt has one secret on each line, whsec_… or whpk_…. A request that is signed
// with any of them is accepted. So a secret is rotated in four steps: add the new secret, change
// the secret at the sender, remove the old one, and restart.
//
// To try it with Postrider (serve --dev allows endpoints on this machine), create an account and an
// endpoint, put the printed secret into the file, and publish:
//
//	postrider serve --dev
//	postrider accounts create acme
//	postrider endpoints create --account acme http://localhost:8090/webhooks
//	postrider send --account acme order.created '{"order":42}'
//
// The flags -listen, -path, -db and -scheme change the address, the path, the SQLite file and the
// scheme.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/postrider/postrider/receiver"
	"github.com/postrider/postrider/signature"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

type settings struct{ listen, path, secrets, database, scheme string }

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("example", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", "localhost:8090", "address to listen on")
	flags.StringVar(&s.path, "path", "/webhooks", "path of the webhook's URL")
	flags.StringVar(&s.secrets, "secrets", "secrets.txt", "file with a secret on each line")
	flags.StringVar(&s.database, "db", "webhooks.db", "SQLite file of the events that were printed")
	flags.StringVar(&s.scheme, "scheme", string(signature.Standard), "how requests are signed")
	err := flags.Parse(args)
	return s, err
}

// run serves until ctx ends, and then finishes the requests that have begun.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	keys, err := readKeys(s.secrets)
	if err != nil {
		return err
	}
	// The pragmas turn on write-ahead logging, and let connections wait for each other.
	db, err := sql.Open("sqlite", "file:"+s.database+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := receiver.NewSQL(db, receiver.SQLite, receiver.SQLOptions{})
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	verifier := signature.Verifier{Format: signature.Format{Scheme: signature.Scheme(s.scheme)}, Keys: keys}
	hooks, err := receiver.New([]signature.Verifier{verifier}, store, printer(stdout), receiver.Options{Log: log})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(s.path, hooks)

	var purging sync.WaitGroup
	defer purging.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	purging.Go(func() { purge(ctx, store, log) })
	return serve(ctx, s.listen, mux, log)
}

// printer is where your own program does its work. It returns nil only after the work is done:
// until then the sender repeats the event.
func printer(stdout io.Writer) receiver.Handler {
	var mu sync.Mutex
	return func(_ context.Context, e receiver.Event) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(stdout, "%s %s %s\n", e.ID, cmp.Or(e.Type, "-"), e.Body)
		return err
	}
}

func readKeys(file string) (keys []signature.Key, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		secret, err := signature.ParseSecret(line)
		if err != nil {
			return nil, fmt.Errorf("read secrets: %s line %d: %w", file, number, err)
		}
		keys = append(keys, signature.Key{Secret: secret})
	}
	return keys, nil
}

// remembered is longer than the time for which senders repeat an event.
const remembered = 30 * 24 * time.Hour

// purge deletes old events from the store, at the start and then once an hour.
func purge(ctx context.Context, store *receiver.SQL, log *slog.Logger) {
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for {
		if _, err := store.Purge(ctx, remembered); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "old events stay", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-hourly.C:
		}
	}
}

func serve(ctx context.Context, address string, h http.Handler, log *slog.Logger) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "listening", "address", listener.Addr().String())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	var serving sync.WaitGroup
	var served error
	stopped, stop := context.WithCancel(ctx) // ends when ctx ends, or when serving fails
	serving.Go(func() {
		served = server.Serve(listener)
		stop()
	})
	<-stopped.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err = server.Shutdown(ending)
	serving.Wait()
	if !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(served, err)
	}
	return err
}
