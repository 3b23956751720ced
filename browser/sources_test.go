package browser_test

import (
	"strings"
	"testing"
)

// TestAnOperatorMendsRejectedRows goes the way of a person who was told that rows of a producer were rejected:
// those of an account that was misspelt get the right one, one that is of no use is discarded, and the rows that
// come while the source is paused are read when it is resumed.
func TestAnOperatorMendsRejectedRows(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.call(t, "POST /accounts", object{"uid": "globex"})
	of := newShop(t)
	for _, account := range []string{"globx", "globx", "nobody"} {
		of.publish(t, fields{"account": account, "type": "order.paid", "data": `{"customer": "Ada Lovelace"}`})
	}
	s.source(t, of, 3)
	tb := (&world{server: s}).logIn(t, newVisitor(t, s.url))
	tb.open("/dashboard")
	tb.click("Sources")
	tb.click("shop")
	tb.sees("globx", "nobody", "account names no account", "Filter by an account or a reason")

	tb.fill("Account", "globx")
	tb.click("Filter")
	tb.find("link", "Clear") // the list is the filtered one
	tb.seesNo("nobody")
	tb.fill("For another account", "globex")
	tb.click("Retry all of these")
	tb.sees("2 rows wait to be published again.", "nobody")
	tb.seesNo("globx")
	s.published(t, 2)
	tb.click("Events")
	tb.click("order.paid")
	tb.sees("Ada Lovelace")

	tb.click("Sources")
	tb.click("shop")
	tb.click("Discard")
	tb.inDialog("Discard")
	tb.sees("One row is discarded.", "No row was rejected")

	tb.click("Pause")
	tb.sees("The source is paused. Its rows wait.", "Paused")
	of.publish(t, fields{"account": "globex", "type": "order.sent", "data": `{}`})
	tb.click("Resume")
	tb.sees("The source is read again.")
	s.published(t, 3)
}

// TestAnOperatorSeesATableOfTheProducersOwn reads an outbox that has the columns of Debezium. Its row that cannot
// be published waits in the table, so the page offers to discard it and no retry.
func TestAnOperatorSeesATableOfTheProducersOwn(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.call(t, "POST /accounts", object{"uid": "globex"})
	of := newShop(t)
	of.do(t, `create table outbox (id uuid primary key default gen_random_uuid(), aggregatetype text, aggregateid text, type text,
		payload jsonb, created_at timestamptz default now())`)
	of.do(t, `insert into outbox (aggregatetype, aggregateid, type, payload)
		values ('order', 'order-1', 'order.paid', '{"order": 1}'), ('order', 'order-2', 'order paid!', '{"order": 2}')`)
	of.do(t, `grant select, delete on outbox to link`)
	s.command(t, "sources", "put", "shop", "--database-url", of.url, "--table", "public.outbox", "--preset", "debezium",
		"--order-column", "created_at", "--fixed-account", "globex")
	s.published(t, 1)
	tb := (&world{server: s}).logIn(t, newVisitor(t, s.url))
	tb.open("/dashboard/sources")
	tb.click("shop")
	tb.sees("public.outbox", "its rows are deleted once they are read", "order paid!", "type must be segments")
	if tb.has("button", "Retry") {
		t.Error("a row of a table of the producer's own can be retried")
	}
	for _, size := range widths {
		tb.resize(size.width, size.height)
		if wide := tb.overflow(size.width); len(wide) > 0 {
			t.Errorf("at %d pixels %s", size.width, strings.Join(wide, "\n  "))
		}
	}
	tb.click("Discard")
	tb.inDialog("Discard")
	tb.sees("One row is discarded.", "No row was rejected")
}

// published waits until the server has as many events.
func (s *server) published(t *testing.T, events int) {
	t.Helper()
	eventually(t, func() string {
		if got := s.call(t, "GET /events", nil); len(got.items()) != events {
			return "the events are " + got.text
		}
		return ""
	})
}
