package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

// trouble is a bad input from an operator or a customer. The healthy endpoints of B5 are measured
// while it is present.
type trouble struct {
	name    string
	groups  []group // further endpoints
	answers map[string]lab.Answer
	loads   []load
	before  action // switches the trouble on
	during  action // runs during the phase; nil: nothing
	shows   shows
}

// shows says how the server shows that a trouble is present.
type shows struct {
	metrics []string // starts of lines of /metrics
	log     string   // a text that a line of the log has; empty: not checked
	hung    bool     // a server that never answers has accepted connections
}

// healthyAndSick returns the groups and loads of B5: nine healthy endpoints, and one that hangs.
func healthyAndSick() (groups []group, loads []load) {
	return []group{{class: "healthy", endpoints: 9}, {class: sickClass, endpoints: 1}},
		[]load{{class: "healthy", connections: 8, rate: 90}, {class: sickClass, connections: 2, rate: 10}}
}

// sickClass is the class of the endpoint that takes 10 s for each request.
const sickClass = "sick"

// hanging are the answers of the sink in which the sick endpoint takes 10 s.
var hanging = map[string]lab.Answer{sickClass: {After: 10 * time.Second}}

// besideBadInputs measures the healthy endpoints of B5 without and with each trouble. Each pair has
// a store of its own.
func besideBadInputs(e extent) scenario {
	lasts := e.lasting(30 * time.Second)
	s := scenario{name: "B16 B5 beside bad inputs", goals: goals{}}
	var pairs []pair
	for _, t := range troubles(e) {
		groups, loads := healthyAndSick()
		answers, ignored := map[string]lab.Answer{}, []string{sickClass}
		for _, g := range t.groups {
			ignored = append(ignored, g.class)
			answers[g.class] = t.answers[g.class]
		}
		p := pair{"before " + t.name, t.name}
		pairs = append(pairs, p)
		s.setups = append(s.setups, setup{
			groups: append(groups, t.groups...),
			phases: []phase{
				{name: p.without, lasts: lasts, loads: loads, answers: hanging, ignored: ignored},
				{
					name: p.with, lasts: lasts, loads: append(loads, t.loads...), answers: answers, ignored: ignored,
					before: t.before, during: besides(t.during, saidOf(t.shows, lasts)),
				},
			},
		})
		s.goals[p.with+": p99 ÷ "+p.without] = atMost(1.25)
	}
	s.goalsOn = s.goals
	s.figures = isolation("healthy", pairs...)
	return s
}

// troubles returns the bad inputs.
func troubles(e extent) []trouble {
	failing := e.many(1500)
	return []trouble{
		{
			name: "SMTP hangs", groups: []group{{class: "gone", endpoints: 1}}, answers: map[string]lab.Answer{"gone": {Status: http.StatusGone}},
			before: inTurn(refuseTemplate, mailHangs),
			shows: shows{
				metrics: []string{`postrider_messages_total{channel="email",result="failed"}`, "postrider_destinations_failing"},
				log:     "message not sent", hung: true,
			},
		},
		{
			name: "archive hangs", before: archiveHangs,
			shows: shows{metrics: []string{`postrider_store_call_seconds_count{result="ok",verb="ArchiveDay"}`}, hung: true},
		},
		{name: "OTLP hangs", before: collectorHangs, shows: shows{metrics: []string{"postrider_trace_spans"}, hung: true}},
		{
			name: "quota spent", before: spendingAccount, during: hammer(e.lasting(30 * time.Second)),
			shows: shows{metrics: []string{"postrider_publishes_refused_total"}},
		},
		{
			name: "hostile conditions", before: hostileConditions, during: publishForConditions(e.lasting(30 * time.Second)),
			shows: shows{metrics: []string{`postrider_publishes_refused_total{reason="filter_quota_used"}`}},
		},
		{
			name: "receivers fail", groups: []group{{class: "gone", endpoints: failing}, {class: "postrider", endpoints: 1, fanOut: true}},
			answers: map[string]lab.Answer{"gone": {Status: http.StatusGone}}, loads: []load{{class: "gone", connections: 4, rate: 45}},
			shows: shows{metrics: []string{"postrider_notices_total", `postrider_health_changes_total{health="disabled"}`}},
		},
	}
}

// inTurn does the actions one after another.
func inTurn(all ...action) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		for _, a := range all {
			if err := a(ctx, w, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// besides does first, unless it is nil, and then second.
func besides(first, second action) action {
	if first == nil {
		return second
	}
	return inTurn(first, second)
}

// restarted starts the server again with these further flags. While the server does not run, it
// does change, unless that is nil. Then the loads of the phase warm up the server.
func restarted(change action, args ...string) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		server := w.nodes[0]
		if err := server.Process().Terminate(time.Minute); err != nil {
			return err
		}
		if change != nil {
			if err := change(ctx, w, r); err != nil {
				return err
			}
		}
		server.Configure(args...)
		w.started = time.Now()
		if err := server.Restart(ctx); err != nil {
			return err
		}
		return w.warmUp(ctx, r.phase)
	}
}

// filled calls fill while the server does not run.
func filled(fill func(ctx context.Context, w *environment, f lab.Fill) error) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		f, err := w.lab.Fill(ctx, w.nodes[0])
		if err != nil {
			return err
		}
		return errors.Join(fill(ctx, w, f), f.End(ctx))
	}
}

// refuseTemplate checks that the server does not start with a template that has a mistake.
func refuseTemplate(ctx context.Context, w *environment, r *reading) error {
	dir, err := w.lab.Folder("templates")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "message.txt"), []byte("{{.Titel}}\n"), 0o600); err != nil {
		return fmt.Errorf("write a template: %w", err)
	}
	p, err := w.lab.Start(ctx, "template", nil, w.lab.Program("postrider"), "serve", "--dev", "--listen", "127.0.0.1:0", "--ops-listen",
		"127.0.0.1:0",
		"--data-dir", filepath.Join(dir, "data"), "--notice-templates", dir)
	if err != nil {
		return err
	}
	if p.Wait(10*time.Second) == nil {
		return errors.New("the server ended well with a template that has a mistake")
	}
	line, err := p.LastLine("notice-templates")
	if line == "" {
		return errors.Join(fmt.Errorf("the server does not name the template: %s", p.Tail()), err)
	}
	r.said = append(r.said, "with a template that has a mistake the server does not start: "+line)
	return nil
}

// mailHangs makes ten confirmed addresses with a hundred notices of an hour ago, and a mail server
// that never greets.
func mailHangs(ctx context.Context, w *environment, r *reading) error {
	h, err := w.hole(ctx)
	if err != nil {
		return err
	}
	flags := []string{"--smtp-url", "smtp+plain://" + h, "--smtp-from", "webhooks@example.com"}
	// Without a mail server, the server accepts no addresses.
	if err := restarted(nil, flags...)(ctx, w, r); err != nil {
		return err
	}
	c := w.nodes[0].Client()
	for i := range 10 { // the most that can be created at once
		_, err := c.CreateDestination(ctx, apitypes.DestinationCreate{
			Channel: postrider.ChannelEmail,
			Address: fmt.Sprintf("operator-%d@example.com", i),
		})
		if err != nil {
			return fmt.Errorf("create a destination: %w", err)
		}
	}
	if _, err := c.Publish(ctx, apitypes.EventCreate{Account: account, Type: "gone.t0", Data: []byte(`{}`)}); err != nil {
		return fmt.Errorf("publish for the endpoint that is gone: %w", err)
	}
	if err := w.untilArrived(ctx, "gone", 1); err != nil {
		return err
	}
	notices := filled(func(ctx context.Context, _ *environment, f lab.Fill) error {
		now := time.Now()
		return errors.Join(f.Copy(ctx, lab.Copies{
			Table: "notices", Which: "kind = '" + string(postrider.NoticeDisabled) + "'", Source: f.Series(100, 1),
			Overrides: map[string]string{"id": f.ID(strconv.FormatInt(now.Add(-time.Hour).UnixMilli(), 10), "i"), "occurrence": "'copy ' || i"},
		}), f.Do(ctx, fmt.Sprintf("update notice_destinations set ask = '', token = null, due_at = %s, confirmed_at = %[1]s, told_until = %s",
			f.At(strconv.FormatInt(now.UnixMilli(), 10)), f.Key([16]byte{}))))
	})
	return restarted(notices, flags...)(ctx, w, r)
}

// untilArrived waits until n requests of a class have arrived.
func (w *environment) untilArrived(ctx context.Context, class string, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	have, err := w.arrivals(ctx, class, n)
	if err == nil && have < n {
		err = fmt.Errorf("%d of %d requests for %s arrived", have, n, class)
	}
	return err
}

// archiveHangs makes retention due for 10,000 events. Their archive is a bucket on a server that
// never answers.
func archiveHangs(ctx context.Context, w *environment, r *reading) error {
	dir, err := w.lab.Folder("key")
	if err != nil {
		return err
	}
	key := filepath.Join(dir, "secret")
	if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
		return fmt.Errorf("write a secret key: %w", err)
	}
	h, err := w.hole(ctx)
	if err != nil {
		return err
	}
	old := filled(func(ctx context.Context, w *environment, f lab.Fill) error {
		return w.fillDays(ctx, f, "events", days{ago: 40, n: 1, rows: 10_000})
	})
	return restarted(old, "--archive", "s3://archive/bench", "--archive-endpoint", "http://"+h, "--archive-region", "us-east-1",
		"--archive-access-key", "bench", "--archive-secret-key-file", key)(ctx, w, r)
}

// collectorHangs sends the traces of all events to a collector that never answers.
func collectorHangs(ctx context.Context, w *environment, r *reading) error {
	h, err := w.hole(ctx)
	if err != nil {
		return err
	}
	return restarted(nil, "--otlp-url", "http://"+h, "--trace-sample", "1")(ctx, w, r)
}

// spender is an account that may publish ten events a second.
const spender = "spender"

// spendingAccount creates the account and uses up its quota.
func spendingAccount(ctx context.Context, w *environment, _ *reading) error {
	c := w.nodes[0].Client()
	if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: spender, Name: "Spender"}); err != nil {
		return fmt.Errorf("create the account: %w", err)
	}
	if _, err := c.ChangeAccountQuotas(ctx, spender, apitypes.QuotasUpdate{EventsPerSecond: apitypes.Of(int64(10))}); err != nil {
		return fmt.Errorf("limit the account: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for { // the server learns the limit within a second
		_, err := c.Publish(within, apitypes.EventCreate{Account: spender, Type: "spender.t0", Data: []byte(`{}`)})
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Quota != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("spend the quota: %w", err)
		}
		pause(within, 5*time.Millisecond)
	}
}

// hammer publishes for the account over 64 connections. Each waits 100 ms after a refusal, so there
// are about 600 publishes a second.
func hammer(lasts time.Duration) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		key, err := w.nodes[0].Key()
		if err != nil {
			return err
		}
		stats, err := w.lab.RunLoad(ctx, lab.Load{
			Targets: []string{w.nodes[0].Address()}, Key: key, Account: spender, Prefix: "spender", Connections: 64,
			Duration: max(time.Second, lasts-2*time.Second), Size: dataSize,
		})
		if err == nil && stats.Refused == 0 {
			err = errors.New("no publish over the quota was refused")
		}
		r.said = append(r.said, fmt.Sprintf("of the account over its quota %d publishes were accepted and %d refused", stats.Accepted,
			stats.Refused))
		return err
	}
}

// saidOf records, shortly before the end of the phase, how the server shows a trouble. If the
// server does not show the trouble, it was not present, and saidOf returns an error.
func saidOf(of shows, lasts time.Duration) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		if wait := time.Until(r.began.Add(lasts - time.Second)); wait > 0 {
			pause(ctx, wait)
		}
		metrics, err := w.nodes[0].Metrics(ctx)
		if err != nil {
			return err
		}
		before := len(r.said)
		for _, begin := range of.metrics {
			r.said = append(r.said, metrics.Lines(begin)...)
		}
		if of.log != "" {
			line, err := w.nodes[0].Process().LastLine(of.log)
			if err != nil {
				return err
			}
			if line != "" {
				r.said = append(r.said, "log: "+line)
			}
		}
		if of.hung {
			n := w.takenConnections()
			r.said = append(r.said, fmt.Sprintf("the server that never answers took %d connection(s)", n))
			if n == 0 {
				return errors.New("nobody has connected to the server that never answers")
			}
		} else if len(r.said) == before {
			return errors.New("the server says nothing of it: none of " + strings.Join(of.metrics, ", "))
		}
		return nil
	}
}
