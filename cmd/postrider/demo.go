package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
)

// demoCmd is the command demo: a server and six receivers in one process.
//
// Each event goes to all six receivers. Three accept every event in the end. One is down for ten
// seconds at a time, so its circuit opens and closes again. One fails until its deliveries are dead
// letters, which people can replay. One responds with 410, so its endpoint is disabled and later
// events are skipped.
//
// With --for, the command checks at its end that the receivers that accept every event got all of
// them with valid signatures, and fails otherwise. So it also tests an installation.
type demoCmd struct {
	For      time.Duration `placeholder:"15s" help:"End after this time, at least 5s, or up to 30s later if deliveries are late, and exit with 0 only if every event reached the receivers healthy, slow and flaky. Default: run until interrupted."`
	Listen   string        `default:"127.0.0.1:0" help:"Address of the API and of the dashboard, IP:port, on this machine alone. Port 0 takes a free port."`
	LinkPort int           `default:"0" help:"Port of the link to the dashboard, and of the receivers, at the same IP. 0: a free port."`
	Rate     int           `default:"5" help:"Events per second, 1 to 100."`
}

// Help returns the text above the flags in the help of the command.
func (demoCmd) Help() string {
	return "Six receivers on this machine get the same events: one is healthy, one slow, one fails three times before it accepts an event, " +
		"one has outages, one makes dead letters, and one is gone (410). All data is in a temporary folder, which is removed at the end."
}

// demo is a running demonstration. After Run has set the first fields, only the goroutine of show
// changes them.
type demo struct {
	cmd  *demoCmd
	term terminal
	// api is the client of the server, and key is the first admin key, which api uses. Run sets
	// both when the store is open.
	api       *client.Client
	key       string
	url       string
	dashboard string // URL of the link to the dashboard; set with api
	receivers *receivers
	shown     string // the last summary; empty: none was printed
	// drawn is how many lines of the last summary the next one overwrites. 0: the output is no
	// terminal, or no summary was printed.
	drawn int
}

// errUndelivered says that a receiver that accepts every event did not get all of them.
var errUndelivered = errors.New("events were not delivered")

// Run starts the receivers and the server, shows the demonstration, ends all three and removes the
// folder. The receivers listen before the server starts, so that no first attempt fails because its
// receiver is missing.
func (c *demoCmd) Run(ctx context.Context, t terminal) (err error) {
	if c.Rate < 1 || c.Rate > 100 {
		return misused("--rate: must be 1 to 100")
	}
	if c.For != 0 && c.For < 5*time.Second {
		return misused("--for: must be 5s or more")
	}
	at, err := netip.ParseAddrPort(c.Listen)
	if err != nil || !at.Addr().IsLoopback() {
		return misused("--listen: must be IP:port of this machine, such as 127.0.0.1:8080")
	}
	if c.LinkPort < 0 || c.LinkPort > math.MaxUint16 {
		return misused("--link-port: must be 0 to 65535")
	}
	dir, err := os.MkdirTemp("", "postrider-demo-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	receivers := newReceivers()
	if err := receivers.listen(ctx, netip.AddrPortFrom(at.Addr(), uint16(c.LinkPort))); err != nil {
		return err
	}
	server, err := app.New(ctx, c.config(dir), slog.New(slog.DiscardHandler))
	if err != nil {
		return errors.Join(err, receivers.listener.Close())
	}
	d := &demo{
		cmd: c, term: t, url: "http://" + server.Addr().String(), receivers: receivers,
	}

	// Three goroutines run: the server, the receivers, and the demonstration itself. The first one
	// that fails ends the other two, and Run returns its error.
	group, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error { return d.receivers.run(ctx) })
	group.Go(func() error {
		defer end() // the server and the receivers end with the demonstration
		select {
		case <-server.Opened():
		case <-ctx.Done():
			return nil
		}
		d.key = server.FirstKey().Text
		d.dashboard = d.receivers.dashboard(server.Handler(), d.url, d.key)
		d.api = client.New(d.url, d.key, client.Options{UserAgent: "postrider-demo"})
		defer d.api.Close()
		return d.show(ctx)
	})
	return group.Wait()
}

// config returns the settings of the server: those of serve --dev with smaller limits, in the
// folder dir. It names every setting that must not be zero, because kong fills in no defaults here.
func (c *demoCmd) config(dir string) config.Config {
	return config.Config{
		StoreConfig:    config.StoreConfig{DataDir: filepath.Join(dir, "data")},
		Listen:         c.Listen,
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

// latest is how long after --for the demonstration waits for late deliveries.
const latest = 30 * time.Second

// show makes the endpoints, publishes events and prints summaries, until ctx ends or --for has
// passed. The flaky receiver needs three retries. So show stops publishing four seconds before the
// end, to leave time for the last events. On a busy machine that may not be enough, so it waits up
// to latest for missing events.
func (d *demo) show(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return stoppedBy(ctx, err)
	}
	d.printIntroduction()

	publishing, summary := time.NewTicker(time.Second/time.Duration(d.cmd.Rate)), time.NewTicker(d.summaryInterval())
	defer publishing.Stop()
	defer summary.Stop()
	var end, last, given <-chan time.Time // without --for, these never fire
	if d.cmd.For > 0 {
		// The last events are published four seconds early: their retries need
		// time.
		end, last, given = time.After(d.cmd.For), time.After(d.cmd.For-4*time.Second), time.After(d.cmd.For+latest)
	}
	for n := 1; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			if missing, forged := d.receivers.verdict(); len(missing) == 0 || forged > 0 {
				return d.finish(ctx)
			}
			end = time.After(100 * time.Millisecond)
		case <-given:
			return d.finish(ctx)
		// The summaries continue, so that a person sees the last deliveries arrive.
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

// stoppedBy returns err; nil if ctx has ended. A person who presses Ctrl-C during a call of the
// client must not see the error of that call.
func stoppedBy(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// prepare makes an account and an endpoint for each receiver. Each receiver gets the
// secret of its endpoint from the response that creates it, as a customer would.
func (d *demo) prepare(ctx context.Context) error {
	if _, err := d.api.CreateAccount(ctx, apitypes.AccountCreate{UID: "demo", Name: "Demonstration"}); err != nil {
		return err
	}
	for _, r := range d.receivers.all {
		made, err := d.api.CreateEndpoint(ctx, apitypes.EndpointCreate{
			Account: "demo", URL: d.receivers.url(r), EventTypes: []string{"order.*"}, Description: r.name + ": " + r.behaviour,
			Policy: apitypes.Policy{
				Retry:   apitypes.Of(apitypes.Retry{DelaysMS: r.delays, Jitter: "10%"}),
				Circuit: apitypes.Of(r.circuit),
			},
		})
		if err != nil {
			return err
		}
		if err := r.enrol(made); err != nil {
			return err
		}
	}
	return nil
}

// printIntroduction prints the receivers, the link to the dashboard, and commands to
// try from another terminal.
func (d *demo) printIntroduction() {
	fmt.Fprintf(d.term.out, "Postrider delivers order.created, %d a second, to six receivers:\n\n", d.cmd.Rate)
	for _, r := range d.receivers.all {
		fmt.Fprintf(d.term.out, "  %-8s %s\n", r.name, r.behaviour)
	}
	fmt.Fprintf(d.term.out, `
The dashboard, while this runs:

  %[3]s

The API is at %[1]s/v1/webhooks. From another terminal:

  export POSTRIDER_URL=%[1]s POSTRIDER_API_KEY=%[2]s
  curl -H "Authorization: Bearer $POSTRIDER_API_KEY" $POSTRIDER_URL/v1/webhooks/dead-letters
  curl -H "Authorization: Bearer $POSTRIDER_API_KEY" "$POSTRIDER_URL/v1/webhooks/deliveries?status=skipped"

`, d.url, d.key, d.dashboard)
}

// publish publishes the order n and tells the receivers to expect it. The idempotency key makes a
// repeated request harmless. An event counts as published only after the server has confirmed it,
// because the server promises to deliver only confirmed events.
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

// summarize prints the numbers of each receiver: its requests, the events that it
// accepted, the retries, the dead letters and the skipped deliveries. It prints
// nothing if the numbers have not changed since the last summary.
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
		// Moves the cursor up and clears the lines below.
		fmt.Fprintf(d.term.out, "\x1b[%dA\x1b[J", d.drawn)
	}
	if d.term.live() {
		// These are the line above the table, its head, its rows and the blank line below it.
		d.drawn = len(rows) + 3
	}
	_, err := fmt.Fprintln(d.term.out, d.shown)
	return err
}

// summaryInterval returns the interval between two summaries. On a terminal, a summary overwrites
// the last one. In a file, summaries follow each other, so there are fewer.
func (d *demo) summaryInterval() time.Duration {
	if d.term.live() {
		return time.Second
	}
	return 3 * time.Second
}

// skipped returns the number of an endpoint's skipped deliveries, in the form of count.
func (d *demo) skipped(ctx context.Context, r *receiver) (string, error) {
	page, err := d.api.Deliveries(ctx, client.DeliveryFilter{
		Endpoint: r.endpoint, Status: postrider.Skipped, Paging: client.Paging{Limit: 250},
	})
	if err != nil {
		return "", err
	}
	return count(page), nil
}

// deadLetters returns the number of an endpoint's dead letters, in the form of count. A receiver
// cannot count them itself, because it sees only requests.
func (d *demo) deadLetters(ctx context.Context, r *receiver) (string, error) {
	page, err := d.api.DeadLetters(ctx, client.DeadLetterFilter{
		Endpoint: r.endpoint, Paging: client.Paging{Limit: 250},
	})
	if err != nil {
		return "", err
	}
	return count(page), nil
}

// count returns the number of items on the page, with a plus sign if there are more pages. The API
// has no totals, and reading all pages each second would be extra load.
func count[T any](page apitypes.Page[T]) string {
	if page.NextCursor != nil {
		return fmt.Sprint(len(page.Data)) + "+"
	}
	return fmt.Sprint(len(page.Data))
}

// finish prints the verdict. It returns an error if a signature did not verify, or if a receiver
// that accepts every event lacks one. The numbers come from the receivers' own records, not from
// the server.
func (d *demo) finish(ctx context.Context) error {
	if err := d.summarize(ctx); err != nil {
		return stoppedBy(ctx, err)
	}
	// A wrong signature is reported first: the receiver refused that request, so events may be
	// missing because of it.
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
	_, err := fmt.Fprintf(d.term.out, "All %d events reached %s, with a signature that verifies. The others fail on purpose.\n",
		d.receivers.published(), strings.Join(names, ", "))
	return err
}
