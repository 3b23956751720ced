package outbox_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/jsonx"
	"github.com/postrider/postrider/internal/outbox"
)

// faulty are fields of a publish that the API refuses, as JSON.
var faulty = []string{
	`"account": ""`,
	`"account": null`,
	`"type": ""`,
	`"type": "postrider.test"`,
	`"type": "order..created"`,
	`"type": ".order"`,
	`"type": "order created"`,
	`"type": "bestellung.geändert"`,
	`"type": "` + strings.Repeat("a", 129) + `"`,
	`"type": "a\u0001"`,
	`"idempotency_key": ""`,
	`"idempotency_key": "` + strings.Repeat("k", 257) + `"`,
	`"idempotency_key": "` + strings.Repeat("ü", 129) + `"`,
	`"idempotency_key": "a\u0007b"`,
	`"ordering_key": "` + strings.Repeat("k", 257) + `"`,
	`"ordering_key": "a\u007f"`,
	`"api_version": "` + strings.Repeat("v", 65) + `"`,
	`"max_attempts": 0`,
	`"max_attempts": -1`,
	`"max_attempts": 101`,
	`"subject": ""`,
	`"subject": "a\tb"`,
	`"subject": "a\u0085b"`,
	`"subject": "a\u0002b"`,
	`"subject": "` + strings.Repeat("ü", 129) + `"`,
	`"channels": ["a", "", "b", "a", "c\nd"]`,
	`"channels": ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]`,
	`"channels": ["` + strings.Repeat("c", 129) + `"]`,
	`"channels": ["a", null]`,
	`"channels": ["a\u0003"]`,
	`"metadata": []`,
	`"metadata": null`,
	`"metadata": {"a": 1, "b": null, "c": "d", "e": "f\u0001"}`,
	`"metadata": {"": "x"}`,
	`"metadata": {"a": "b\tc", "` + strings.Repeat("k", 129) + `": "x"}`,
	`"metadata": ` + keys(21),
	`"metadata": {"a": "` + strings.Repeat("x", 2048) + `"}`,
	`"internal": {"a": true}`,
	`"internal": {"a": "b\nc"}`,
	`"previous": [1]`,
	`"previous": "text"`,
	`"previous": {"a": 1}, "changed_paths": ["$.a"]`,
	`"changed_paths": ["", "a", "$a", "$.", "$..a", "$[a]", "$[01]", "$[-1]", "$.a b", "$.a*", "$.a=b", "$.a'b", "$.a]", "$[0", "$.a\"", "$.a\u0085"]`,
	`"changed_paths": ["$", "$.a", "$.a[0].b[12]", "$.a-b", "$.ä", "$[0][1]", "$.a"]`,
	`"changed_paths": ["$.` + strings.Repeat("a", 255) + `"]`,
	`"changed_paths": ` + paths(101),
	`"content_type": "text/csv", "previous": {"a": 1}, "data": "a,b"`,
	`"content_type": "", "data": "a,b"`,
	`"content_type": "csv", "data": "a,b"`,
	`"content_type": "text/", "data": "a,b"`,
	`"content_type": "text/csv ", "data": "a,b"`,
	`"content_type": "text/csv and more", "data": "a,b"`,
	`"content_type": "text/ä", "data": "a,b"`,
	`"content_type": "application/json", "data": "{}"`,
	`"content_type": "Application/JSON; charset=utf-8", "data": "{}"`,
	`"content_type": "text/` + strings.Repeat("c", 128) + `", "data": "a,b"`,
	`"content_type": "text/csv", "data": ""`,
	`"data": "` + strings.Repeat("x", 256<<10) + `"`,
	`"previous": {"a": "` + strings.Repeat("x", 256<<10) + `"}`,
	`"type": "a b", "subject": "a\tb", "max_attempts": 0, "metadata": {"": ""}`,
	`"account": "", "type": "a b", "subject": ""`,
}

func keys(n int) string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("key%d", i)] = "x"
	}
	text, _ := json.Marshal(m)
	return string(text)
}

func paths(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("$[%d]", i))
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// apiFaults returns the texts with which the API refuses the body of a publish.
func apiFaults(body string) []string {
	var b apitypes.EventCreate
	err := jsonx.Decode([]byte(body), &b)
	if err == nil {
		var wrong error
		e := postrider.Event{
			Type: b.Type, APIVersion: b.APIVersion, OrderingKey: b.OrderingKey, IdempotencyKey: b.IdempotencyKey, About: postrider.About(b.About),
		}
		e.Data, wrong = postrider.ParseData(b.ContentType, b.Data, b.DataEncoding)
		if string(b.Previous) == "null" {
			e.About.Previous = nil
		}
		if b.MaxAttempts != nil {
			e.MaxAttempts = cmp.Or(*b.MaxAttempts, -1)
		}
		err = errors.Join(wrong, e.Check(256<<10))
	}
	var texts []string
	for _, fault := range postrider.Faults(err) {
		texts = append(texts, fault.Error())
	}
	return texts
}

// call publishes an event with the fields of a body, and returns the error of the database.
func call(t *testing.T, conn *pgx.Conn, fields map[string]json.RawMessage, more string) error {
	t.Helper()
	function := "publish"
	if fields["content_type"] != nil {
		function = "publish_bytes"
	}
	var named []string
	var args []any
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		kind, value := "json", any(string(fields[name]))
		var text string
		switch isText := json.Unmarshal(fields[name], &text) == nil; {
		case name == "data" && function == "publish_bytes":
			kind, value = "bytea", []byte(text)
		case string(fields[name]) == "null" && name == "account":
			kind, value = "text", nil
		case name == "channels" || name == "changed_paths" || name == "endpoints":
			var list []*string
			if err := json.Unmarshal(fields[name], &list); err != nil {
				t.Fatal(err)
			}
			kind, value = "text[]", list
		case name == "max_attempts":
			kind = "text::int"
		case isText && name != "data" && name != "previous" && name != "metadata" && name != "internal":
			kind, value = "text", text
		}
		args = append(args, value)
		named = append(named, fmt.Sprintf("%s => $%d::%s", name, len(args), kind))
	}
	_, err := conn.Exec(t.Context(), "select postrider."+function+"("+strings.Join(named, ", ")+more+")", args...)
	return err
}

// merged returns the fields of an event with some of them replaced.
func merged(t *testing.T, fields string) (map[string]json.RawMessage, string) {
	t.Helper()
	all := map[string]json.RawMessage{"account": []byte(`"acme"`), "type": []byte(`"order.created"`), "data": []byte(`{}`)}
	if err := json.Unmarshal([]byte("{"+fields+"}"), &all); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return all, string(body)
}

// The function refuses what the API refuses, with the same texts.
func TestFaultsHaveTheTextsOfTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, fields := range faulty {
		name := fields[:min(len(fields), 60)]
		all, body := merged(t, fields)
		if string(all["account"]) == "null" {
			if err := call(t, w.conn, all, ""); err == nil || !strings.Contains(err.Error(), "account is required") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		want := apiFaults(body)
		var got []string
		err := call(t, w.conn, all, "")
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "22023" {
			got = strings.Split(refused.Message, "\n")
		}
		if accepted := strings.HasPrefix(name, `"changed_paths": ["$", "$.a"`); !accepted && len(want) == 0 {
			t.Errorf("%s: the API has no fault", name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the function says\n%q\nthe API says\n%q\n(%v)", name, got, want, err)
		}
		if err := call(t, w.conn, all, ", on_error => 'reject'"); err != nil {
			t.Errorf("%s, rejected: %v", name, err)
		}
	}
	if got, want := w.number("select count(*) from postrider.outbox_rejected"), int64(len(faulty)-1); got != want {
		t.Errorf("%d rows were rejected, want %d", got, want)
	}
	w.wantData("[]")
}

// What the API accepts, the function accepts.
func TestNoFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, fields := range []string{
		`"type": "a"`, `"type": "Order_1.item-added.x"`, `"idempotency_key": "a\tb"`, `"ordering_key": ""`, `"api_version": ""`,
		`"idempotency_key": "` + strings.Repeat("k", 256) + `"`, `"max_attempts": 1`, `"max_attempts": 100`, `"subject": "übrig"`,
		`"channels": []`, `"channels": ["a", "b"]`, `"metadata": {}`, `"metadata": {"a": "", "b\"c": "d"}`, `"metadata": ` + keys(20),
		`"previous": null`, `"previous": {"a": 1}`, `"previous": null, "changed_paths": ["$"]`, `"changed_paths": []`,
		`"changed_paths": ` + paths(100),
		`"content_type": "text/csv", "data": "a,b"`, `"content_type": "text/plain; charset=utf-8", "data": "ä"`,
		`"content_type": "application/vnd.shop+xml", "data": "<a/>"`, `"data": null`, `"data": "text"`, `"data": 1`,
	} {
		all, body := merged(t, fields)
		if faults := apiFaults(body); faults != nil {
			t.Errorf("%s: the API says %q", fields, faults)
		}
		if err := call(t, w.conn, all, ""); err != nil {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

// Some arguments are no fields of the API's body, or cannot be there.
func TestFaultsOfArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for call, want := range map[string]string{
		`'acme', 'a.b', null`:                                              "data is required",
		`'acme', null, '1'`:                                                "type is required",
		`'acme', 'a.b', '1', on_error => 'ignore'`:                         "on_error must be raise or reject",
		`'acme', 'a.b', '1', "order" => 'none'`:                            "order must be lock or call",
		`'acme', 'a.b', '1', hops => 8`:                                    postrider.ErrLoop.Error(),
		`'acme', 'a.b', '1', hops => -1`:                                   "hops must not be negative",
		`'acme', 'a.b', '1', endpoints => '{}'`:                            "endpoints must have 1 to 100 endpoints",
		`'acme', 'a.b', '1', endpoints => array[null]::text[]`:             "endpoints[0] must not be null",
		`'acme', 'a.b', '1', channels => '{{a,b},{c,d}}'`:                  "channels[0] must be a string",
		`'acme', 'a.b', '1', occurred_at => 'infinity'`:                    "occurred_at must be after 1970 and at most 10 minutes ahead",
		`'acme', 'a.b', '1', occurred_at => '-infinity'`:                   "occurred_at must be after 1970 and at most 10 minutes ahead",
		`'acme', 'a.b', '1', occurred_at => now() + interval '11 minutes'`: "occurred_at must be after 1970 and at most 10 minutes ahead",
		`'acme', 'a.b', '1', metadata => '{"a": "\u0000"}'`:                "metadata must be JSON by RFC 7493",
		`'acme', 'a.b', '1', metadata => '{"a": "\ud800"}'`:                "metadata must be JSON by RFC 7493",
	} {
		wantRefused(t, w.conn, "22023 "+want, "select postrider.publish("+call+")")
		if strings.HasPrefix(want, "o") && !strings.HasPrefix(want, "occurred") {
			continue // these two are no faults of the event
		}
		w.exec("select postrider.publish(" + call + ", on_error => 'reject')")
	}
	wantRefused(t, w.conn, "22023 content_type must not be empty", "select postrider.publish_bytes('acme', 'a.b', 'x', null)")
}

// The server that reads the outbox says which data is too large. Nothing is refused that any server accepts by default.
func TestDataHasTheLimitOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, dsn := w.role("postrider_reader")
	reader := openAt(t, dsn)
	publish := func(size int) string {
		return fmt.Sprintf("select postrider.publish('acme', 'a.b', to_json(repeat('x', %d)))", size-len(`""`))
	}
	for _, tt := range []struct{ set, limit int }{{0, 256 << 10}, {1 << 20, 1 << 20}, {300_000, 300_000}, {1024, 256 << 10}} {
		if err := reader.LimitData(t.Context(), tt.set); err != nil {
			t.Fatal(err)
		}
		w.exec(publish(tt.limit))
		wantRefused(t, w.conn, fmt.Sprintf("22023 data must be at most %d bytes", tt.limit), publish(tt.limit+1))
	}
}

func TestARejectionSaysOneThing(t *testing.T) {
	t.Parallel()
	fault := &postrider.InvalidError{Field: "data", Code: postrider.FaultTooLong, Reason: "must be at most 262144 bytes"}
	r := outbox.Refuse(outbox.Row{}, errors.Join(errors.New("the request is too large"), fault))
	if r.Message != fault.Error() || r.Code != "too_long" || r.Field != "data" {
		t.Errorf("got %+v", r)
	}
}
