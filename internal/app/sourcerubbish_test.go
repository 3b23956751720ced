package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

// TestRubbishInAnOutboxIsRejected has somebody write rows by hand, around the functions of the outbox. Each is rejected with a
// reason, or is sent. None stops the others.
func TestRubbishInAnOutboxIsRejected(t *testing.T) {
	t.Parallel()
	s, receiver := newShop(t), testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := start(t, t.TempDir())
	r.subscribe(t, receiver.URL)
	const known = "00000000-0000-4000-8000-000000000001"
	good := []string{
		"id, data", "'" + known + "', '{\"n\": 1}'",
		"number, data", `9223372036854775807, '{"n": 2}'`,
		"number, data", `-7, '{"n": 3}'`,
		"tx, data", `'987654321987', '{"n": 4}'`,
		"occurred_at, published_at, data", `'infinity', '-infinity', '{"n": 5}'`,
		"traceparent, tracestate, data", `'nonsense', 'nonsense', '{"n": 6}'`,
		"producer, channels, data", `'', '{}', '{"n": 7}'`,
	}
	bad := []string{
		"data", `'\xff'`, "data",
		"data", `''`, "data",
		"data", `'{"a": 1, "a": 2}'`, "data.a",
		"data", `convert_to(repeat('[', 100) || repeat(']', 100), 'UTF8')`, "data",
		"data", `convert_to('"' || repeat('x', 2000000) || '"', 'UTF8')`, "data",
		"account", `'nobody'`, "account",
		"account", `''`, "account",
		"type", `'no type!'`, "type",
		"type", `''`, "type",
		"metadata", `'{"a": 1}'`, "metadata",
		"internal", `'[]'`, "internal",
		"previous", `'1'`, "previous",
		"channels", `array[null]::text[]`, "channels[0]",
		"endpoints", `'{nonsense}'`, "endpoints[0]",
		"changed_paths", `'{nonsense}'`, "changed_paths[0]",
		"content_type", `'nonsense'`, "content_type",
		"max_attempts", `-7`, "max_attempts",
		"hops", `2147483647`, "hops",
		"ordering_key", `E'a\u0001'`, "ordering_key",
		"idempotency_key", `repeat('k', 1000)`, "idempotency_key",
		"subject", `E'a\tb'`, "subject",
		"api_version", `repeat('v', 100)`, "api_version",
	}
	insert := func(columns, values string) {
		for column, value := range map[string]string{"account": "'acme'", "type": "'order.created'", "data": "'{}'"} {
			if !slices.Contains(strings.Split(columns, ", "), column) {
				columns, values = columns+", "+column, values+", "+value
			}
		}
		s.exec(fmt.Sprintf("insert into postrider.outbox (%s) overriding system value values (%s)", columns, values))
	}
	for i := 0; i < len(good); i += 2 {
		insert(good[i], good[i+1])
	}
	insert(good[0], good[1]) // a row with the id of another is taken for that one
	want := map[string]int{}
	for i := 0; i < len(bad); i += 3 {
		insert(bad[i], bad[i+1])
		want[bad[i+2]]++
	}
	_, err := r.api.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: s.url}, false)
	s.ok(err)
	eventually(t, "nothing waits", func() bool { return s.waiting() == 0 })
	page, err := r.api.RejectedRows(t.Context(), "shop", client.RejectedFilter{Paging: client.Paging{Limit: 100}})
	s.ok(err)
	for _, row := range page.Data {
		if want[row.Field]--; want[row.Field] < 0 || row.Message == "" {
			t.Errorf("a row was rejected with the field %q: %s", row.Field, row.Message)
		}
	}
	for field, n := range want {
		if n > 0 {
			t.Errorf("%d rows with rubbish in %s were not rejected", n, field)
		}
	}
	eventually(t, "the good rows are sent", func() bool { return len(eventsOfRows(t, receiver)) == len(good)/2 })
	if got := eventsOfRows(t, receiver); len(got[1]) != 1 {
		t.Errorf("two rows with one id are %d events, want 1", len(got[1]))
	}
	for range 2 { // the second has the number of a rejected row
		insert("number, type", "-9, ''")
		eventually(t, "nothing waits", func() bool { return s.waiting() == 0 })
	}
}
