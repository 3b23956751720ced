package api_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api"
)

// converter returns what converts rows of outboxes.
func (w *world) converter() *api.Handler {
	w.Helper()
	h, ok := w.handler.(*api.Handler)
	if !ok {
		w.Fatal("the handler is none of the API")
	}
	return h
}

func TestARowIsConvertedLikeAPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	b := row{
		Account: "acme", Type: "order.created", Data: json.RawMessage(`{ "a": 1e400 }`), OrderingKey: "k", Hops: 3,
		TraceParent: trace, TraceState: "v=1",
		About: apitypes.About{Internal: map[string]string{"a": "b"}}, Endpoints: []string{acme.endpoint},
	}
	e, err := w.converter().Convert(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	if e.Account.String() != acme.account || string(e.Data) != `{ "a": 1e400 }` || e.OrderingKey != "k" || e.Hops != 3 ||
		e.TraceState != "v=1" || e.Trace().String() != trace[3:35] || e.About.Internal["a"] != "b" || len(e.Endpoints) != 1 {
		t.Errorf("Convert = %+v", e)
	}
}

// row is an event as a producer's table has it.
type row = apitypes.EventCreate

func TestAWrongRowIsRefusedLikeAPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for name, tt := range map[string]struct {
		change func(*row)
		field  string
		class  error
	}{
		"an unknown account":        {func(e *row) { e.Account = "nobody" }, "account", postrider.ErrInvalid},
		"no account":                {func(e *row) { e.Account = "" }, "account", postrider.ErrInvalid},
		"a wrong type":              {func(e *row) { e.Type = "no type" }, "type", postrider.ErrInvalid},
		"a name that occurs twice":  {func(e *row) { e.Data = json.RawMessage(`{"a": 1, "a": 2}`) }, "data.a", postrider.ErrInvalid},
		"no JSON":                   {func(e *row) { e.Data = json.RawMessage(`{"a"`) }, "data.a", postrider.ErrInvalid},
		"JSON behind JSON":          {func(e *row) { e.Data = json.RawMessage(`1}, {"data": 2`) }, "body", postrider.ErrInvalid},
		"a field behind the data":   {func(e *row) { e.Data = json.RawMessage(`1, "type": "x"`) }, "type", postrider.ErrInvalid},
		"a previous that is a list": {func(e *row) { e.Previous = json.RawMessage(`[]`) }, "previous", postrider.ErrInvalid},
		"a control character":       {func(e *row) { e.OrderingKey = "a\x01" }, "ordering_key", postrider.ErrInvalid},
		"a loop":                    {func(e *row) { e.Hops = postrider.MaxHops }, "", postrider.ErrLoop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := row{Account: "acme", Type: "order.created", Data: json.RawMessage(`1`)}
			tt.change(&good)
			_, err := w.converter().Convert(t.Context(), &good)
			field := ""
			if faults := postrider.Faults(err); len(faults) > 0 {
				field = faults[0].Field
			}
			if !errors.Is(err, tt.class) || field != tt.field {
				t.Errorf("Convert = %v, with a fault of %q; want %v of %q", err, field, tt.class, tt.field)
			}
		})
	}
}
