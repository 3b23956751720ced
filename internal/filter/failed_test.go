package filter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/filter"
)

func TestFailed(t *testing.T) {
	t.Parallel()
	const pattern = `{
		"type": [{"prefix": "order."}],
		"data": {
			"status": ["paid"],
			"items": {"sku": ["A"], "count": [2]},
			"$or": [{"total": [1]}, {"items": {"rush": [true]}}]
		}
	}`
	for _, tt := range []struct {
		name, kind, data string
		want             filter.Condition
	}{
		{"the first condition counts", "user.created", `{}`, filter.Condition{Path: "type", Root: "type", JSON: `[{"prefix":"order."}]`}},
		{"a field that is missing", "order.paid", `{"total": 1}`, filter.Condition{Path: "data.status", Root: "data", JSON: `["paid"]`}},
		{
			"the object that fits best counts", "order.paid",
			`{"status": "paid", "total": 1, "items": [{"sku": "B", "count": 1}, {"sku": "A", "count": 1}]}`,
			filter.Condition{Path: "data.items.count", Root: "data", JSON: `[2]`},
		},
		{
			"no branch of an $or holds", "order.paid", `{"status": "paid", "total": 2, "items": {"sku": "A", "count": 2}}`,
			filter.Condition{Path: "data.$or", Root: "data"},
		},
		{
			"conditions hold apart", "order.paid", `{"status": "paid", "items": [{"sku": "A", "count": 2}, {"rush": true}]}`,
			filter.Condition{},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &filter.Event{Type: tt.kind, Data: []byte(tt.data)}
			p := parse(t, pattern)
			if p.Matches(e) {
				t.Fatal("the pattern holds")
			}
			if diff := cmp.Diff(tt.want, p.Failed(e)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
