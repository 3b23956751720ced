package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/internal/secrets"
)

// seedEndpoints makes all endpoints of a group but the first, while no server runs.
func (w *environment) seedEndpoints(ctx context.Context, place int) error {
	g := w.groups[place]
	made := w.first[g.class].ID
	first := fmt.Sprintf("'%x'", made[:])
	at := w.first[g.class].CreatedAt.UnixMilli()
	id := func(kind int) string {
		return fmt.Sprintf("pg_temp.make_id(%d, %d + i)", at, (2*place+kind)*10_000_000)
	}
	types := fmt.Sprintf("array['%s.t' || i]", g.class)
	if g.fanOut {
		types = "base.event_types"
	}
	host := fmt.Sprintf("'127.%d.' || i %% %d / 250 || '.' || 1 + i %% %[2]d %% 250", place, max(1, g.hosts))
	if g.hosts <= 1 && place == 0 {
		host = "'127.0.0.1'"
	}
	series := fmt.Sprintf("generate_series(1::bigint, %d) i", g.endpoints-1)
	_, err := w.lab.SQL(ctx, w.nodes[0], lab.SeedSQL+lab.Copies{
		Table: "endpoints", Which: "id = " + first,
		Overrides: map[string]string{
			"id": id(0), "uid": "null", "event_types": types, "version": "v.version + i",
			"url": fmt.Sprintf("'http://' || %s || ':%s/%s'", host, w.sink.Port(), g.class),
		},
		Source: "(select version from subscriptions) v, " + series,
	}.SQL()+lab.Copies{
		Table: "endpoint_secrets", Which: "endpoint = " + first,
		Overrides: map[string]string{"id": id(1), "endpoint": id(0)},
		Source:    series,
	}.SQL()+fmt.Sprintf(`
		update subscriptions set version = version + %d;
		vacuum (analyze) endpoints;
		vacuum (analyze) endpoint_secrets;`, g.endpoints-1))
	if err != nil {
		return err
	}
	return w.encryptSecrets(ctx, first)
}

// encryptSecrets encrypts the copies of an endpoint's secret again, because an encrypted secret
// decrypts only in its own row. The servers get no keys from outside, so the keyring is in their
// database.
func (w *environment) encryptSecrets(ctx context.Context, first string) error {
	digits, err := w.lab.SQL(ctx, w.nodes[0], "select encode(text, 'hex') from keyring")
	if err != nil {
		return err
	}
	text, err := hex.DecodeString(digits)
	if err != nil {
		return fmt.Errorf("read the keyring: %w", err)
	}
	keyring, err := secrets.Parse(text)
	if err != nil {
		return fmt.Errorf("read the keyring: %w", err)
	}
	copies, err := w.lab.SQL(ctx, w.nodes[0], fmt.Sprintf(`
		select encode(uuid_send(id), 'hex') || encode(encrypted, 'hex')
		from endpoint_secrets
		where encrypted in (select encrypted from endpoint_secrets where endpoint = %[1]s)
		order by endpoint <> %[1]s`, first))
	if err != nil {
		return err
	}
	rows, err := reencrypted(ctx, secrets.New(keyring), strings.Fields(copies))
	if err != nil {
		return err
	}
	for some := range slices.Chunk(rows, 10_000) {
		_, err := w.lab.SQL(ctx, w.nodes[0], `
			update endpoint_secrets s
			set encrypted = decode(n.encrypted, 'hex')
			from (values `+strings.Join(some, ",\n")+`) n (id, encrypted)
			where s.id = n.id::uuid;`)
		if err != nil {
			return err
		}
	}
	return nil
}

// reencrypted encrypts the text of the first copy again for each copy. A copy consists of the hex
// digits of an id and of an encrypted secret. The result are rows of SQL.
func reencrypted(ctx context.Context, v *secrets.Vault, copies []string) (rows []string, err error) {
	var text string
	for i, digits := range copies {
		row, err := hex.DecodeString(digits)
		if err != nil || len(row) <= len(postrider.SecretID{}) {
			return nil, fmt.Errorf("%q is no secret", digits)
		}
		s := postrider.Secret{ID: postrider.SecretID(row[:16]), Encrypted: row[16:]}
		if i == 0 {
			if text, err = v.DecryptSecret(ctx, s); err != nil {
				return nil, fmt.Errorf("decrypt the first secret: %w", err)
			}
		}
		if err := v.EncryptSecret(ctx, &s, text); err != nil {
			return nil, fmt.Errorf("encrypt a secret: %w", err)
		}
		rows = append(rows, fmt.Sprintf("('%x', '%x')", s.ID[:], s.Encrypted))
	}
	return rows, nil
}

// tidied brings PostgreSQL into the state after seeding: after a checkpoint, the log gets each
// changed page as a whole once.
func tidied(ctx context.Context, w *environment, _ *reading) error {
	if _, err := w.lab.SQL(ctx, w.nodes[0], "vacuum (analyze) queue;\ncheckpoint;"); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// backlog fills the queue of a class, whose only endpoint is paused, and resumes that endpoint. All
// rows are due. They are first attempts or retries of one event.
func backlog(class string, rows int, retries bool) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		overrides := map[string]string{
			"id":          fmt.Sprintf("pg_temp.make_id(%d, i)", time.Now().Add(-time.Minute).UnixMilli()),
			"due_at":      "now() - interval '1 minute' + i * interval '1 microsecond'",
			"named_event": "postrider_event(base.id, base.named_event)",
		}
		if retries {
			overrides["lane"], overrides["claims"], overrides["step"] = "1", "1", "1"
		}
		c, to := w.nodes[0].Client(), w.first[class].ID
		event := apitypes.EventCreate{Account: account, Type: class + ".t0", Data: json.RawMessage(`{"of":"the backlog"}`)}
		if _, err := c.Publish(ctx, event); err != nil {
			return fmt.Errorf("publish the event of the backlog: %w", err)
		}
		_, err := w.lab.SQL(ctx, w.nodes[0], lab.SeedSQL+lab.Copies{
			Table: "queue", Which: fmt.Sprintf("endpoint = '%x'", to[:]),
			Overrides: overrides, Source: fmt.Sprintf("generate_series(1::bigint, %d) i", rows),
		}.SQL())
		if err != nil {
			return fmt.Errorf("seed the backlog: %w", err)
		}
		if err := tidied(ctx, w, nil); err != nil {
			return err
		}
		if _, err := c.ResumeEndpoint(ctx, to); err != nil {
			return fmt.Errorf("resume the backlog: %w", err)
		}
		return nil
	}
}

// history makes that many rows, half of them events and half attempts, for all endpoints. They date
// from yesterday's midnight until now.
func history(rows int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		now := time.Now().UTC()
		begin := now.Truncate(24 * time.Hour).Add(-24 * time.Hour)
		step := now.Add(-time.Minute).Sub(begin) / time.Duration(max(1, rows/2))
		at := fmt.Sprintf("timestamptz '%s' + i * interval '%d microseconds'", begin.Format(time.RFC3339), step.Microseconds())
		series := fmt.Sprintf("generate_series(1::bigint, %d) i", rows/2)
		ms := fmt.Sprintf("%d + i * %d / 1000", begin.UnixMilli(), step.Microseconds())
		event, delivery := "pg_temp.make_id("+ms+", i)", "pg_temp.make_id("+ms+", 10000000 + i)"
		_, err := w.lab.SQL(ctx, w.nodes[0], lab.SeedSQL+
			"select postrider_make_partitions(current_date - 1, current_date);\n"+lab.Copies{
			Table: "events", Which: "true",
			Overrides: map[string]string{"id": event, "created_at": at, "data": `convert_to('{"of":"yesterday"}', 'UTF8')`},
			Source:    series,
		}.SQL()+lab.Copies{
			Table: "attempts", Which: "outcome = 'accepted'",
			Overrides: map[string]string{
				"delivery": delivery, "event": event, "named_event": event, "endpoint": "e.ids[1 + i % e.n]", "started_at": at,
			},
			Source: "(select array_agg(id) as ids, count(*) as n from endpoints) e, " + series,
		}.SQL()+"vacuum (analyze) events;\nvacuum (analyze) attempts;\ncheckpoint;")
		if err != nil {
			return fmt.Errorf("seed history: %w", err)
		}
		return nil
	}
}
