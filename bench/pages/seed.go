package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

const (
	account  = "pages"
	accounts = 100
	days     = 30    // days of the history
	deadIn   = 50    // one in 50 deliveries is dead
	waiting  = 50000 // pending deliveries of the paused endpoint
	failing  = 1000  // endpoints with an open circuit, as many as the overview counts
	told     = 10000 // notices
)

// history is a server whose store gets a long history.
type history struct {
	options

	store string // sqlite or postgres

	lab    *lab.Lab
	server *lab.Server
	client *client.Client
	fill   lab.Fill // set while seed runs

	// The deliveries whose rows are copied. The circuit of dead's endpoint is open. The receiver of
	// gone answered 410, so its endpoint is disabled.
	delivered, dead, pending, gone apitypes.Delivery
}

// startHistory starts a server and makes one delivery of each kind through its API.
func startHistory(ctx context.Context, l *lab.Lab, o options, store string) (*history, error) {
	sink, err := l.StartSink(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(sink.Answer(ctx, "bad", lab.Answer{Status: 500}), sink.Answer(ctx, "gone", lab.Answer{Status: 410})); err != nil {
		return nil, err
	}
	server, err := l.StartServer(ctx, lab.ServerOptions{Store: store, Ready: time.Minute})
	if err != nil {
		return nil, err
	}
	h := &history{options: o, store: store, lab: l, server: server, client: server.Client()}
	if _, err := h.client.CreateAccount(ctx, apitypes.AccountCreate{UID: account, Name: "Pages"}); err != nil {
		return nil, fmt.Errorf("create the account: %w", err)
	}
	base := "http://127.0.0.1:" + sink.Port() + "/"
	if h.delivered, err = h.deliver(ctx, base, "ok", postrider.Delivered); err != nil {
		return nil, err
	}
	if h.dead, err = h.deliver(ctx, base, "bad", postrider.Dead); err != nil {
		return nil, err
	}
	if h.gone, err = h.deliver(ctx, base, "gone", postrider.Dead); err != nil {
		return nil, err
	}
	if _, err := h.client.SetCircuit(ctx, h.dead.Endpoint, postrider.CircuitOpen); err != nil {
		return nil, fmt.Errorf("open a circuit: %w", err)
	}
	h.pending, err = h.deliver(ctx, base, "paused", postrider.Pending)
	return h, err
}

// deliver makes an endpoint and an event for only this endpoint, and waits until the delivery has
// the status. For the status pending it pauses the endpoint.
func (h *history) deliver(ctx context.Context, base, class string, until postrider.Status) (apitypes.Delivery, error) {
	endpoint, err := h.client.CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: account, URL: base + class, EventTypes: []string{"page." + class},
		Policy: apitypes.Policy{Retry: apitypes.Of(apitypes.Retry{DelaysMS: []int64{0}})},
	})
	if err != nil {
		return apitypes.Delivery{}, fmt.Errorf("create the endpoint %s: %w", class, err)
	}
	if until == postrider.Pending {
		if _, err := h.client.PauseEndpoint(ctx, endpoint.ID, ""); err != nil {
			return apitypes.Delivery{}, fmt.Errorf("pause the endpoint: %w", err)
		}
	}
	event, err := h.client.Publish(ctx, apitypes.EventCreate{
		Account: account, Type: "page." + class,
		Data: json.RawMessage(`{"order_id":42,"items":[{"sku":"A-1","count":2}],"note":"the history of a month"}`),
	})
	if err != nil {
		return apitypes.Delivery{}, fmt.Errorf("publish: %w", err)
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-again.C {
		page, err := h.client.Deliveries(ctx, client.DeliveryFilter{Event: event.ID, Status: until})
		if err != nil {
			return apitypes.Delivery{}, fmt.Errorf("wait for the delivery: %w", err)
		}
		if len(page.Data) == 1 {
			return page.Data[0], nil
		}
	}
	return apitypes.Delivery{}, errors.New("the delivery to " + class + " is not " + string(until))
}

// seed fills the store while no server runs, and starts the server again.
func (h *history) seed(ctx context.Context) error {
	err := h.server.Process().Terminate(30 * time.Second)
	if err != nil {
		return err
	}
	if h.fill, err = h.lab.Fill(ctx, h.server); err != nil {
		return err
	}
	for _, fill := range []func(context.Context) error{h.fillDirectory, h.fillHistory, h.fillTroubles, h.fillRollups} {
		if err := fill(ctx); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	if err := h.fill.End(ctx); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return h.server.Restart(ctx)
}

// copies makes copies, one after another.
func (h *history) copies(ctx context.Context, all ...lab.Copies) error {
	for _, c := range all {
		if err := h.fill.Copy(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// which returns the SQL condition that the column has the id.
func which[ID ~[16]byte](h *history, column string, id ID) string {
	return column + " = " + h.fill.Key(id)
}

// fillDirectory makes the accounts and the endpoints. The copies have no secrets, because nothing
// is sent to them. The temporary table targets numbers the endpoints from 0.
func (h *history) fillDirectory(ctx context.Context) error {
	at := strconv.FormatInt(time.Now().Add(-days*24*time.Hour).UnixMilli(), 10)
	err := h.copies(ctx, lab.Copies{
		Table: "accounts", Which: "uid = '" + account + "'",
		Overrides: map[string]string{"id": h.fill.ID(at, "i"), "uid": "'customer-' || i", "name": "'Customer ' || i"},
		Source:    h.fill.Series(accounts, 1),
	}, lab.Copies{
		Table: "endpoints", Which: which(h, "id", h.delivered.Endpoint),
		Overrides: map[string]string{
			"id": h.fill.ID(at, "1000000 + i"), "account": h.fill.ID(at, fmt.Sprintf("1 + i %% %d", accounts)),
			"uid": "null", "version": "v.version + i", "url": "base.url || '/' || i",
		},
		Source: h.fill.Series(h.endpoints, 1) + " cross join (select version from subscriptions) v",
	})
	if err != nil {
		return err
	}
	return h.fill.Do(ctx, fmt.Sprintf(`update subscriptions set version = version + %d;
		create temp table targets (n integer primary key, id uuid, account uuid);
		insert into targets select row_number() over (order by id) - 1, id, account from endpoints where url like '%%/ok/%%'`, h.endpoints))
}

// fillHistory makes the events, the attempts, the dead letters and the backlog. It spreads them
// evenly over the days.
func (h *history) fillHistory(ctx context.Context) error {
	begin := time.Now().UTC().Truncate(24 * time.Hour).Add(-(days - 1) * 24 * time.Hour)
	span := time.Now().Add(-time.Minute).Sub(begin).Milliseconds()
	ms := fmt.Sprintf("%d + i * %d / %d", begin.UnixMilli(), span, h.attempts)
	id := func(kind int) string { return h.fill.ID(ms, fmt.Sprintf("%d00000000 + i", kind)) }
	source := func(every int) string {
		return h.fill.Series(h.attempts, every) + fmt.Sprintf(" left join targets e on e.n = i %% %d", h.endpoints)
	}
	of := func(delivery int, at string) map[string]string {
		return map[string]string{
			"delivery": id(delivery), at: h.fill.At(ms), "event": id(1), "named_event": id(1), "endpoint": "e.id", "account": "e.account",
		}
	}
	if h.store == "postgres" {
		if err := h.fill.Do(ctx, fmt.Sprintf("select postrider_make_partitions(current_date - %d, current_date)", days)); err != nil {
			return err
		}
	}
	return h.copies(ctx, lab.Copies{
		Table: "events", Which: which(h, "id", h.delivered.Event),
		Overrides: map[string]string{"id": id(1), "account": "e.account", "created_at": h.fill.At(ms), "idempotency_key": "null"},
		Source:    source(5),
	}, lab.Copies{
		Table: "attempts", Which: which(h, "delivery", h.delivered.ID), Overrides: of(2, "started_at"), Source: source(1),
	}, lab.Copies{
		Table: "attempts", Which: which(h, "delivery", h.dead.ID), Overrides: of(3, "started_at"), Source: source(deadIn),
	}, lab.Copies{
		Table: "dead_letters", Which: which(h, "delivery", h.dead.ID), Overrides: of(3, "died_at"), Source: source(deadIn),
	}, lab.Copies{
		Table: "queue", Which: which(h, "id", h.pending.ID),
		Overrides: map[string]string{
			"id":     h.fill.ID(strconv.FormatInt(begin.UnixMilli(), 10), "i"),
			"due_at": h.fill.At(strconv.FormatInt(time.Now().Add(-time.Hour).UnixMilli(), 10)),
		},
		Source: h.fill.Series(waiting, 1),
	})
}
