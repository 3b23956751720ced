package postrider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestCheckType(t *testing.T) {
	t.Parallel()
	for eventType, valid := range map[string]bool{
		"order": true, "order.created": true, "a.b.c.d": true, "Order_2.re-done": true, "0": true,
		strings.Repeat("a", postrider.MaxTypeLength):   true,
		strings.Repeat("a", postrider.MaxTypeLength+1): false,
		"":                 false,
		".":                false,
		"order.":           false,
		".order":           false,
		"order..created":   false,
		"order created":    false,
		"order.*":          false,
		"*":                false,
		"order\n":          false,
		"bestellung.größe": false,
	} {
		err := postrider.CheckType("type", eventType)
		if (err == nil) != valid {
			t.Errorf("CheckType(%q) = %v, want valid %t", eventType, err, valid)
		}
		if err != nil && postrider.Faults(err)[0].Field != "type" {
			t.Errorf("CheckType(%q) blames %q, want type", eventType, postrider.Faults(err)[0].Field)
		}
	}
}

// TestEventCheck holds the limits and the texts that every way to publish has.
func TestEventCheck(t *testing.T) {
	t.Parallel()
	valid := postrider.Event{Type: "order.created", Data: []byte("{}")}
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, tt := range []struct {
		name   string
		change func(e *postrider.Event)
		want   string
	}{
		{"all that it needs", func(*postrider.Event) {}, ""},
		{"the longest texts", func(e *postrider.Event) {
			e.IdempotencyKey, e.OrderingKey, e.APIVersion = long(postrider.MaxEventKey), long(postrider.MaxEventKey), long(postrider.MaxAPIVersion)
			e.Data, e.MaxAttempts, e.Hops = []byte(long(100)), postrider.MaxRetryAttempts, postrider.MaxHops-1
		}, ""},
		{
			"a type of the server", func(e *postrider.Event) { e.Type = "postrider.test" },
			"type must not begin with postrider., which is for the server's own events",
		},
		{
			"no type", func(e *postrider.Event) { e.Type = "" },
			"type must be segments of letters, digits, _ and - joined by dots, at most 128 bytes",
		},
		{"long texts", func(e *postrider.Event) {
			e.IdempotencyKey, e.OrderingKey, e.APIVersion = long(257), long(257), long(65)
		}, "idempotency_key is too long\nordering_key is too long\napi_version is too long"},
		{"attempts below one", func(e *postrider.Event) { e.MaxAttempts = -1 }, "max_attempts must be 1 to 100"},
		{"large data", func(e *postrider.Event) { e.Data = []byte(long(101)) }, "data must be at most 100 bytes"},
		{"data and metadata of the largest size", func(e *postrider.Event) {
			e.Data, e.About.Metadata = []byte(long(50)), map[string]string{long(20): long(30)}
		}, ""},
		{
			"data and metadata that are larger", func(e *postrider.Event) {
				e.Data, e.About.Metadata = []byte(long(50)), map[string]string{long(20): long(31)}
			},
			"data must be, with what the event says of itself, at most 100 bytes",
		},
		{
			"a large object before", func(e *postrider.Event) { e.About.Previous = []byte("{" + long(98) + "}") },
			"previous must be, with data and what else the event says of itself, at most 100 bytes",
		},
		{
			"what an event says of itself", func(e *postrider.Event) { e.About.Subject = long(257); e.Type = "" },
			"type must be segments of letters, digits, _ and - joined by dots, at most 128 bytes\nsubject is too long\n" +
				"data must be, with what the event says of itself, at most 100 bytes",
		},
		{"a loop", func(e *postrider.Event) { e.Hops = postrider.MaxHops }, "the event is in a loop of webhook senders"},
	} {
		e, got := valid, ""
		tt.change(&e)
		if err := e.Check(100); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: Check = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPatternMatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		pattern postrider.Pattern
		matches []string
		misses  []string
	}{
		{
			"a type selects itself alone", "order.created",
			[]string{"order.created"},
			[]string{"order", "order.created.late", "order.Created", "order.create", ""},
		},
		{
			"a prefix selects what is below it, at any depth", "order.*",
			[]string{"order.created", "order.item.added"},
			[]string{"order", "orders.created", "ordering", "order.", ""},
		},
		{
			"a longer prefix", "order.item.*",
			[]string{"order.item.added"},
			[]string{"order.item", "order.items.added", "order.created"},
		},
		{
			"a star selects everything that producers publish", "*",
			[]string{"order", "order.created", "a.b.c", "postrider", "postriders.a"},
			[]string{"", "postrider.endpoint.disabled"},
		},
		{
			"operational events are selected by name", "postrider.*",
			[]string{"postrider.endpoint.disabled", "postrider.test"},
			[]string{"order.created", "postrider"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, eventType := range tt.matches {
				if !tt.pattern.Matches(eventType) {
					t.Errorf("%s does not match %q", tt.pattern, eventType)
				}
			}
			for _, eventType := range tt.misses {
				if tt.pattern.Matches(eventType) {
					t.Errorf("%s matches %q", tt.pattern, eventType)
				}
			}
		})
	}
}

func TestPatternCheck(t *testing.T) {
	t.Parallel()
	for pattern, valid := range map[postrider.Pattern]bool{
		"*": true, "order": true, "order.created": true, "order.*": true, "order.item.*": true,
		"": false, ".*": false, "**": false, "*.created": false, "order*": false, "order.*.late": false,
		"order.**": false, "order.*.*": false, "order.": false, "*.*": false,
	} {
		err := pattern.Check("event_types[0]")
		if (err == nil) != valid {
			t.Errorf("Check(%q) = %v, want valid %t", pattern, err, valid)
		}
		if err != nil && postrider.Faults(err)[0].Field != "event_types[0]" {
			t.Errorf("Check(%q) blames %q, want event_types[0]", pattern, postrider.Faults(err)[0].Field)
		}
	}
}

// For every pattern that passes Check, Matches agrees with a second definition, which compares
// segments.
func FuzzPattern(f *testing.F) {
	f.Add("order.*", "order.created")
	f.Add("*", "a")
	f.Add("order", "order")
	f.Add("order.*", "orders.x")
	f.Fuzz(func(t *testing.T, pattern, eventType string) {
		p := postrider.Pattern(pattern)
		if p.Check("p") != nil || postrider.CheckType("t", eventType) != nil {
			return
		}
		if got, want := p.Matches(eventType), matchesBySegments(pattern, eventType); got != want {
			t.Errorf("%q matches %q = %t, want %t", pattern, eventType, got, want)
		}
	})
}

func matchesBySegments(pattern, eventType string) bool {
	want, got := strings.Split(pattern, "."), strings.Split(eventType, ".")
	for i, segment := range want {
		switch {
		case segment == "*":
			return len(got) > i
		case i >= len(got) || segment != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}

func TestATestEventIsKnownByItsID(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000).UTC()
	id := postrider.MakeID[postrider.EventID](at, [10]byte{0xff, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	test := postrider.TestEventID(id)
	if postrider.IsTest(id) || !postrider.IsTest(test) || postrider.IsTest(postrider.EventID{}) {
		t.Errorf("%s is a test: %t, %s: %t", id, postrider.IsTest(id), test, postrider.IsTest(test))
	}
	if parsed, err := postrider.ParseID[postrider.EventID](test.String()); err != nil || parsed != test || !parsed.Time().Equal(at) {
		t.Errorf("%s is read as %s of %s, %v", test, parsed, parsed.Time(), err)
	}
}
