package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/app"
)

type demoCmd struct {
	For  time.Duration `placeholder:"15s" help:"End after this long, with 0 only if every event reached the receivers healthy, slow and flaky. Default: run until interrupted."`
	Port int           `default:"0" help:"Port of the API on 127.0.0.1. Default: a free one."`
	Rate int           `default:"5" help:"Events a second, 1 to 100."`
}

// Help is what the help of the command says besides its flags.
func (demoCmd) Help() string {
	return "Five receivers on this machine get the same events: one is healthy, one slow, one fails three times before it accepts an event, " +
		"one is dead, and one is gone (410). Everything lives in a temporary folder that is removed at the end."
}

// demo is a demonstration that runs.
type demo struct {
	cmd       *demoCmd
	term      terminal
	api       *client.Client
	key       string
	url       string
	receivers *receivers
	shown     string // the last summary
	drawn     int    // lines of the summary that the next one replaces; only in a terminal
}

// errUndelivered says that the demonstration showed the wrong thing.
var errUndelivered = errors.New("events were not delivered")

// Run shows the demonstration.
func (c *demoCmd) Run(ctx context.Context, t terminal) (err error) {
	if c.Rate < 1 || c.Rate > 100 {
		return misused("--rate: must be 1 to 100")
	}
	if c.For != 0 && c.For < 5*time.Second {
		return misused("--for: must be 5s or more")
	}
	dir, err := os.MkdirTemp("", "postrider-demo-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	receivers := newReceivers()
	if err := receivers.listen(ctx); err != nil {
		return err
	}
	server, err := app.New(ctx, c.config(dir), slog.New(slog.DiscardHandler))
	if err != nil {
		return errors.Join(err, receivers.listener.Close())
	}
	d := &demo{
		cmd: c, term: t, url: "http://" + server.Addr().String(), receivers: receivers,
	}

	group, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return d.receivers.run(ctx) })
	group.Go(func() error {
		defer end() // whatever happened, the others end too
		select {
		case <-server.Opened():
		case <-ctx.Done():
			return nil
		}
		d.key = server.FirstKey().Text
		d.api = client.New(d.url, d.key, client.Options{UserAgent: "postrider-demo"})
		defer d.api.Close()
		return d.show(ctx)
	})
	return group.Wait()
}

// config is that of serve --dev, in a folder of its own.
func (c *demoCmd) config(dir string) app.Config {
	return app.Config{
		StoreConfig:    app.StoreConfig{DataDir: filepath.Join(dir, "data")},
		Listen:         net.JoinHostPort("127.0.0.1", fmt.Sprint(c.Port)),
		OpsListen:      "127.0.0.1:0",
		Dev:            true,
		AnswerTimeout:  5 * time.Second,
		BodyBudget:     48 << 20,
		Concurrency:    256,
		DrainTimeout:   5 * time.Second,
		MaxData:        64 << 10,
		IdempotencyTTL: time.Hour,
		EgressPorts:    []string{"any"},
		LogLevel:       "info",
	}
}

// show makes the endpoints, publishes, and prints what becomes of it.
func (d *demo) show(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return stoppedBy(ctx, err)
	}
	d.introduce()

	publishing, summary := time.NewTicker(time.Second/time.Duration(d.cmd.Rate)), time.NewTicker(d.pace())
	defer publishing.Stop()
	defer summary.Stop()
	var end, last <-chan time.Time // never, without --for
	if d.cmd.For > 0 {
		end, last = time.After(d.cmd.For), time.After(d.cmd.For-4*time.Second) // what is under way wants its time
	}
	for n := 1; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			return d.judge(ctx)
		case <-last:
			publishing.Stop()
		case <-summary.C:
			if err := d.summarize(ctx); err != nil {
				return stoppedBy(ctx, err)
			}
		case <-publishing.C:
			if err := d.publish(ctx, n); err != nil {
				return stoppedBy(ctx, err)
			}
			n++
		}
	}
}

// stoppedBy returns err unless the demonstration was just interrupted.
func stoppedBy(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (d *demo) prepare(ctx context.Context) error {
	if _, err := d.api.CreateAccount(ctx, apitypes.AccountCreate{UID: "demo", Name: "Demonstration"}); err != nil {
		return err
	}
	for _, r := range d.receivers.all {
		made, err := d.api.CreateEndpoint(ctx, apitypes.EndpointCreate{
			Account: "demo", URL: d.receivers.url(r), EventTypes: []string{"order.*"}, Description: r.name + ": " + r.manner,
			Policy: apitypes.Policy{
				Retry:   apitypes.Of(apitypes.Retry{DelaysMS: r.delays, Jitter: "10%"}),
				Circuit: apitypes.Of(apitypes.CircuitPolicy{Preset: "never"}), // a circuit opens for longer than anybody watches
			},
		})
		if err != nil {
			return err
		}
		if err := r.learn(made); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) introduce() {
	fmt.Fprintf(d.term.out, "Postrider delivers order.created, %d a second, to five receivers:\n\n", d.cmd.Rate)
	for _, r := range d.receivers.all {
		fmt.Fprintf(d.term.out, "  %-8s %s\n", r.name, r.manner)
	}
	fmt.Fprintf(d.term.out, `
The API is at %[1]s/v1/webhooks. From another terminal:

  export POSTRIDER_URL=%[1]s POSTRIDER_API_KEY=%[2]s
  curl -H "Authorization: Bearer $POSTRIDER_API_KEY" $POSTRIDER_URL/v1/webhooks/dead-letters
  curl -H "Authorization: Bearer $POSTRIDER_API_KEY" "$POSTRIDER_URL/v1/webhooks/deliveries?status=skipped"

`, d.url, d.key)
}

func (d *demo) publish(ctx context.Context, n int) error {
	data, err := json.Marshal(map[string]any{"order_id": n, "total": fmt.Sprintf("%d.%02d", n%90+9, n*7%100)})
	if err != nil {
		return fmt.Errorf("make an order: %w", err)
	}
	receipt, err := d.api.Publish(ctx, apitypes.EventCreate{
		Account: "demo", Type: "order.created", Data: data, IdempotencyKey: fmt.Sprintf("order-%d", n),
	})
	if err != nil {
		return err
	}
	d.receivers.expect(receipt.ID.String())
	return nil
}

// summarize prints what the receivers have seen, what waits for a person, and
// what was skipped; nothing, if that is what the last summary said.
func (d *demo) summarize(ctx context.Context) error {
	rows := make([][]string, 0, len(d.receivers.all))
	for _, r := range d.receivers.all {
		dead, err := d.deadLetters(ctx, r)
		if err != nil {
			return err
		}
		skipped, err := d.skipped(ctx, r)
		if err != nil {
			return err
		}
		seen := r.seen()
		rows = append(rows, []string{
			r.name, fmt.Sprint(seen.requests), fmt.Sprint(seen.accepted), fmt.Sprint(seen.requests - seen.events), dead, skipped,
		})
	}
	var summary strings.Builder
	fmt.Fprintf(&summary, "%d published\n", d.receivers.published())
	if err := printTable(&summary, []string{"RECEIVER", "REQUESTS", "DELIVERED", "RETRIES", "DEAD", "SKIPPED"}, rows); err != nil {
		return err
	}
	if summary.String() == d.shown {
		return nil
	}
	d.shown = summary.String()
	if d.drawn > 0 {
		fmt.Fprintf(d.term.out, "\x1b[%dA\x1b[J", d.drawn) // up, and clear what is below
	}
	if d.term.live() {
		d.drawn = len(rows) + 3
	}
	_, err := fmt.Fprintln(d.term.out, d.shown)
	return err
}

// pace returns how often the summary is printed: a terminal shows it in place,
// a file gets one below the other.
func (d *demo) pace() time.Duration {
	if d.term.live() {
		return time.Second
	}
	return 3 * time.Second
}

// skipped counts an endpoint's skipped deliveries, up to a page of them.
func (d *demo) skipped(ctx context.Context, r *receiver) (string, error) {
	page, err := d.api.Deliveries(ctx, client.DeliveryFilter{
		Endpoint: r.endpoint, Status: postrider.Skipped, Paging: client.Paging{Limit: 250},
	})
	if err != nil {
		return "", err
	}
	return count(page), nil
}

// deadLetters counts an endpoint's dead letters, up to a page of them.
func (d *demo) deadLetters(ctx context.Context, r *receiver) (string, error) {
	page, err := d.api.DeadLetters(ctx, client.DeadLetterFilter{
		Endpoint: r.endpoint, Paging: client.Paging{Limit: 250},
	})
	if err != nil {
		return "", err
	}
	return count(page), nil
}

func count[T any](page apitypes.Page[T]) string {
	if page.NextCursor != nil {
		return fmt.Sprint(len(page.Data)) + "+"
	}
	return fmt.Sprint(len(page.Data))
}

// judge prints the end of the story.
func (d *demo) judge(ctx context.Context) error {
	if err := d.summarize(ctx); err != nil {
		return stoppedBy(ctx, err)
	}
	missing, forged := d.receivers.verdict()
	if forged > 0 {
		return fmt.Errorf("%d requests had a signature that does not verify", forged)
	}
	names := d.receivers.accepting()
	if len(missing) > 0 {
		var lacks []string
		for _, name := range names {
			if n := missing[name]; n > 0 {
				lacks = append(lacks, fmt.Sprintf("%s lacks %d of %d", name, n, d.receivers.published()))
			}
		}
		return fmt.Errorf("%w: %s", errUndelivered, strings.Join(lacks, ", "))
	}
	_, err := fmt.Fprintf(d.term.out, "All %d events reached %s, with a signature that verifies. The receivers dead and gone accept none.\n",
		d.receivers.published(), strings.Join(names, ", "))
	return err
}
