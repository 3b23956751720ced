package condition_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter/condition"
)

// paid is an event with every field.
func paid() *postrider.Event {
	return &postrider.Event{
		Type: "order.paid",
		Data: []byte(`{"id": 7, "status": "paid", "note": null, "big": 9007199254740993, "huge": 1e400, "rush": true,
			"items": [{"price": 60, "count": 2, "tags": ["a", "b"]}, {"price": 5.5, "count": 1, "tags": []}]}`),
		About: postrider.About{
			Subject: "order/7", Channels: []string{"eu"}, Metadata: map[string]string{"plan": "gold"},
			Internal: map[string]string{"tier": "1"}, Previous: []byte(`{"id": 7, "status": "open"}`),
		},
	}
}

func TestAConditionHolds(t *testing.T) {
	t.Parallel()
	bare := &postrider.Event{Type: "a", Data: []byte("no JSON")}
	for _, row := range []struct {
		text  string
		event *postrider.Event
		holds bool
	}{
		{`data.status == "paid" && previous.status != data.status`, paid(), true},
		{`data.items.exists(i, i.price * i.count > 100.0)`, paid(), true},
		{`data.items.all(i, i.price * i.count > 100.0)`, paid(), false},
		{`data.items.exists_one(i, "a" in i.tags)`, paid(), true},
		{`data.items.filter(i, i.count > 1).size() == 1 && data.items.map(i, i.price)[1] == 5.5`, paid(), true},
		{`data.items.exists(i, i.tags.exists(t, t == "b"))`, paid(), true},
		{`type.startsWith("order.") && subject == "order/7" && "eu" in channels && metadata.plan == "gold"`, paid(), true},
		{`internal.tier == "1"`, paid(), true},
		{`data.note == null && has(data.note) && !has(data.gone)`, paid(), true},
		{`data.id == 7 && data.id == 7.0 && data.id in [7] && data.id > 6`, paid(), true},
		{`data.id + 1.0 == 8.0`, paid(), true},
		{`type(data.id) == double && type(data.items) == list`, paid(), true},
		{"// a comment\ntrue", paid(), true},
		{`timestamp("2026-11-29T00:00:00Z") < timestamp("2026-11-29T00:00:01Z")`, paid(), true},
		// Doubles: the first is another number, the second has no largest one.
		{`data.big == 9007199254740992.0`, paid(), true},
		{`data.huge > 1e308`, paid(), true},
		// What an event does not have.
		{`data == {} && previous == {} && subject == "" && channels == [] && metadata == {} && internal == {}`, bare, true},
		{`has(data.a) || has(previous.a) || has(metadata.a)`, bare, false},
		{`data == {}`, &postrider.Event{Data: []byte("42"), About: postrider.About{ContentType: "text/plain"}}, true},
		{`data == null`, &postrider.Event{Data: []byte(" null ")}, true},
		// An error on one side does not matter where the other side decides.
		{`data.gone == 1 || true`, paid(), true},
	} {
		c, err := condition.Compile(row.text)
		if err != nil {
			t.Errorf("%s: %v", row.text, err)
			continue
		}
		holds, cost, err := c.Holds(condition.Of(row.event))
		if holds != row.holds || err != nil || cost < 0 || cost > condition.MaxCost {
			t.Errorf("%s: %t at a cost of %d, %v; want %t", row.text, holds, cost, err, row.holds)
		}
	}
}

// What fails is an error, and never false.
func TestAnEvaluationFails(t *testing.T) {
	t.Parallel()
	many := &postrider.Event{Data: []byte(`{"a": [` + strings.Repeat("1,", 10_000) + `1]}`)}
	nested := &postrider.Event{Data: []byte(`{"a": [[` + strings.Repeat("1,", 50_000) + `1]], "b": [1,2,3,4,5,6,7,8,9]}`)}
	long := &postrider.Event{Data: []byte(`{"t": "` + strings.Repeat("a", 100_000) + `", "b": [1,2,3,4,5,6,7,8,9],
		"c": [` + strings.Repeat(`"2026-11-29T00:00:00Z", `, 99) + `"2026-11-29T00:00:00Z"]}`)}
	for _, row := range []struct {
		text  string
		event *postrider.Event
		says  string
	}{
		{`data.gone == 1`, paid(), "no such key: gone"},
		{`metadata.gone == "a"`, paid(), "no such key: gone"},
		{`data.id + 1 == 8`, paid(), "no such overload"},
		{`data.status.gone == 1`, paid(), ""},
		{`data.items[2].price > 1`, paid(), "index out of bounds"},
		{`int(data.status) == 1`, paid(), ""},
		{`data.rush && data.status`, paid(), "no such overload"},
		{`data.a.all(x, data.a.all(y, x == y))`, many, "cost limit"},
		{`data.b.all(x, data.a == data.a)`, nested, "cost limit"},
		{`data.b.all(x, data.a in [data.a])`, nested, "cost limit"},
		{`data.b.all(x, size(data.t) > 0)`, long, "cost limit"},
		{`data.b.map(x, data.t + data.t).size() > 0`, long, "cost limit"},
		{`data.c.all(x, timestamp(x).getHours("Asia/Tokyo") > 0)`, long, "cost limit"},
	} {
		c, err := condition.Compile(row.text)
		if err != nil {
			t.Errorf("%s: %v", row.text, err)
			continue
		}
		holds, cost, err := c.Holds(condition.Of(row.event))
		if err == nil || holds || !strings.Contains(err.Error(), row.says) || cost > condition.MaxCost {
			t.Errorf("%s: %t at a cost of %d, %v; want an error with %q", row.text, holds, cost, err, row.says)
		}
	}
}

// hostile are texts that are refused, with the places of their faults.
var hostile = []struct {
	name, text string
	places     []string
}{
	{"empty", "", []string{"condition.1:1"}},
	{"no CEL", "data.total >", []string{"condition.1:13"}},
	{"two faults in two lines", "dat.total > 1 &&\n  type > 5", []string{"condition.1:1", "condition.2:8"}},
	{"a text", `data.status + "a"`, []string{"condition.1:1"}},
	{"a value that may be no boolean", "data.rush", []string{"condition.1:1"}},
	{"a regular expression", `data.a.matches("(a+)+$")`, []string{"condition.1:15"}},
	{"three macros in each other", "data.a.all(x, data.a.all(y, data.a.all(z, true)))", []string{"condition.1:39"}},
	{"many macros side by side", strings.Repeat("data.a.all(x, data.a.all(y, x != y)) && ", 60) + "true", []string{"condition"}},
	{"no time", `timestamp("yesterday") < timestamp("2026-11-29T00:00:00Z")`, []string{"condition.1:11"}},
	{"too long", strings.Repeat(" ", condition.MaxBytes) + "true", []string{"condition"}},
	{"another variable", "request.time > 5", []string{"condition.1:1"}},
}

func TestHostileTextsAreRefusedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	for _, row := range hostile {
		_, err := condition.Compile(row.text)
		if err == nil {
			t.Errorf("%s: is accepted", row.name)
			continue
		}
		var places []string
		for _, f := range postrider.Faults(err) {
			places = append(places, f.Field)
		}
		if fmt.Sprint(places) != fmt.Sprint(row.places) {
			t.Errorf("%s: faults at %v, want %v: %v", row.name, places, row.places, err)
		}
	}
	deep := strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000)
	if _, err := condition.Compile(deep); len(postrider.Faults(err)) == 0 {
		t.Errorf("2,000 brackets in each other: %v, want a fault", err)
	}
}

func TestInternalIsRefusedWhereItIsUsed(t *testing.T) {
	t.Parallel()
	const text = "type == \"a\" ||\n has(internal.a) || internal.b == \"c\""
	_, err := condition.Compile(text, "internal")
	faults := postrider.Faults(err)
	if len(faults) != 2 || faults[0].Field != "condition.2:6" || faults[1].Field != "condition.2:21" {
		t.Errorf("the faults are %v", err)
	}
	c, err := condition.Compile(text)
	if err != nil || !c.Uses("internal") || !c.Uses("type") || c.Uses("data") {
		t.Errorf("Uses of %+v, %v", c, err)
	}
	// Beside a variable of a macro with its name, the root has a dot in front.
	if _, err := condition.Compile(`[0].exists(internal, has(.internal.a))`, "internal"); len(postrider.Faults(err)) != 1 {
		t.Errorf("a root with a dot in front: %v, want a fault", err)
	}
	if _, err := condition.Compile(`data.internal == 1`, "internal"); err != nil {
		t.Errorf("other names: %v", err)
	}
}

// A text is compiled once while somebody has it.
func TestATextIsCompiledOnce(t *testing.T) {
	t.Parallel()
	const text = `data.once == 1 && has(internal.once)`
	first, err := condition.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := condition.Compile(text); err != nil || second != first {
		t.Errorf("the second is %p, %v; the first is %p", second, err, first)
	}
	if _, err := condition.Compile(text, "internal"); len(postrider.Faults(err)) != 1 {
		t.Errorf("without internal: %v", err)
	}
	if _, err := condition.Compile(`int("a") == 1`); len(postrider.Faults(err)) != 1 {
		t.Errorf("a constant that fails: %v, want a fault", err)
	}
	runtime.KeepAlive(first)
}

// The result and the cost depend on the expression and the event, and on nothing else.
func TestEvaluationsAgree(t *testing.T) {
	t.Parallel()
	c, err := condition.Compile(`data.items.exists(i, i.price > 100.0) || data.id == 7`)
	if err != nil {
		t.Fatal(err)
	}
	e := condition.Of(paid())
	_, first, _ := c.Holds(e)
	for range 3 {
		if holds, cost, err := c.Holds(e); !holds || cost != first || err != nil {
			t.Errorf("%t at a cost of %d, %v; the first cost %d", holds, cost, err, first)
		}
	}
	if holds, cost, err := c.Holds(condition.Of(paid())); !holds || cost != first || err != nil {
		t.Errorf("of another event: %t at a cost of %d, %v; the first cost %d", holds, cost, err, first)
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		text := fmt.Sprintf(`data.items.exists(i, i.price * i.count > %d.0) && type.startsWith("order.")`, i)
		if _, err := condition.Compile(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHolds(b *testing.B) {
	for _, text := range []string{
		`data.status == "open"`, `data.items.exists(i, i.price * i.count > 1000.0) && type.startsWith("order.")`,
		`data.a.all(x, data.a.all(y, x == y))`,
	} {
		c, err := condition.Compile(text)
		if err != nil {
			b.Fatal(err)
		}
		event := paid()
		if strings.Contains(text, "data.a") {
			event.Data = []byte(`{"a": [` + strings.Repeat("1,", 10_000) + `1]}`)
		}
		e := condition.Of(event)
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			cost := 0
			for b.Loop() {
				_, cost, _ = c.Holds(e)
			}
			b.ReportMetric(float64(cost), "units/op")
		})
	}
}
