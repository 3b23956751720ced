package api_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// ownTable is what a request says of the table of ownProducer.
const ownTable = `{"name": "public.outbox", "id": "id", "account": "who", "type": "type", "data": "payload"}`

// ownProducer makes a database with a table of the producer's own.
func ownProducer(t *testing.T, w *world) *producer {
	t.Helper()
	p := newProducer(t, w, false)
	p.do("create table outbox (id bigint generated always as identity primary key, who text, type text, payload jsonb)")
	role, _, _ := strings.Cut(strings.TrimPrefix(p.url, "postgres://"), "@")
	p.do("grant select, delete on outbox to " + role)
	return p
}

func TestASourceWithATableOfTheProducersOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	p := ownProducer(t, w)
	body := `{"database_url": "` + p.url + `", "table": ` + ownTable + `}`
	if got := w.want(422, "PUT /sources/shop", strings.Replace(body, "payload", "nothing", 1)); got.body["code"] != "source_unusable" ||
		!strings.Contains(got.text, "the table public.outbox has no column nothing") {
		t.Errorf("a column that is missing = %s", got.text)
	}
	made := w.want(201, "PUT /sources/shop", body)
	var table map[string]any
	if err := json.Unmarshal([]byte(ownTable), &table); err != nil {
		t.Fatal(err)
	}
	shown, _ := made.body["table"].(map[string]any)
	has(t, "its table", shown, table)
	has(t, "made", made.body, map[string]any{"keep_hours": 0.0})
	if state, _ := made.body["state"].(map[string]any); state["missing"] != nil {
		t.Errorf("missing is %v, want null", state["missing"])
	}
	p.do(`insert into outbox (who, type, payload) values
		('acme', 'no type', '1'), ('nobody', 'order.created', '2'), ('acme', 'order.created', '3'), ('acme', 'no type', '4')`)
	has(t, "its state", w.want(200, "GET /sources/shop/state", "").body, map[string]any{"waiting": 1.0, "rejected": 3.0, "version": 0.0})
	rows := w.want(200, "GET /sources/shop/rejected", "").data()
	if len(rows) != 3 {
		t.Fatalf("%d rows are rejected, want 3: %v", len(rows), rows)
	}
	has(t, "the first", rows[0], map[string]any{
		"account": "acme", "type": "no type", "field": "type", "data": 1.0, "published_at": nil, "producer": "",
	})
	has(t, "the second", rows[1], map[string]any{"account": "nobody", "field": "account", "code": "not_found", "data": 2.0})
	if one := w.want(200, "GET /sources/shop/rejected?account=acme&limit=1", ""); len(one.data()) != 1 || one.data()[0]["data"] != 1.0 {
		t.Errorf("a page of one = %s", one.text)
	}
	if got := w.want(422, "POST /sources/shop/rejected/retry", `{"account": "acme"}`); !strings.Contains(got.text, "tried again each minute") {
		t.Errorf("retry = %s", got.text)
	}
	discard := `{"account": "acme", "ids": ["` + rows[2]["id"].(string) + `", "` + rows[1]["id"].(string) + `"]}`
	has(t, "discarded", w.want(200, "POST /sources/shop/rejected/discard", discard).body, map[string]any{"rows": 1.0})
	left := ""
	err := p.QueryRow(t.Context(), "select string_agg(payload::text, ' ' order by id) from outbox").Scan(&left)
	if err != nil || left != "1 2 3" {
		t.Errorf("the rows %s are left, %v", left, err)
	}
	back := w.want(200, "PUT /sources/shop?check=false", `{"database_url": "`+p.url+`"}`)
	has(t, "set back", back.body, map[string]any{"keep_hours": 24.0, "table": nil})
}

func TestFaultsOfAMapping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const rest = `"type": "type", "data": "payload"}`
	for table, field := range map[string]string{
		`{"name": "outbox", "id": "id", "account": "who", ` + rest:                                     "table.name",
		`{"name": "a.b.c", "id": "id", "account": "who", ` + rest:                                      "table.name",
		`{"name": "public.outbox", "account": "who", ` + rest:                                          "table.id",
		`{"name": "public.outbox", "id": "id", "account": "who", "type": "", "data": "a"}`:             "table.type",
		`{"name": "public.outbox", "id": "id", "account": "who", "type": "a\u0000", "data": "a"}`:      "table.type",
		`{"name": "public.outbox", "id": "id", ` + rest:                                                "table.account",
		`{"name": "public.outbox", "id": "id", "account": "who", "fixed_account": "acme", ` + rest:     "table.account",
		`{"name": "public.outbox", "id": "id", "fixed_account": "nobody", ` + rest:                     "table.fixed_account",
		`{"name": "public.outbox", "id": "id", "account": "who", ` + rest + `, "keep_hours": 24`:       "keep_hours",
		`{"name": "public.outbox", "id": "` + strings.Repeat("i", 64) + `", "account": "who", ` + rest: "table.id",
		`{"name": "public.outbox", "id": "id", "account": "who", "columns": {}, ` + rest:               "table.columns",
		`{"name": "public.outbox", "id": "id", "account": "who", "order": "\u0007order", ` + rest:      "table.order",
	} {
		got := w.want(422, "PUT /sources/shop?check=false", `{"database_url": "postgres://reader@producer.example/shop", "table": `+table+`}`)
		if fields := got.fields(); len(fields) != 1 || fields[0] != field {
			t.Errorf("%s: %s, want a fault of %s", table, got.text, field)
		}
	}
	w.want(201, "PUT /sources/shop?check=false", `{"database_url": "postgres://reader@producer.example/shop", "table": {
		"name": "public.outbox", "id": "id", "fixed_account": "acme", "type": "type", "data": "payload"}}`)
}
