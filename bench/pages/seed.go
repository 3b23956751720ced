package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

const (
	account  = "pages"
	accounts = 100
	days     = 30    // that the history covers
	deadIn   = 50    // one delivery of so many is dead
	waiting  = 50000 // pending deliveries of the paused endpoint
)

// history is a server whose store gets a long history.
type history struct {
	options

	lab    *lab.Lab
	server *lab.Server
	client *client.Client

	// The rows that are copied: a delivered, a dead and a pending delivery.
	delivered, dead, pending apitypes.Delivery
}

// startHistory starts a server and makes one delivery of each kind through its API.
func startHistory(ctx context.Context, l *lab.Lab, o options) (*history, error) {
	sink, err := l.StartSink(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := sink.Answer(ctx, "bad", lab.Answer{Status: 500}); err != nil {
		return nil, err
	}
	server, err := l.StartServer(ctx, lab.ServerOptions{Store: "postgres", Ready: time.Minute})
	if err != nil {
		return nil, err
	}
	h := &history{options: o, lab: l, server: server, client: server.Client()}
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
	h.pending, err = h.deliver(ctx, base, "paused", postrider.Pending)
	return h, err
}

// deliver makes an endpoint and an event for it alone, and waits until the delivery
// has the status. The endpoint of a pending delivery is paused.
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
		Account: account, Type: "page." + class, Data: json.RawMessage(`{"order_id":42,"items":[{"sku":"A-1","count":2}],"note":"the history of a month"}`),
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
	if err := h.server.Process().Terminate(30 * time.Second); err != nil {
		return err
	}
	if _, err := h.lab.SQL(ctx, h.server, lab.SeedSQL+h.directorySQL()+h.historySQL()+h.rollupSQL()+
		"vacuum (analyze);\ncheckpoint;"); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return h.server.Restart(ctx)
}

// directorySQL makes the accounts and the endpoints. The copies have no secrets, since
// nothing is sent to them.
func (h *history) directorySQL() string {
	at := time.Now().Add(-days * 24 * time.Hour).UnixMilli()
	return lab.Copies{
		Table: "accounts", Which: "uid = '" + account + "'",
		Overrides: map[string]string{
			"id": fmt.Sprintf("pg_temp.make_id(%d, i)", at), "uid": "'customer-' || i", "name": "'Customer ' || i",
		},
		Source: fmt.Sprintf("generate_series(1::bigint, %d) i", accounts),
	}.SQL() + lab.Copies{
		Table: "endpoints", Which: uuid("id", h.delivered.Endpoint),
		Overrides: map[string]string{
			"id":      fmt.Sprintf("pg_temp.make_id(%d, 1000000 + i)", at),
			"account": fmt.Sprintf("pg_temp.make_id(%d, 1 + i %% %d)", at, accounts),
			"uid":     "null", "version": "v.version + i", "url": "base.url || '/' || i",
		},
		Source: fmt.Sprintf("(select version from subscriptions) v, generate_series(1::bigint, %d) i", h.endpoints),
	}.SQL() + fmt.Sprintf("update subscriptions set version = version + %d;\n", h.endpoints)
}

// historySQL makes the events, the attempts, the dead letters and the backlog, spread
// evenly over the days.
func (h *history) historySQL() string {
	begin := time.Now().UTC().Truncate(24 * time.Hour).Add(-(days - 1) * 24 * time.Hour)
	span := time.Now().Add(-time.Minute).Sub(begin).Milliseconds()
	ms := fmt.Sprintf("%d + i * %d / %d", begin.UnixMilli(), span, h.attempts)
	id := func(kind int) string { return fmt.Sprintf("pg_temp.make_id(%s, %d00000000 + i)", ms, kind) }
	at := fmt.Sprintf("to_timestamp((%s) / 1000.0)", ms)
	endpoints := `(select array_agg(id) as ids, array_agg(account) as accounts, count(*) as n from endpoints where url like '%/ok/%') e`
	series := func(every int) string {
		return fmt.Sprintf("%s, generate_series(1::bigint, %d, %d) i", endpoints, h.attempts, every)
	}
	of := func(overrides map[string]string) map[string]string {
		overrides["endpoint"], overrides["account"] = "e.ids[1 + i % e.n]", "e.accounts[1 + i % e.n]"
		overrides["event"] = id(1)
		return overrides
	}
	return fmt.Sprintf("select postrider_make_partitions(current_date - %d, current_date);\n", days) +
		lab.Copies{
			Table: "events", Which: uuid("id", h.delivered.Event),
			Overrides: map[string]string{"id": id(1), "account": "e.accounts[1 + i % e.n]", "created_at": at, "idempotency_key": "null"},
			Source:    series(5),
		}.SQL() +
		lab.Copies{
			Table: "attempts", Which: uuid("delivery", h.delivered.ID),
			Overrides: of(map[string]string{"delivery": id(2), "started_at": at}), Source: series(1),
		}.SQL() +
		lab.Copies{
			Table: "attempts", Which: uuid("delivery", h.dead.ID),
			Overrides: of(map[string]string{"delivery": id(3), "started_at": at}), Source: series(deadIn),
		}.SQL() +
		lab.Copies{
			Table: "dead_letters", Which: uuid("delivery", h.dead.ID),
			Overrides: of(map[string]string{"delivery": id(3), "died_at": at}), Source: series(deadIn),
		}.SQL() +
		lab.Copies{
			Table: "queue", Which: uuid("id", h.pending.ID),
			Overrides: map[string]string{"id": fmt.Sprintf("pg_temp.make_id(%d, i)", begin.UnixMilli()), "due_at": "now() - interval '1 hour'"},
			Source:    fmt.Sprintf("generate_series(1::bigint, %d) i", waiting),
		}.SQL()
}

// rollupSQL makes the statistics of two days by minute, of 90 days by hour and of two
// years by day: of everything, of the account and of its endpoint; and of a thousand
// endpoints those of the last day by minute.
func (h *history) rollupSQL() string {
	var sql strings.Builder
	of := func(which, scope string, step int, unit, source string) string {
		return lab.Copies{
			Table: "rollups", Which: which + " and type = '' and step = 0 order by at",
			Overrides: map[string]string{
				"scope": scope, "step": strconv.Itoa(step),
				"at": fmt.Sprintf("date_trunc('%[1]s', base.at) - i * interval '1 %[1]s'", unit),
			},
			Source: source,
		}.SQL()
	}
	kept := []struct {
		unit  string
		steps int
	}{{"minute", 2879}, {"hour", 2159}, {"day", 729}}
	for _, scope := range [][16]byte{{}, h.delivered.Account, h.delivered.Endpoint} {
		for step, k := range kept {
			sql.WriteString(of(fmt.Sprintf("scope = '%x'", scope), "base.scope", step, k.unit, fmt.Sprintf("generate_series(1::bigint, %d) i", k.steps)))
		}
	}
	return sql.String() + of(uuid("scope", h.delivered.Endpoint), "e.id", 0, "minute",
		"(select id from endpoints where url like '%/ok/%' limit 1000) e, generate_series(1::bigint, 1439) i") +
		"update rollup_positions set at = now();\n"
}

// uuid returns the condition that a column has the id.
func uuid[ID ~[16]byte](column string, id ID) string {
	return fmt.Sprintf("%s = '%x'", column, [16]byte(id))
}
