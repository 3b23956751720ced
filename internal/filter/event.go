package filter

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/postrider/postrider"
)

// Event is what patterns are compared with. It is decoded once, as far as patterns ask for it. So it
// must not change after the first use, and only one goroutine at a time may use it.
//
// Type and Subject are strings of the event, Channels is an array of strings, and Metadata and
// Internal are objects. A zero field is missing.
type Event struct {
	Data     []byte // JSON; anything else has no fields
	Type     string
	Subject  string
	Channels []string
	Metadata map[string]string
	Internal map[string]string

	// What changed: the object before, as JSON, or paths in Data. No pattern has them as fields.
	Previous     []byte
	ChangedPaths []string

	root    *value
	meter   *meter
	before  *value          // Previous; nil: not decoded, or missing
	changed map[string]bool // what Changed has found, by path
}

// A meter limits the comparisons with an event. A nil meter has no limit.
type meter struct{ left int }

func (m *meter) spend(units int) {
	if m != nil {
		m.left -= units
	}
}

// costOf returns the units of the comparison of a condition with a value: one for each operator, and
// as much again for each 16 bytes of the value.
func costOf(l *leaf, s scalar) int { return (1 + len(l.tests)) * (1 + len(s.text)/16) }

// costOfChanged returns the units of the question whether a path has changed. All of ChangedPaths or of
// Previous may have to be compared.
func (e *Event) costOfChanged() int { return 1 + len(e.ChangedPaths) + len(e.Previous)/16 }

func (m *meter) empty() bool { return m != nil && m.left <= 0 }

// Limit limits the comparisons with the event. A unit takes some nanoseconds; see costOf. Limit must be called before the first comparison.
func (e *Event) Limit(units int) { e.meter = &meter{units} }

// Spend counts what a caller does with the event beside these comparisons.
func (e *Event) Spend(units int) { e.meter.spend(units) }

// Exceeded reports whether the limit is reached. Then the results of comparisons since have no
// meaning.
func (e *Event) Exceeded() bool { return e.meter.empty() }

// Of returns the event in the form that patterns are compared with. Everybody who compares a stored
// event uses it, so all get the same answer. The event must not change while the result is in use.
func Of(e *postrider.Event) *Event {
	data := e.Data
	if e.About.ContentType != "" { // a text such as 42 would be JSON
		data = nil
	}
	return &Event{
		Data: data, Type: e.Type, Subject: e.About.Subject, Channels: e.About.Channels,
		Metadata: e.About.Metadata, Internal: e.About.Internal, Previous: e.About.Previous, ChangedPaths: e.About.ChangedPaths,
	}
}

// roots are the fields of an event, in the order in which errors name them, and whether a pattern may
// have a condition and an object for them.
var roots = []struct {
	name              string
	condition, object bool
}{
	{"data", true, true},
	{"type", true, false},
	{"subject", true, false},
	{"channels", true, false},
	{"metadata", false, true},
	{"internal", false, true},
}

// value returns the event as an object.
func (e *Event) value() *value {
	if e.root != nil {
		return e.root
	}
	var items []value
	if data := decode("data", e.Data); data != nil {
		data.meter = e.meter
		items = append(items, *data)
	}
	if e.Type != "" {
		items = append(items, newString("type", e.Type))
	}
	if e.Subject != "" {
		items = append(items, newString("subject", e.Subject))
	}
	if len(e.Channels) > 0 {
		var channels []value
		for _, c := range e.Channels {
			channels = append(channels, newString("", c))
		}
		items = append(items, newList("channels", kindArray, channels))
	}
	root := newList("", kindObject, append(items, newMap("metadata", e.Metadata), newMap("internal", e.Internal)))
	e.root = &root
	return e.root
}

// decode returns the value of the JSON text; nil: it is not JSON.
func decode(name string, text []byte) *value {
	if !json.Valid(text) {
		return nil
	}
	v := newValue(name, strings.Trim(string(text), " \t\r\n"))
	return &v
}

func newMap(name string, m map[string]string) value {
	var items []value
	for _, key := range slices.Sorted(maps.Keys(m)) {
		items = append(items, newString(key, m[key]))
	}
	return newList(name, kindObject, items)
}
