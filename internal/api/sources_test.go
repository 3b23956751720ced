package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

// Open implements [sources.Outboxes]. All hosts are the server of the producer.
func (w *world) Open(ctx context.Context, s postrider.Source) (*outbox.DB, error) {
	password := ""
	if s.Password != nil {
		var err error
		if password, err = reversed(s.ID.String(), s.Password); err != nil {
			return nil, err
		}
	}
	return outbox.Open(ctx, outbox.Config{URL: s.URL, Password: password, CA: s.CA, Table: s.Table, Source: s.ID, Dial: w.dial})
}

func (w *world) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if w.producer == "" {
		return nil, errors.New("no route to the producer")
	}
	return new(net.Dialer).DialContext(ctx, "unix", w.producer)
}

// producer is the database of a producer, in which a role of each side may log in.
type producer struct {
	*pgx.Conn

	t   *testing.T
	url string // of the reader, for a source
}

// newProducer makes the database of a producer with or without an outbox, which the world reaches.
func newProducer(t *testing.T, w *world, installed bool) *producer {
	t.Helper()
	dsn := testkit.Postgres(t, nil)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	w.producer = testkit.SharedCluster(t).Socket()
	p := &producer{conn, t, ""}
	if installed {
		own := fmt.Sprintf("postgres://postgres@producer.example/%s?sslmode=disable", conn.Config().Database)
		if err := outbox.Install(t.Context(), outbox.Config{URL: own, Dial: w.dial}, false); err != nil {
			t.Fatal(err)
		}
	}
	role := "reader_" + conn.Config().Database
	p.do("create role " + role + " login")
	if installed {
		p.do("grant postrider_reader to " + role)
	}
	t.Cleanup(func() {
		_, _ = conn.Exec(context.WithoutCancel(t.Context()), "drop owned by "+role+"; drop role "+role)
	})
	p.url = fmt.Sprintf("postgres://%s@producer.example/%s?sslmode=disable", role, conn.Config().Database)
	return p
}

func (p *producer) do(statement string, args ...any) {
	p.t.Helper()
	if _, err := p.Exec(p.t.Context(), statement, args...); err != nil {
		p.t.Fatalf("%s: %v", statement, err)
	}
}

// publish publishes an event, and returns the id of its row.
func (p *producer) publish(account, kind string) (row string) {
	p.t.Helper()
	err := p.QueryRow(p.t.Context(), `select postrider.publish(account => $1, type => $2, data => '{"order": 42}', on_error => 'reject')`,
		account, kind).Scan(&row)
	if err != nil {
		p.t.Fatal(err)
	}
	return row
}

const secretWord = "correct-horse"

func TestASourceIsTriedBeforeItIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"database_url": "postgres://reader:` + secretWord + `@producer.example/shop"}`
	got := w.want(422, "PUT /sources/shop", body)
	if got.body["code"] != "source_unusable" || !strings.Contains(got.text, "no route to the producer") {
		t.Errorf("a database that cannot be reached = %s", got.text)
	}
	w.want(404, "GET /sources/shop", "")

	p := newProducer(t, w, false)
	if got := w.want(422, "PUT /sources/shop", `{"database_url": "`+p.url+`"}`); !strings.Contains(got.text, "postrider outbox install") {
		t.Errorf("a database without an outbox = %s", got.text)
	}
	p = newProducer(t, w, true)
	made := w.want(201, "PUT /sources/shop", `{"database_url": "`+p.url+`"}`)
	has(t, "made", made.body, map[string]any{
		"name": "shop", "database_url": p.url, "password_set": false, "ca": nil, "keep_hours": 24.0, "paused": false,
	})
	state := w.want(200, "GET /sources/shop/state", "")
	has(t, "its state", state.body, map[string]any{"waiting": 0.0, "rejected": 0.0, "oldest_at": nil})
	p.publish("acme", "order.created")
	has(t, "its state", w.want(200, "GET /sources/shop/state", "").body, map[string]any{"waiting": 1.0})
}

func TestThePasswordOfASourceIsNeverShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const put = "PUT /sources/shop?check=false"
	texts := w.want(201, put, `{"database_url": "postgres://reader:`+secretWord+`@producer.example:5433/shop?sslmode=verify-ca"}`).text
	has(t, "shown", w.want(200, "GET /sources/shop", "").body, map[string]any{
		"database_url": "postgres://reader@producer.example:5433/shop?sslmode=verify-ca", "password_set": true,
	})
	texts += w.want(200, put, `{"database_url": "postgres://reader@producer.example:5433/other", "keep_hours": 48}`).text
	has(t, "it stays", w.want(200, "GET /sources/shop", "").body, map[string]any{"password_set": true, "keep_hours": 48.0})
	moved := w.want(422, put, `{"database_url": "postgres://reader@elsewhere.example/shop"}`)
	if fields := moved.fields(); len(fields) != 1 || fields[0] != "password" {
		t.Errorf("the stored password for another host = %s", moved.text)
	}
	stored, err := w.store.Sources(t.Context())
	if err != nil || strings.Contains(string(stored[0].Password), secretWord) {
		t.Errorf("stored %+v, %v", stored, err)
	}
	texts += w.want(422, "PUT /sources/shop", `{"database_url": "postgres://reader:`+secretWord+`@producer.example:5433/shop"}`).text
	texts += moved.text + w.want(200, "GET /sources", "").text + w.want(200, "GET /audit", "").text + w.log.String()
	removed := w.want(200, put, `{"database_url": "postgres://reader@elsewhere.example/shop", "password": null}`)
	has(t, "removed", removed.body, map[string]any{"password_set": false})
	if strings.Contains(texts, secretWord) {
		t.Errorf("a response, the audit log or the log has the password: %s", texts)
	}
}

func TestFaultsOfASource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, field := range map[string]string{
		`{"database_url": "mysql://reader@producer.example/shop"}`:                                                     "database_url",
		`{"database_url": "postgres://producer.example/shop"}`:                                                         "database_url",
		`{"database_url": "postgres://reader@/shop"}`:                                                                  "database_url",
		`{"database_url": "postgres://reader@producer.example"}`:                                                       "database_url",
		`{"database_url": "postgres://reader:a/` + secretWord + `@producer.example/shop"}`:                             "database_url",
		`{"database_url": "postgres://reader:%zz@producer.example/shop"}`:                                              "database_url",
		`{"database_url": "postgres://reader@producer.example/shop?sslmode=prefer"}`:                                   "database_url",
		`{"database_url": "postgres://reader@producer.example/shop?sslkey=/etc/passwd"}`:                               "database_url",
		`{"database_url": "postgres://reader:a@producer.example/shop", "password": "b"}`:                               "password",
		`{"database_url": "postgres://reader@producer.example/shop", "ca": "no certificate"}`:                          "ca",
		`{"database_url": "postgres://reader@producer.example/shop", "keep_hours": 0}`:                                 "keep_hours",
		`{"database_url": "postgres://reader@producer.example/shop", "password": "` + strings.Repeat("x", 1025) + `"}`: "password",
	} {
		got := w.want(422, "PUT /sources/shop?check=false", body)
		if fields := got.fields(); len(fields) != 1 || fields[0] != field || strings.Contains(got.text, secretWord) {
			t.Errorf("%s: %s, want a fault of %s", body, got.text, field)
		}
	}
	const good = `{"database_url": "postgres://reader@one.example:5432,two.example:5432/shop?target_session_attrs=read-write"}`
	w.want(422, "PUT /sources/ep_1?check=false", good)
	w.want(404, "PUT /sources/src_01h455vb4pex5vsknk084sn02q?check=false", good)
	made := w.want(201, "PUT /sources/shop?check=false", good)
	has(t, "by its id", w.want(200, "PUT /sources/"+made.id("id")+"?check=false", good).body, map[string]any{"name": "shop"})
	if got := w.want(503, "GET /sources/shop/rejected", ""); got.body["code"] != "source_unavailable" {
		t.Errorf("rows of a database that cannot be reached = %s", got.text)
	}
	for _, body := range []string{`{}`, `{"ids": []}`, `{"ids": ["evt_01h455vb4pex5vsknk084sn02q"]}`} {
		w.want(422, "POST /sources/shop/rejected/discard", body)
		w.want(422, "POST /sources/shop/rejected/retry", body)
	}
	w.want(422, "POST /sources/shop/rejected/retry", `{"code": "not_found", "new_account": "nobody"}`)
	w.want(422, "POST /sources/shop/rejected/retry", `{"code": "not_found", "new_type": "no type"}`)
}

func TestASourceIsPausedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const put = `{"database_url": "postgres://reader@producer.example/shop"}`
	made := w.want(201, "PUT /sources/shop?check=false", put)
	has(t, "paused", w.want(200, "POST /sources/shop/pause", "").body, map[string]any{"paused": true})
	has(t, "it stays paused", w.want(200, "PUT /sources/shop?check=false", put).body, map[string]any{"paused": true})
	has(t, "resumed", w.want(200, "POST /sources/"+made.id("id")+"/resume", "").body, map[string]any{"paused": false})
	w.want(204, "DELETE /sources/shop", "")
	w.want(404, "POST /sources/shop/pause", "")
	for _, entry := range w.audit("?object=" + made.id("id")) {
		if entry["object"] != "source" {
			t.Errorf("audit entry %v, want one of a source", entry)
		}
	}
	if n := len(w.audit("?object=" + made.id("id"))); n != 5 {
		t.Errorf("%d audit entries, want 5", n)
	}
	bound := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	if got := w.do(bound, "GET /sources", ""); got.status != 403 {
		t.Errorf("without the scope admin = %d", got.status)
	}
}

func TestRejectedRowsAreRetriedAndDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	p := newProducer(t, w, true)
	w.want(201, "PUT /sources/shop", `{"database_url": "`+p.url+`"}`)
	wrong, other, third := p.publish("acme", "no type"), p.publish("acme", "no type"), p.publish("beta", "no type")

	page := w.want(200, "GET /sources/shop/rejected?limit=2", "")
	if got := page.data(); len(got) != 2 || got[0]["id"] != third || page.body["next_cursor"] == nil {
		t.Fatalf("the first page = %s", page.text)
	}
	last := w.want(200, "GET /sources/shop/rejected?cursor="+page.id("next_cursor"), "").data()
	if len(last) != 1 {
		t.Fatalf("the last page has %d rows", len(last))
	}
	has(t, "the oldest row", last[0], map[string]any{
		"id": wrong, "account": "acme", "type": "no type", "field": "type", "data": map[string]any{"order": 42.0},
	})
	w.want(422, "GET /sources/shop/rejected?cursor=nonsense", "")
	if got := w.want(200, "GET /sources/shop/rejected?account=beta", "").data(); len(got) != 1 {
		t.Errorf("rows of beta = %v", got)
	}

	retried := w.want(200, "POST /sources/shop/rejected/retry", `{"ids": ["`+wrong+`"], "new_type": "order.created", "new_account": "acme"}`)
	has(t, "retried", retried.body, map[string]any{"rows": 1.0})
	has(t, "discarded", w.want(200, "POST /sources/shop/rejected/discard", `{"account": "acme"}`).body, map[string]any{"rows": 1.0})
	has(t, "the state", w.want(200, "GET /sources/shop/state", "").body, map[string]any{"waiting": 1.0, "rejected": 1.0})

	entry := w.audit("?action=discard-rejected-rows")[0]
	details, _ := entry["details"].(map[string]any)
	has(t, "audited", details, map[string]any{"rows": "1", "account": "acme"})
	for row, want := range map[string]string{wrong: "row_waiting", third: "row_rejected", other: "not_found"} {
		place := w.want(404, "GET /events/"+row, "")
		if place.body["code"] != want {
			t.Errorf("GET of %s = %s, want %s", row, place.text, want)
		}
		if want == "not_found" {
			has(t, "a search for it", w.want(200, "GET /search?q="+row, "").body, map[string]any{"total": 0.0})
		} else if got := w.want(404, "GET /search?q="+row, ""); got.body["code"] != want || got.body["detail"] != place.body["detail"] {
			t.Errorf("a search for %s = %s, want %s", row, got.text, want)
		}
	}
	if got := w.do(w.bound(acme), "GET /search?q="+wrong, ""); got.status != 200 {
		t.Errorf("a customer's search for a row = %s, want no hit", got.text)
	}
	w.producer = ""
	if got := w.want(404, "GET /events/"+wrong, ""); !strings.Contains(got.text, "the outbox of the source shop cannot be read now") {
		t.Errorf("GET of a row that nobody can look for = %s", got.text)
	}
}
