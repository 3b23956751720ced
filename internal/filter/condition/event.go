package condition

import (
	"bytes"
	"encoding/json"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/postrider/postrider"
)

// Event has the variables of conditions. It is decoded once, and only if a condition asks for it. So
// the event must not change, and only one goroutine at a time may use it.
type Event struct {
	of             *postrider.Event
	data, previous any // nil: not decoded
}

// Of returns the variables of an event.
func Of(e *postrider.Event) *Event { return &Event{of: e} }

// Parent implements [cel.Activation].
func (*Event) Parent() cel.Activation { return nil }

// ResolveName implements [cel.Activation].
func (e *Event) ResolveName(name string) (any, bool) {
	switch name {
	case "data":
		text := e.of.Data
		if e.of.About.ContentType != "" { // a text such as 42 would be JSON
			text = nil
		}
		e.data = decoded(e.data, text)
		return e.data, true
	case "previous":
		e.previous = decoded(e.previous, e.of.About.Previous)
		return e.previous, true
	case "type":
		return e.of.Type, true
	case "subject":
		return e.of.About.Subject, true
	case "channels":
		return e.of.About.Channels, true
	case "metadata":
		return e.of.About.Metadata, true
	case "internal":
		return e.of.About.Internal, true
	}
	return nil, false
}

// decoded returns known, or if it is nil, the value of the JSON. A text that is not JSON is an object
// without fields.
func decoded(known any, text []byte) any {
	if known != nil {
		return known
	}
	none := map[string]any{}
	if !json.Valid(text) {
		return none
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a number beyond the doubles must not make all of the data unreadable
	var v any
	if err := d.Decode(&v); err != nil {
		return none
	}
	if v == nil {
		return types.NullValue
	}
	return doubles(v)
}

// doubles returns the value with doubles as its numbers. A number beyond them is infinite.
func doubles(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, _ := strconv.ParseFloat(v.String(), 64)
		return f
	case []any:
		for i := range v {
			v[i] = doubles(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = doubles(v[name])
		}
	}
	return v
}
